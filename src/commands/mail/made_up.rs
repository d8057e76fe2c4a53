//! What the verbs share that show or try a mail: made-up values, with licenses of the first plugin in the registry, and the
//! account that sends.

use crate::commands::Failure;
use countersign_mail::account::MailAccount;
use countersign_mail::{MailContent, MailKind, NO_MAIL_SERVER, NO_MAIL_SERVER_HINT, made_up};
use countersign_model::first_copy_link;
use countersign_model::language::Language;
use countersign_model::plugin::Plugin;
use countersign_model::slug::Slug;
use countersign_package::catalog::{self, ReleaseIndex};
use countersign_registry::{RegistryFiles, plugins};
use countersign_settings::config::{Config, FirstCopyRule};

/// A mail of made-up values with `count` licenses. A registry that cannot be read has no plugin.
pub(crate) fn content(config: &Config, kind: MailKind, language: Option<Language>, count: u8) -> MailContent {
    let entries = plugins::load(&RegistryFiles::folder(&config.paths.registry)).unwrap_or_default();
    let plugins = entries.iter().filter_map(|entry| entry.plugin.as_ref().ok());
    let first = plugins.min_by_key(|plugin| plugin.slug.as_str());
    let published = first.and_then(|plugin| published_name(config, &plugin.slug));
    let mut content = made_up::content(kind, language, first, published.as_deref(), count);
    let page = first_copy_page(config, first);
    for license in &mut content.licenses {
        license.download_page.clone_from(&page);
    }
    content
}

/// A page that is none, on the server of this configuration; `None` if its mails have no such link.
fn first_copy_page(config: &Config, plugin: Option<&Plugin>) -> Option<String> {
    let is_hosted = plugin.is_none_or(Plugin::hosts_packages) && config.serve.first_copies == FirstCopyRule::On;
    let public_url = config.serve.links_begin_with().filter(|_| is_hosted)?;
    Some(format!("{public_url}{}made-up", first_copy_link::PATH))
}

fn published_name(config: &Config, slug: &Slug) -> Option<String> {
    let releases = &config.paths.releases;
    let index = ReleaseIndex::read(releases).ok()??;
    catalog::published_name(releases, slug, index.plugins.get(slug)?)
}

/// The account of the configuration.
///
/// # Errors
/// There is no mail server, or a setting is wrong.
pub(super) fn account(config: &Config) -> Result<MailAccount, Failure> {
    let settings = config
        .mail
        .as_ref()
        .ok_or_else(|| Failure::input(NO_MAIL_SERVER).hint(NO_MAIL_SERVER_HINT))?;
    Ok(MailAccount::new(settings)?)
}
