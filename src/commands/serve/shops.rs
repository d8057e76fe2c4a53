//! Shops of a server: checks the settings before it starts, and opens their door.

use crate::commands::Failure;
use crate::serve::hooks::{HookError, Hooks};
use countersign_settings::config::{Config, KeyIssuer, ShopConfig};
use countersign_shops::shop::ShopApi;

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
pub(super) fn check(config: &Config) -> Result<(), Failure> {
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
/// As [`check`], or the spool cannot be made.
pub(super) fn open(config: &Config) -> Result<Hooks, Failure> {
    Hooks::open(&config.shops, &config.paths.store).map_err(|error| match error {
        HookError::Secret(error) => error.into(),
        error => Failure::environment(error),
    })
}
