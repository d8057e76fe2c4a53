//! Reads the ledger whole and compares it with what the index knows: the truth, and what the index lacks of it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::regular_file;
use crate::store::checksum::{BindingsBuilder, BindingsByLicense};
use crate::store::error::StoreError;
use crate::store::log::reader::{self, LedgerExtent, LedgerFault};
use crate::store::log::{self, LedgerEntry, Position};

/// The ledger, read.
pub(crate) struct RecoveredLedger {
    pub by_license: BindingsByLicense,
    pub found: LedgerExtent,
    /// What the index lacks, with the places; `None` where it has to be made anew.
    pub lacking: Option<Vec<(LedgerEntry, Position)>>,
}

/// Reads the ledger of the store in the folder `path`; `known` is the place up to which the index knows it.
///
/// Errors: [`StoreError::Damaged`] where the chain is broken, and where the index knows of what is not in the ledger: it
/// is written after the ledger is on disk, so the ledger has lost something.
pub(crate) fn load(path: &Path, known: Option<Position>) -> Result<RecoveredLedger, StoreError> {
    let mut builder = BindingsBuilder::default();
    let mut lacking = Vec::new();
    let mut differs = false;
    let found = read(path, |position, entry| {
        differs |= known.is_some_and(|known| known.sequence == position.sequence && known.digest != position.digest);
        let Some(entry) = entry else { return };
        if known.is_some_and(|known| known.sequence < position.sequence) {
            lacking.push((entry.clone(), position));
        }
        builder.add(entry);
    })?;
    let broken = |what: String| StoreError::Damaged {
        path: ledger_in(path),
        what,
    };
    let known = known.map(|known| known.sequence);
    if let Some(known) = known.filter(|&known| known > found.end.sequence) {
        return Err(broken(format!(
            "it ends with sequence {}, and the index knows of sequence {known}",
            found.end.sequence
        )));
    }
    if differs {
        return Err(broken(format!(
            "the line with sequence {} is not the one the index knows",
            known.unwrap_or_default()
        )));
    }
    // Where a ledger was compacted away from under an index, nothing says what was in between.
    let lacking = known.filter(|&known| known >= found.start.sequence).map(|_| lacking);
    Ok(RecoveredLedger {
        by_license: builder.finish(),
        found,
        lacking,
    })
}

/// Reads the ledger of a store, which a server may be writing meanwhile, up to its last whole line.
pub(crate) fn read(path: &Path, each: impl FnMut(Position, Option<LedgerEntry>)) -> Result<LedgerExtent, StoreError> {
    let ledger = open(path).map_err(|source| StoreError::Read {
        path: ledger_in(path),
        source,
    })?;
    reader::read(ledger, each).map_err(|fault| fault_in(path, fault))
}

/// The ledger's file, for reading.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    regular_file::open(&ledger_in(path), regular_file::UNLIMITED)
}

pub(crate) fn ledger_in(path: &Path) -> PathBuf {
    path.join(log::NAME)
}

pub(crate) fn fault_in(path: &Path, fault: LedgerFault) -> StoreError {
    let path = ledger_in(path);
    match fault {
        LedgerFault::Io(source) => StoreError::Read { path, source },
        LedgerFault::Broken(what) => StoreError::Damaged { path, what },
    }
}
