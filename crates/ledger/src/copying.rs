//! Copies a ledger between a folder and a database, without a change to a byte, and what is kept of orders.

use std::io::{BufWriter, Read as _};
use std::path::Path;

use crate::error::StoreError;
use crate::postgres::shared_copy::SharedCopy;
use crate::texts::{file, table};
use crate::{new_ledger, reader, recovery};

pub use crate::copy_outcome::CopyOutcome;

/// Appends to the database what it lacks of the ledger in a folder. Keeps a server from starting meanwhile. `note` takes
/// how many lines of all are done.
pub fn to_database(folder: &Path, address: &str, note: &mut dyn FnMut(u64, u64)) -> Result<CopyOutcome, StoreError> {
    let store = reader::open(folder)?;
    // What follows was never acknowledged, or is being written.
    let found = recovery::read(folder, |_, _| ())?;
    // Read after the ledger's end, and written before its lines: each license that arrives has its order.
    let texts: Vec<_> = table::read(folder)?.into_iter().collect();
    let ledger = recovery::open(folder).map_err(|source| new_ledger::cannot(folder, source))?;
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
    new_ledger::require_none(folder)?;
    let shared = SharedCopy::open(address)?;
    let mut copied = 0;
    let outcome = new_ledger::begin(folder, |file| {
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
