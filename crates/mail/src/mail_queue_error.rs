//! Why a mail is not in the queue.

use std::io;
use std::path::PathBuf;

use countersign_files::json_folder::JsonFolderError;

/// The most mails that wait, and the most that are parked.
pub const MAX_MAILS: usize = 10_000;

/// Why a mail is not kept or cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum MailQueueError {
    /// The disk fails.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why. Part of the message.
        source: io::Error,
    },
    /// Too many wait.
    #[error("{}: {MAX_MAILS} mails wait already", .0.display())]
    Full(PathBuf),
    /// A file of the queue is not what this program wrote.
    #[error("{}: not a mail of the queue", .0.display())]
    Damaged(PathBuf),
    /// It has no license, too many, or no usable name of its event.
    #[error("not a mail: it needs 1 to 100 licenses, and an event's id of 1 to 200 bytes")]
    Malformed,
}

impl From<JsonFolderError> for MailQueueError {
    fn from(error: JsonFolderError) -> Self {
        match error {
            JsonFolderError::Io { path, source } => Self::Io { path, source },
            JsonFolderError::Damaged(path) => Self::Damaged(path),
        }
    }
}

impl MailQueueError {
    /// What to do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Io { .. } => "run this as the server's user, and look at the disk's space",
            Self::Full(_) => "look at `countersign mail list` and at the mail server",
            Self::Damaged(_) => "look at the file, and delete it",
            Self::Malformed => "report this error with your version",
        }
    }
}
