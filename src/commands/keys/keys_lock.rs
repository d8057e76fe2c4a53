//! One command at a time changes the keys of a folder.

use std::fs::{File, TryLockError};
use std::path::Path;

use crate::commands::Failure;
use crate::commands::keys::error::{KeyCommandError, io_error};
use crate::regular_file;

/// The folder of a key, held against other commands that change its keys until it is dropped.
pub(super) struct KeysLock {
    _folder: File,
}

impl KeysLock {
    /// Takes the folder, or says that somebody else has it.
    pub(super) fn take(folder: &Path) -> Result<Self, Failure> {
        // The folder itself is locked: no file is left behind, and the lock dies with the process.
        let lock = regular_file::open_folder(folder).map_err(|source| io_error(folder, source))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { _folder: lock }),
            Err(TryLockError::WouldBlock) => Err(Failure::from(KeyCommandError::Busy(folder.to_owned()))
                .hint("look at what it did with `countersign keys list`, then run this again if it is still needed")),
            Err(TryLockError::Error(source)) => Err(io_error(folder, source).into()),
        }
    }
}
