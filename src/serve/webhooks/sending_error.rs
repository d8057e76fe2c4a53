//! Why nothing can be sent to an endpoint now.

use std::io;

use crate::webhook::outbox::MAX_KEPT;
use countersign_files::json_folder::JsonFolderError;
use countersign_ledger::StoreError;

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
