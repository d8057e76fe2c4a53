//! A lock that lets one command at a time change the keys of a folder.

use std::fs::TryLockError;
use std::path::Path;

use crate::commands::Failure;
use crate::commands::keys::error::{KeyCommandError, io_error};
use countersign_files::folder_lock::HeldLock;
use countersign_files::regular_file;

/// The folder of a key, locked against other commands until it is dropped.
pub(super) struct KeysLock {
    _folder: HeldLock,
}

impl KeysLock {
    /// Locks the folder; fails if another command has it.
    pub(super) fn take(folder: &Path) -> Result<Self, Failure> {
        // The folder itself is locked: no lock file is left behind, and the lock ends with the process.
        let opened = regular_file::open_folder(folder).map_err(|source| io_error(folder, source))?;
        let held = HeldLock::take(opened).map_err(|error| match error {
            TryLockError::WouldBlock => Failure::from(KeyCommandError::Busy(folder.to_owned()))
                .hint("check its result with `countersign keys list`, then run this again if needed"),
            TryLockError::Error(source) => io_error(folder, source).into(),
        })?;
        Ok(Self { _folder: held })
    }
}
