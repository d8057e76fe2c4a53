//! An endpoint of a running server, and its folder.

use std::path::Path;

use crate::webhook::outbox::Outbox;
use countersign_files::json_folder::JsonFolderError;
use countersign_settings::config::WebhookConfig;

/// An endpoint with the place of its files.
#[derive(Debug)]
pub struct Endpoint {
    /// Its settings.
    pub config: WebhookConfig,
    /// Its progress, and the messages that it did not take.
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
