//! Holds the folder of releases while one build publishes. [`publish`](crate::build::publish) asks for it.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::build::error::BuildError;
use crate::regular_file;

/// The locked folder; waits for another build as long as `patience`.
pub(super) fn lock(root: &Path, patience: Duration) -> Result<File, BuildError> {
    let folder = regular_file::open_folder(root).map_err(|source| BuildError::write(root, source))?;
    let deadline = Instant::now() + patience;
    loop {
        match folder.try_lock() {
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => {
                return Err(BuildError::Busy { path: root.to_owned() });
            }
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(50)),
            // Some network file systems have no locks; a vendor builds on one machine.
            Ok(()) | Err(TryLockError::Error(_)) => return Ok(folder),
        }
    }
}
