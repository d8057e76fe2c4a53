//! What a server has beside licenses and releases, if the settings name it: mail, webhooks, shops, the desk and the
//! customer's page.
//!
//! Each is checked before anything is opened or made, and begins once the store is open.

use std::io::Write as _;

use chrono::Utc;
use tokio::net::TcpListener;

use crate::commands::Failure;
use crate::serve::Server;
use crate::serve::account::words::AccountTexts;
use crate::serve::hooks::{HookError, Hooks};
use crate::serve::webhooks::endpoint::Endpoint;
use countersign_mail::account::MailAccount;
use countersign_mail::queue::MailQueue;
use countersign_settings::config::{Config, DeskUrl, KeyIssuer, Listen, ShopConfig};
use countersign_settings::keys::webhook_secrets;
use countersign_shops::shop::ShopApi;

/// The account that sends; `None` without a mail server.
///
/// # Errors
/// A setting is wrong, or a file of it cannot be read.
pub(super) fn mail_account(config: &Config) -> Result<Option<MailAccount>, Failure> {
    let Some(settings) = &config.mail else { return Ok(None) };
    let account = MailAccount::new(settings)?;
    account.check_files()?;
    Ok(Some(account))
}

/// Has a server send mails by `account`, if there is one, and remind customers.
///
/// # Errors
/// The queue cannot be opened, or a thread cannot be started.
pub(super) fn begin_mail(server: Server, account: Option<MailAccount>, config: &Config) -> Result<Server, Failure> {
    let server = match account {
        Some(account) => {
            let queue = MailQueue::open(&config.paths.store, Utc::now())?;
            server.with_mail(queue, account, config.paths.registry.clone())
        }
        None => Ok(server),
    };
    server
        .and_then(|server| server.with_reminders(config.reminders.clone()))
        .map_err(Failure::environment)
}

/// Checks that every endpoint has a secret.
///
/// # Errors
/// A secret cannot be read.
pub(super) fn check_webhooks(config: &Config) -> Result<(), Failure> {
    for endpoint in &config.webhooks {
        webhook_secrets::read(&endpoint.name, &endpoint.secret_file)?;
    }
    Ok(())
}

/// Has a server tell the endpoints, if there are any.
///
/// # Errors
/// An outbox cannot be opened, or a thread cannot be started.
pub(super) fn begin_webhooks(server: Server, config: &Config) -> Result<Server, Failure> {
    if config.webhooks.is_empty() {
        return Ok(server);
    }
    let mut endpoints = Vec::new();
    for endpoint in &config.webhooks {
        endpoints.push(Endpoint::open(endpoint.clone(), &config.paths.store)?);
    }
    server.with_webhooks(endpoints).map_err(Failure::environment)
}

/// The keys of a shop need `serve.foreign_keys`.
#[derive(Debug, thiserror::Error)]
#[error("[shops.{0}] has keys = \"shop\", and without serve.foreign_keys no site can use such a key")]
pub(in crate::commands) struct NoForeignKeys(countersign_model::slug::Slug);

/// What to do about it.
pub(in crate::commands) const FOREIGN_KEYS: &str = "set foreign_keys = true in [serve], or keys = \"own\"";

/// Checks that the keys of a shop would work.
///
/// # Errors
/// A shop's own keys are not accepted.
pub(in crate::commands) fn check_keys(shop: &ShopConfig, config: &Config) -> Result<(), NoForeignKeys> {
    match shop.keys == KeyIssuer::Shop && !config.serve.foreign_keys {
        true => Err(NoForeignKeys(shop.name.clone())),
        false => Ok(()),
    }
}

/// What is not known of this shop's sales without an API key.
pub(in crate::commands) fn lacks_api_key(shop: &ShopConfig) -> Option<String> {
    let api = shop.kind.api.as_ref().filter(|_| shop.api.is_none())?;
    Some(format!("{}: without api_key_file, {}", shop.kind.title, api.without))
}

/// A complaint if there is a mail server, but buyers at this shop cannot be mailed their keys.
pub(in crate::commands) fn lacks_addresses(shop: &ShopConfig, config: &Config) -> Option<String> {
    let asks = |api: &ShopApi| api.customer.is_some();
    let lacks = config.mail.is_some() && shop.kind.api.as_ref().is_some_and(asks);
    lacks_api_key(shop).filter(|_| lacks)
}

/// Checks every shop, before anything is opened or made.
///
/// # Errors
/// A secret or an API key is unusable, or a shop's keys would not work.
pub(super) fn check_shops(config: &Config) -> Result<(), Failure> {
    for shop in &config.shops {
        check_keys(shop, config).map_err(|error| Failure::input(error).hint(FOREIGN_KEYS))?;
        if let Some(complaint) = lacks_addresses(shop, config) {
            tracing::warn!(shop = shop.name.as_str(), "{complaint}");
        }
    }
    Ok(Hooks::check(&config.shops)?)
}

/// Opens the door of every shop.
///
/// # Errors
/// As [`check_shops`], or the spool cannot be made.
pub(super) fn open_shops(config: &Config) -> Result<Hooks, Failure> {
    Hooks::open(&config.shops, &config.paths.store).map_err(|error| match error {
        HookError::Secret(error) => error.into(),
        error => Failure::environment(error),
    })
}

/// Why there is no desk.
#[derive(Debug, thiserror::Error)]
enum NoDesk {
    /// Nothing signs its sessions.
    #[error("[desk] needs the keys for issuing and references, with which sessions are signed")]
    Secrets,
}

/// What to do if nothing can listen there.
pub(super) const DESK_LISTEN_HINT: &str = "choose another address with \"listen\" in [desk]";

/// Where the desk listens, if there is one.
///
/// # Errors
/// There are no keys.
pub(super) fn desk_address(config: &Config, has_secrets: bool) -> Result<Option<&Listen>, Failure> {
    match &config.desk {
        Some(_) if !has_secrets => Err(Failure::input(NoDesk::Secrets)
            .hint("make them: countersign keys generate --issuing, and the same with --references")),
        desk => Ok(desk.as_ref().map(|desk| &desk.listen)),
    }
}

/// Has the server serve the desk.
///
/// # Errors
/// The address of the listener is unknown.
pub(super) fn begin_desk(
    server: Server,
    listener: Option<TcpListener>,
    mail: Option<MailAccount>,
    config: &Config,
) -> Result<Server, Failure> {
    let Some(listener) = listener else { return Ok(server) };
    let address = listener.local_addr().map_err(Failure::environment)?;
    let url = config.desk.as_ref().and_then(|desk| desk.url.clone());
    let shown = url
        .as_ref()
        .map_or_else(|| format!("http://{address}"), |url: &DeskUrl| url.origin().to_owned());
    let _ = writeln!(std::io::stdout(), "desk on {shown}: `countersign desk` signs you in");
    tracing::info!(%address, "the desk listens");
    server
        .with_desk(listener, url, mail, config.paths.store.clone())
        .map_err(Failure::environment)
}

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
pub(super) fn check_account(config: &Config, has_secrets: bool) -> Result<(), Failure> {
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
pub(super) fn begin_account(server: Server, mail: Option<MailAccount>, config: &Config) -> Result<Server, Failure> {
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
