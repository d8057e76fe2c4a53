//! The made-up licenses of a mail that is shown or tried: those of the first plugin in the registry.

use countersign_mail::{MailedLicense, made_up};
use countersign_model::slug::Slug;
use countersign_package::catalog::{self, ReleaseIndex};
use countersign_registry::{RegistryFiles, plugins};
use countersign_settings::config::Config;

/// Made-up licenses, `count` of them. A registry that cannot be read has no plugin.
pub(crate) fn licenses(config: &Config, count: u8) -> Vec<MailedLicense> {
    let entries = plugins::load(&RegistryFiles::folder(&config.paths.registry)).unwrap_or_default();
    let plugins = entries.iter().filter_map(|entry| entry.plugin.as_ref().ok());
    let first = plugins.min_by_key(|plugin| plugin.slug.as_str());
    let published = first.and_then(|plugin| published_name(config, &plugin.slug));
    made_up::licenses(first, published.as_deref(), count)
}

fn published_name(config: &Config, slug: &Slug) -> Option<String> {
    let releases = &config.paths.releases;
    let index = ReleaseIndex::read(releases).ok()??;
    catalog::published_name(releases, slug, index.plugins.get(slug)?)
}
