//! Reads the whole ledger and finds what the index lacks.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::StoreError;
use crate::ledger_tables::{LedgerBuilder, LedgerTables};
use crate::log::reader::{self, LedgerExtent, LedgerFault};
use crate::log::record::LedgerEvent;
use crate::log::{self, LedgerEntry, Position};
use countersign_files::regular_file;

/// The ledger's content.
pub(crate) struct RecoveredLedger {
    pub tables: LedgerTables,
    pub found: LedgerExtent,
    /// The bindings that the index lacks, with their positions; `None` if it must be rebuilt.
    pub lacking: Option<Vec<(LedgerEntry, Position)>>,
}

/// Reads the ledger of the store in the folder `path`. `known` is the position up to which the index has it.
///
/// Errors: [`StoreError::Newer`] if a line is of an unknown kind; [`StoreError::Damaged`] if the chain is broken, or if the index has more than the ledger: the index is
/// written after the ledger is on disk, so the ledger has lost lines.
pub(crate) fn load(path: &Path, known: Option<Position>) -> Result<RecoveredLedger, StoreError> {
    let mut builder = LedgerBuilder::default();
    let mut lacking = Vec::new();
    let mut differs = false;
    let read = read(path, |position, change| {
        differs |= known.is_some_and(|known| known.sequence == position.sequence && known.digest != position.digest);
        let Some(change) = change else { return };
        if known.is_some_and(|known| known.sequence < position.sequence)
            && let Some(entry) = change.clone().binding()
        {
            lacking.push((entry, position));
        }
        builder.take(change);
    });
    let broken = |what: String| StoreError::Damaged {
        path: ledger_in(path),
        what,
    };
    let known = known.map(|known| known.sequence);
    // What the index knows of a line shows that it is damaged, whatever else the line seems to be.
    let is_changed = differs && matches!(read, Ok(_) | Err(StoreError::Newer { .. }));
    if is_changed {
        return Err(broken(format!(
            "the line with sequence {} is not the one in the index",
            known.unwrap_or_default()
        )));
    }
    let found = read?;
    if let Some(known) = known.filter(|&known| known > found.end.sequence) {
        return Err(broken(format!(
            "it ends with sequence {}, but the index has sequence {known}",
            found.end.sequence
        )));
    }
    // If the ledger was compacted without the index, nothing tells what was in between.
    let lacking = known.filter(|&known| known >= found.start.sequence).map(|_| lacking);
    Ok(RecoveredLedger {
        tables: builder.finish(),
        found,
        lacking,
    })
}

/// Reads the ledger of a store, up to its last complete line. A server may be writing it.
pub(crate) fn read(path: &Path, each: impl FnMut(Position, Option<LedgerEvent>)) -> Result<LedgerExtent, StoreError> {
    let ledger = open(path).map_err(|source| StoreError::Read {
        path: ledger_in(path),
        source,
    })?;
    reader::read(ledger, each).map_err(|fault| fault_in(path, fault))
}

/// Opens the ledger's file for reading.
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
        LedgerFault::Newer(what) => StoreError::Newer { path, what },
    }
}
