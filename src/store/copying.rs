//! Copies a ledger between a folder and a database, without a change to a byte.

use std::fs;
use std::io::{BufWriter, Read as _};
use std::path::Path;

use crate::model::digest::Digest;
use crate::regular_file;
use crate::store::error::StoreError;
use crate::store::postgres::shared_copy::SharedCopy;
use crate::store::{disk, lock, reader, recovery};

/// What was copied.
#[derive(Debug)]
pub struct CopyOutcome {
    /// How many lines.
    pub lines: u64,
    /// The `sequence` of the last line.
    pub sequence: u64,
    /// The SHA-256 of the last line.
    pub digest: Digest,
    /// Whether a server used the folder, and may have added lines since.
    pub in_use: bool,
}

/// Appends to the database what it lacks of the ledger in a folder. Keeps a server from starting meanwhile.
pub fn to_database(folder: &Path, address: &str) -> Result<CopyOutcome, StoreError> {
    let store = reader::open(folder)?;
    // What follows was never acknowledged, or is being written.
    let found = recovery::read(folder, |_, _| ())?;
    let ledger = recovery::open(folder).map_err(|source| cannot(folder, source))?;
    let (lines, end) = SharedCopy::open(address)?.put(ledger.take(found.length))?;
    Ok(CopyOutcome {
        lines,
        sequence: end.sequence,
        digest: end.digest,
        in_use: store.is_in_use(),
    })
}

/// Writes the ledger of a database into a folder that has none.
pub fn to_folder(address: &str, folder: &Path) -> Result<CopyOutcome, StoreError> {
    let failed = |source| cannot(folder, source);
    if disk::has_ledger(folder)? {
        let there = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
        return Err(failed(there));
    }
    let shared = SharedCopy::open(address)?;
    lock::make_folder(folder).map_err(failed)?;
    let new = disk::new_ledger_in(folder);
    let copy = || {
        let file = regular_file::create(&new, 0o600).map_err(failed)?;
        let (lines, end) = shared.take(BufWriter::new(&file))?;
        file.sync_all().map_err(failed)?;
        // Fails where somebody else made one meanwhile.
        fs::hard_link(&new, recovery::ledger_in(folder)).map_err(failed)?;
        Ok((lines, end))
    };
    let copied = copy();
    let _ = fs::remove_file(&new);
    let (lines, end) = copied?;
    regular_file::open_folder(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(failed)?;
    Ok(CopyOutcome {
        lines,
        sequence: end.sequence,
        digest: end.digest,
        in_use: false,
    })
}

fn cannot(folder: &Path, source: std::io::Error) -> StoreError {
    StoreError::Read {
        path: folder.to_owned(),
        source,
    }
}
