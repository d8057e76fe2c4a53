//! Errors of key commands, and their exit codes.

use std::io;
use std::path::{Path, PathBuf};

use crate::commands::Failure;
use countersign_model::public_key::PublicKeyError;

/// Why a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyCommandError {
    /// A file or folder cannot be read or written.
    #[error("{}: cannot be read or written", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A key is never overwritten.
    #[error("{}: already exists", .0.display())]
    Exists(PathBuf),
    /// The key to rotate to is the signing key.
    #[error("{}: is already the signing key", .0.display())]
    Current(PathBuf),
    /// Not a public key, or one of a size that is not allowed.
    #[error("{}: cannot be used", path.display())]
    Public {
        /// The file.
        path: PathBuf,
        /// Why.
        source: PublicKeyError,
    },
    /// There was a signing key before, and clients would reject a new one.
    #[error("this instance had a signing key: there is {}", trace.display())]
    HadOne {
        /// What shows it.
        trace: PathBuf,
    },
    /// Another command is changing the signing key.
    #[error("{}: another command is changing the keys", .0.display())]
    Busy(PathBuf),
    /// There is no retired private key.
    #[error("{}: no retired private key is kept here", .0.display())]
    NothingToGoBackTo(PathBuf),
    /// The requested retired private key is missing.
    #[error("{}: there is no such retired private key", .0.display())]
    NotRetired(PathBuf),
    /// No key could be made.
    #[error("no key could be made")]
    Generate(#[source] Box<dyn std::error::Error + Send + Sync>),
}

pub(super) fn io_error(path: &Path, source: io::Error) -> KeyCommandError {
    KeyCommandError::Io {
        path: path.to_owned(),
        source,
    }
}

impl From<KeyCommandError> for Failure {
    fn from(error: KeyCommandError) -> Self {
        match error {
            KeyCommandError::Io { .. } | KeyCommandError::Generate(_) | KeyCommandError::Busy(_) => {
                Self::environment(error)
            }
            _ => Self::input(error),
        }
    }
}
