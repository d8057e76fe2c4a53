//! Why a delivery is not kept or not read.

use std::io;
use std::path::PathBuf;

use crate::json_folder::JsonFolderError;

/// The most deliveries that wait. Shops send again what is not taken.
pub const MAX_DELIVERIES: usize = 10_000;

/// Why a delivery is not kept.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// Too many wait.
    #[error("{}: {MAX_DELIVERIES} deliveries of shops wait: no more are taken", .0.display())]
    Full(PathBuf),
    /// The folder or a file cannot be read or written.
    #[error("{}: the delivery of a shop cannot be read or written", path.display())]
    Io {
        /// The folder or file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The thread that worked on it ended.
    #[error("the work on a delivery of a shop ended: {0}")]
    Stopped(String),
    /// The file is not a delivery.
    #[error("{}: not a delivery of a shop", .0.display())]
    Damaged(PathBuf),
}

impl From<JsonFolderError> for SpoolError {
    fn from(error: JsonFolderError) -> Self {
        match error {
            JsonFolderError::Io { path, source } => Self::Io { path, source },
            JsonFolderError::Damaged(path) => Self::Damaged(path),
        }
    }
}
