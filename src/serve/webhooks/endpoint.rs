//! An endpoint of a running server: its settings and its folder, its numbers, and why nothing can be sent to it now.

use std::io;
use std::path::Path;
use std::sync::atomic::AtomicU64;

use crate::webhook::outbox::{MAX_KEPT, Outbox};
use countersign_files::json_folder::JsonFolderError;
use countersign_ledger::StoreError;
use countersign_model::slug::Slug;
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

/// Numbers of an endpoint, for the metrics.
#[derive(Debug)]
pub(crate) struct EndpointCounts {
    /// The endpoint.
    pub name: Slug,
    /// Messages that it took.
    pub sent: AtomicU64,
    /// Messages that it refused, each time.
    pub refused: AtomicU64,
    /// Attempts that failed because of the endpoint.
    pub failures: AtomicU64,
    /// Messages in files that will be sent.
    pub waiting: AtomicU64,
    /// Messages that a person has to decide.
    pub parked: AtomicU64,
    /// The last line of the ledger that was sent to it.
    pub sequence: AtomicU64,
    /// Since when nothing can be sent, in seconds since 1970; 0 if all is well.
    pub failing_since: AtomicU64,
}

impl EndpointCounts {
    pub(super) fn new(name: Slug) -> Self {
        Self {
            name,
            sent: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            parked: AtomicU64::new(0),
            sequence: AtomicU64::new(0),
            failing_since: AtomicU64::new(0),
        }
    }
}

/// Why nothing can be sent now. Everything waits, and the thread tries again.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendingError {
    #[error("{0}")]
    Endpoint(String),
    #[error(transparent)]
    Outbox(#[from] JsonFolderError),
    #[error(transparent)]
    Ledger(#[from] StoreError),
    #[error("what sites reported cannot be read: {0}")]
    Reports(#[from] io::Error),
    #[error("{MAX_KEPT} messages wait: retry or drop them")]
    Full,
    #[error("another node tells the endpoint")]
    OtherNode,
    #[error("what the database says of the endpoint is not readable: use the same version on all nodes")]
    Cursor,
    #[error("the sending thread failed")]
    Panic,
}
