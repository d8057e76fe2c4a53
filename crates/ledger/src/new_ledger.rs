//! Begins a ledger in a folder that has none. It gets its name when all of it is on disk.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use crate::copy_outcome::CopyOutcome;
use crate::error::StoreError;
use crate::log::Position;
use crate::{disk, lock, recovery};
use countersign_files::regular_file;

/// The folder has no ledger.
///
/// # Errors
/// It has one, or cannot be read.
pub(super) fn require_none(folder: &Path) -> Result<(), StoreError> {
    match disk::has_ledger(folder)? {
        true => Err(cannot(folder, io::ErrorKind::AlreadyExists.into())),
        false => Ok(()),
    }
}

/// Has `write` fill the ledger; it returns the number of lines and the position of the last one.
///
/// # Errors
/// Nothing was made: `write` failed, the disk did, or somebody else made a ledger meanwhile.
pub(super) fn begin<E: From<StoreError>>(
    folder: &Path,
    write: impl FnOnce(&File) -> Result<(u64, Position), E>,
) -> Result<CopyOutcome, E> {
    let failed = |source| cannot(folder, source);
    lock::make_folder(folder).map_err(failed)?;
    let new = disk::new_ledger_in(folder);
    let written = regular_file::create(&new, 0o600).map_err(failed).map_err(E::from);
    let written = written.and_then(|file| {
        let written = write(&file)?;
        file.sync_all().map_err(failed)?;
        // Fails where somebody else made one meanwhile.
        fs::hard_link(&new, recovery::ledger_in(folder)).map_err(failed)?;
        Ok(written)
    });
    let _ = fs::remove_file(&new);
    let (lines, end) = written?;
    regular_file::open_folder(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(failed)?;
    Ok(CopyOutcome {
        lines,
        sequence: end.sequence,
        digest: end.digest,
        texts: 0,
        in_use: false,
    })
}

/// The folder cannot be read or written.
pub(super) fn cannot(folder: &Path, source: io::Error) -> StoreError {
    StoreError::Read {
        path: folder.to_owned(),
        source,
    }
}
