//! The customer's page of a server that starts: what it needs.

use crate::commands::Failure;
use crate::serve::Server;
use crate::serve::account::words::AccountTexts;
use countersign_mail::account::MailAccount;
use countersign_settings::config::Config;

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
enum NoAccountPage {
    /// Nothing signs its sessions.
    #[error("[account] needs the keys for issuing and references, with which sessions are signed")]
    Secrets,
    /// Nobody can sign in.
    #[error("[account] needs [mail], by which customers sign in")]
    Mail,
    /// Links in mails would lead nowhere.
    #[error("[account] needs \"public_url\" in [serve], or \"url\", with which links in mails begin")]
    Url,
}

/// Whether everything is there.
///
/// # Errors
/// What is missing, or what words cannot be used.
pub(super) fn check(config: &Config, has_secrets: bool) -> Result<(), Failure> {
    let Some(account) = &config.account else { return Ok(()) };
    if !has_secrets {
        return Err(Failure::input(NoAccountPage::Secrets)
            .hint("make them: countersign keys generate --issuing, and the same with --references"));
    }
    if config.mail.is_none() {
        return Err(Failure::input(NoAccountPage::Mail).hint("name your mail server in [mail]: docs/mail.md"));
    }
    if account.url.is_none() && config.serve.links_begin_with().is_none() {
        return Err(
            Failure::input(NoAccountPage::Url).hint("set one to the address by which customers reach this server")
        );
    }
    texts(config).map(drop)
}

fn texts(config: &Config) -> Result<AccountTexts, Failure> {
    AccountTexts::load(&config.paths.registry)
        .map_err(|error| Failure::input(error).hint("docs/account.md names the words of the customer's page"))
}

/// Has the server serve the page, if there is one.
///
/// # Errors
/// Its words cannot be read.
pub(super) fn begin(server: Server, mail: Option<MailAccount>, config: &Config) -> Result<Server, Failure> {
    let (Some(account), Some(mail)) = (config.account.clone(), mail) else {
        return Ok(server);
    };
    let texts = texts(config)?;
    let server = server
        .with_account(account, texts, mail)
        .map_err(Failure::environment)?;
    tracing::info!(url = server.account_url(), "customers have a page");
    Ok(server)
}
