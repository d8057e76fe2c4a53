//! Why a mail is not in the queue.

use std::path::PathBuf;

use countersign_files::json_folder::JsonFolderError;

/// The most mails that wait, and the most that are parked.
pub const MAX_MAILS: usize = 10_000;

/// Why a mail is not kept or cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum MailQueueError {
    /// The disk fails, or a file is damaged.
    #[error(transparent)]
    Folder(#[from] JsonFolderError),
    /// Too many wait.
    #[error("{}: {MAX_MAILS} mails wait already", .0.display())]
    Full(PathBuf),
    /// It has no license, too many, or no usable name of its event.
    #[error("not a mail: it needs 1 to 100 licenses, and an event's id of 1 to 200 bytes")]
    Malformed,
}

impl MailQueueError {
    /// What to do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Folder(JsonFolderError::Io { .. }) => "run this as the server's user, and look at the disk's space",
            Self::Full(_) => "look at `countersign mail parked list --all` and at the mail server",
            Self::Folder(JsonFolderError::Damaged(_)) => "look at the file, and delete it",
            Self::Malformed => "report this error with your version",
        }
    }
}
