//! Shops of a server: checks the settings before it starts, and opens their door.

use crate::commands::Failure;
use crate::serve::hooks::{HookError, Hooks};
use countersign_settings::config::{Config, KeyIssuer, ShopConfig};

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

/// A complaint if there is a mail server, but buyers at this shop cannot be mailed their keys.
pub(in crate::commands) fn lacks_addresses(shop: &ShopConfig, config: &Config) -> Option<String> {
    let lacks = shop.kind.customer_api.is_some() && shop.api.is_none() && config.mail.is_some();
    lacks.then(|| {
        let shop = shop.kind.title;
        format!("{shop}'s deliveries have no address of the buyer, so nobody is mailed a key")
    })
}

/// Checks every shop, before anything is opened or made.
///
/// # Errors
/// A secret or an API key is unusable, or a shop's keys would not work.
pub(super) fn check(config: &Config) -> Result<(), Failure> {
    for shop in &config.shops {
        check_keys(shop, config).map_err(|error| Failure::input(error).hint(FOREIGN_KEYS))?;
        if let Some(complaint) = lacks_addresses(shop, config) {
            tracing::warn!(shop = shop.name.as_str(), "{complaint}: set api_key_file");
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
