//! The ledger's events as JSON lines without the chain: to read them elsewhere, and to begin a new ledger from them.
//!
//! A line is that of the ledger without `previous`, `sequence` and `synced`. [`copying`] keeps the
//! chain.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufRead, BufWriter, Read as _, Write as _};
use std::path::Path;

use serde_json::Value;

use crate::copying::{self, CopyOutcome};
use crate::error::StoreError;
use crate::log::record::{self, LedgerEvent, LedgerRecord, LineError, NewerLine};
use crate::log::{self, Position};
use crate::source::StoreReader;
use countersign_model::digest::Digest;

/// What only the chain needs.
const CHAIN: [&str; 3] = ["previous", "sequence", "synced"];

/// Why no ledger was made from lines.
#[derive(Debug, thiserror::Error)]
pub enum EventImportError {
    /// The lines cannot be read.
    #[error("line {line} cannot be read")]
    Read {
        /// Its number, from 1.
        line: u64,
        /// Why.
        source: io::Error,
    },
    /// A line is longer than any of a ledger.
    #[error("line {0} is longer than any of a ledger")]
    TooLong(u64),
    /// A line has no event.
    #[error("line {line} is no event of a ledger")]
    NoEvent {
        /// Its number, from 1.
        line: u64,
        /// Why.
        source: serde_json::Error,
    },
    /// A newer version of countersign wrote a line.
    #[error("a newer version of countersign wrote these events: line {line} {newer}")]
    Newer {
        /// Its number, from 1.
        line: u64,
        /// Its kind.
        newer: NewerLine,
    },
    /// The last line has no line feed: the file may be cut off.
    #[error("line {0} has no line feed: the file may be cut off")]
    CutOff(u64),
    /// The folder has a ledger, or cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl StoreReader {
    /// Checks the ledger, then passes on each event that a compaction would keep, as a line with its line feed, in the order
    /// of the ledger.
    pub fn event_lines(self, mut each: impl FnMut(&str)) -> Result<(), StoreError> {
        let mut failed = Ok(());
        self.current(|change| {
            if failed.is_ok() {
                failed = line_of(change).map(|line| each(&line));
            }
        })?;
        // Every event was read from a line.
        failed.map_err(|error| StoreError::Read {
            path: log::NAME.into(),
            source: error.into(),
        })
    }
}

/// The line of an event.
fn line_of(change: LedgerEvent) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    let previous = Position::genesis();
    let synced = 0;
    LedgerRecord {
        previous,
        synced,
        change,
    }
    .write(&mut bytes)?;
    let mut event: Value = serde_json::from_slice(&bytes)?;
    if let Some(members) = event.as_object_mut() {
        CHAIN.iter().for_each(|name| drop(members.remove(*name)));
    }
    Ok(serde_json_canonicalizer::to_string(&event)? + "\n")
}

/// The event of a line.
fn event_of(line: &[u8]) -> Result<LedgerEvent, LineError> {
    let mut event: Value = serde_json::from_slice(line)?;
    if let Some(members) = event.as_object_mut() {
        let no_digest = Digest::of(b"").to_string();
        for (name, value) in CHAIN.iter().zip([no_digest.into(), 1.into(), 0.into()]) {
            if members.insert((*name).to_owned(), value).is_some() {
                return Err(no_event(format!("it has a member \"{name}\"")));
            }
        }
    }
    let canonical = serde_json_canonicalizer::to_string(&event)? + "\n";
    match LedgerRecord::read(canonical.as_bytes())?.change {
        LedgerEvent::Compacted(_) => Err(no_event("it tells of a compaction")),
        change => Ok(change),
    }
}

fn no_event(what: impl Display) -> LineError {
    LineError::Damaged(serde::de::Error::custom(what))
}

/// Begins a ledger with these events in a folder that has none. Nothing is there before all of it is on disk.
pub fn import(folder: &Path, lines: &mut impl BufRead) -> Result<CopyOutcome, EventImportError> {
    copying::require_none(folder)?;
    copying::begin_ledger(folder, |file| {
        write(lines, file, &|source| copying::cannot(folder, source))
    })
}

fn write(
    lines: &mut impl BufRead,
    file: &File,
    failed: &dyn Fn(io::Error) -> StoreError,
) -> Result<(u64, Position), EventImportError> {
    let mut out = BufWriter::new(file);
    let mut end = Position::genesis();
    let mut text = Vec::new();
    let mut bytes = Vec::new();
    for line in 1.. {
        text.clear();
        let most = record::MAX as u64 + 1;
        let read = lines.by_ref().take(most).read_until(b'\n', &mut text);
        match read.map_err(|source| EventImportError::Read { line, source })? {
            0 => break,
            length if length as u64 == most => return Err(EventImportError::TooLong(line)),
            _ if !text.ends_with(b"\n") => return Err(EventImportError::CutOff(line)),
            _ => {}
        }
        let no_event = |source| EventImportError::NoEvent { line, source };
        let change = event_of(&text).map_err(|error| match error {
            LineError::Damaged(source) => no_event(source),
            LineError::Newer(newer) => EventImportError::Newer { line, newer },
        })?;
        bytes.clear();
        let synced = 0;
        let previous = end;
        end = LedgerRecord {
            previous,
            synced,
            change,
        }
        .write(&mut bytes)
        .map_err(no_event)?;
        out.write_all(&bytes).map_err(failed)?;
    }
    out.flush().map_err(failed)?;
    Ok((end.sequence, end))
}
