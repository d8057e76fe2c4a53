//! Copies a ledger between a folder and a database, without a change to a byte, and what is kept of orders.
//!
//! A folder must have no ledger; the new one gets its name when all of it is on disk.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read as _};
use std::path::Path;

use crate::error::StoreError;
use crate::log::Position;
use crate::postgres::shared_copy::SharedCopy;
use crate::texts::{file, table};
use crate::{disk, lock, reader, recovery};
use countersign_files::regular_file;
use countersign_model::digest::Digest;

/// Appends to the database what it lacks of the ledger in a folder. Keeps a server from starting meanwhile. `note` takes
/// how many lines of all are done.
pub fn to_database(folder: &Path, address: &str, note: &mut dyn FnMut(u64, u64)) -> Result<CopyOutcome, StoreError> {
    let store = reader::open(folder)?;
    // What follows was never acknowledged, or is being written.
    let found = recovery::read(folder, |_, _| ())?;
    // Read after the ledger's end, and written before its lines: each license that arrives has its order.
    let texts: Vec<_> = table::read(folder)?.into_iter().collect();
    let ledger = recovery::open(folder).map_err(|source| cannot(folder, source))?;
    let shared = SharedCopy::open(address)?;
    shared.put_texts(&texts)?;
    let (lines, end) = shared.put(ledger.take(found.length), &mut |done| note(done, found.lines()))?;
    Ok(CopyOutcome {
        lines,
        sequence: end.sequence,
        digest: end.digest,
        texts: texts.len(),
        in_use: store.is_in_use(),
    })
}

/// Writes the ledger of a database into a folder that has none.
pub fn to_folder(address: &str, folder: &Path, note: &mut dyn FnMut(u64, u64)) -> Result<CopyOutcome, StoreError> {
    require_none(folder)?;
    let shared = SharedCopy::open(address)?;
    let mut copied = 0;
    let outcome = begin_ledger(folder, |file| {
        let written = shared.take(BufWriter::new(file), note)?;
        let texts = shared.texts()?;
        copied = texts.len();
        file::begin(folder, &texts).map_err(|source| StoreError::Read {
            path: file::path_in(folder),
            source,
        })?;
        Ok(written)
    })?;
    Ok(CopyOutcome {
        texts: copied,
        ..outcome
    })
}

/// What was copied.
#[derive(Debug)]
pub struct CopyOutcome {
    /// How many lines.
    pub lines: u64,
    /// The `sequence` of the last line.
    pub sequence: u64,
    /// The SHA-256 of the last line.
    pub digest: Digest,
    /// Orders of which something is kept, and was copied.
    pub texts: usize,
    /// Whether a server used the folder, and may have added lines since.
    pub in_use: bool,
}

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
pub(super) fn begin_ledger<E: From<StoreError>>(
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
