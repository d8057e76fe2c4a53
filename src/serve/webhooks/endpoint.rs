//! An endpoint of a running server, and the ledger that it is told.

use std::path::Path;

use crate::webhook::outbox::Outbox;
use countersign_files::json_folder::JsonFolderError;
use countersign_settings::config::WebhookConfig;

/// An endpoint with the place of its files.
#[derive(Debug)]
pub struct Endpoint {
    /// Its settings.
    pub config: WebhookConfig,
    /// How far it was told, and what it did not take.
    pub outbox: Outbox,
}

impl Endpoint {
    /// The endpoint with its folder in `store`.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn open(config: WebhookConfig, store: &Path) -> Result<Self, JsonFolderError> {
        let outbox = Outbox::open(store, &config.name)?;
        Ok(Self { config, outbox })
    }
}
