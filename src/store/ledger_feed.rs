//! The ledger's lines after a place, for those who are told of every event: reads on from there, on both backends.
//!
//! A cursor names a line by its position. Where that line is gone, because the ledger was compacted or restored, the
//! lines go on that are later than the cursor's time: what was told stays told, and what is new is told.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};

use crate::model::digest::Digest;

use crate::store::error::StoreError;
use crate::store::log::Position;
use crate::store::log::reader::LedgerFault;
use crate::store::log::record::{self, LedgerEvent, LedgerRecord};
use crate::store::postgres::shared_reader::SharedReader;
use crate::store::recovery;
use crate::store::source::StoreSource;

/// Everything up to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeedCursor {
    /// The line.
    pub position: Position,
    /// The time of the line.
    pub time: DateTime<Utc>,
}

/// A line after the cursor.
#[derive(Clone, Debug)]
pub struct FeedLine {
    /// The cursor after this line.
    pub cursor: FeedCursor,
    /// What happened.
    pub event: LedgerEvent,
}

/// A ledger that is read on from a cursor.
pub struct LedgerFeed {
    place: Place,
    cursor: FeedCursor,
    /// Lines up to this time were told, although the line of the cursor is not here.
    told_until: Option<DateTime<Utc>>,
}

enum Place {
    Folder(PathBuf, Option<BufReader<File>>),
    Database(String, Option<Box<SharedReader>>),
}

impl LedgerFeed {
    /// A feed of the lines after `cursor`. Opens nothing yet.
    pub fn new(source: StoreSource<'_>, cursor: FeedCursor) -> Self {
        let place = match source {
            StoreSource::Folder(path) => Place::Folder(path.to_owned(), None),
            StoreSource::Database(address) => Place::Database(address.to_owned(), None),
        };
        Self {
            place,
            cursor,
            told_until: None,
        }
    }

    /// At most `limit` lines in the order of the ledger, up to the line `end`, which is durable. Blocks. Lines that were told
    /// before a compaction are left out, so fewer lines, or none, do not mean that the end is reached: [`Self::is_at`] tells.
    ///
    /// # Errors
    /// The ledger cannot be read. The next call goes on after the last line that was given.
    pub fn next(&mut self, end: u64, limit: usize) -> Result<Vec<FeedLine>, StoreError> {
        let lines = match &mut self.place {
            Place::Folder(path, open) => folder_lines(path, open, &mut self.cursor, &mut self.told_until, end, limit),
            Place::Database(address, open) => {
                database_lines(address, open, &mut self.cursor, &mut self.told_until, end, limit)
            }
        };
        let lines = lines.inspect_err(|_| self.close())?;
        let told_until = self.told_until;
        let is_new = |line: &FeedLine| told_until.is_none_or(|told| line.cursor.time > told);
        Ok(lines.into_iter().filter(is_new).collect())
    }

    /// Whether every line up to this sequence was given.
    pub fn is_at(&self, end: u64) -> bool {
        self.cursor.position.sequence >= end
    }

    /// The last line that was given, or passed over.
    pub fn cursor(&self) -> FeedCursor {
        self.cursor
    }

    /// Goes back to this cursor.
    pub fn rewind(&mut self, cursor: FeedCursor) {
        self.cursor = cursor;
        self.told_until = None;
        self.close();
    }

    fn close(&mut self) {
        match &mut self.place {
            Place::Folder(_, open) => drop(open.take()),
            Place::Database(_, open) => drop(open.take()),
        }
    }
}

/// The line as the one after `cursor`, which moves on.
fn taken(line: &[u8], cursor: &mut FeedCursor) -> Result<FeedLine, serde_json::Error> {
    let record = LedgerRecord::read(line)?;
    *cursor = FeedCursor {
        position: Position {
            sequence: record.previous.sequence + 1,
            digest: Digest::of(line),
        },
        time: record.change.time(),
    };
    Ok(FeedLine {
        cursor: *cursor,
        event: record.change,
    })
}

fn folder_lines(
    path: &Path,
    open: &mut Option<BufReader<File>>,
    cursor: &mut FeedCursor,
    told_until: &mut Option<DateTime<Utc>>,
    end: u64,
    limit: usize,
) -> Result<Vec<FeedLine>, StoreError> {
    let failed = |source| StoreError::Read {
        path: recovery::ledger_in(path),
        source,
    };
    let ledger = match open {
        Some(ledger) => ledger,
        None => {
            let (ledger, is_found) = at_cursor(path, cursor).map_err(failed)?;
            if !is_found {
                *told_until = Some(cursor.time);
                cursor.position = Position::genesis();
            }
            open.insert(ledger)
        }
    };
    let mut lines = Vec::new();
    let mut bytes = Vec::new();
    // The file of a compacted ledger begins later than with line 1.
    while cursor.position.sequence < end && lines.len() < limit {
        if !next_line(ledger, &mut bytes).map_err(failed)? {
            break;
        }
        let line = taken(&bytes, cursor).map_err(|error| {
            let what = format!("the line after {}: {error}", cursor.position.sequence);
            recovery::fault_in(path, LedgerFault::Broken(what))
        })?;
        lines.push(line);
    }
    Ok(lines)
}

/// The ledger from the line after the cursor on, and whether the cursor's line is there; otherwise from its beginning.
fn at_cursor(path: &Path, cursor: &FeedCursor) -> io::Result<(BufReader<File>, bool)> {
    let mut ledger = BufReader::with_capacity(1 << 18, recovery::open(path)?);
    let mut bytes = Vec::new();
    let wanted = cursor.position;
    if wanted == Position::genesis() {
        return Ok((ledger, true));
    }
    let mut sequence = None;
    while next_line(&mut ledger, &mut bytes)? {
        let here = match sequence {
            None => LedgerRecord::read(&bytes).map_or(u64::MAX, |first| first.previous.sequence + 1),
            Some(before) => before + 1,
        };
        sequence = Some(here);
        if here >= wanted.sequence {
            break;
        }
    }
    let is_found = sequence == Some(wanted.sequence) && Digest::of(&bytes) == wanted.digest;
    if !is_found {
        ledger.rewind()?;
    }
    Ok((ledger, is_found))
}

/// Reads the next whole line; whether there is one. What is not a whole line yet is read again later.
fn next_line(ledger: &mut BufReader<File>, bytes: &mut Vec<u8>) -> io::Result<bool> {
    bytes.clear();
    let start = ledger.stream_position()?;
    ledger.by_ref().take(record::MAX as u64).read_until(b'\n', bytes)?;
    let is_whole = bytes.ends_with(b"\n");
    if !is_whole {
        ledger.seek(io::SeekFrom::Start(start))?;
    }
    Ok(is_whole)
}

fn database_lines(
    address: &str,
    open: &mut Option<Box<SharedReader>>,
    cursor: &mut FeedCursor,
    told_until: &mut Option<DateTime<Utc>>,
    end: u64,
    limit: usize,
) -> Result<Vec<FeedLine>, StoreError> {
    let reader = match open {
        Some(reader) => reader,
        None => {
            let reader = SharedReader::open(address)?;
            let wanted = cursor.position;
            if wanted != Position::genesis() && reader.digest_of(wanted.sequence)? != Some(wanted.digest) {
                *told_until = Some(cursor.time);
                cursor.position = Position::genesis();
            }
            open.insert(Box::new(reader))
        }
    };
    let texts = reader.lines_between(cursor.position.sequence, end, limit)?;
    let mut lines = Vec::with_capacity(texts.len());
    for text in texts {
        let line = taken(text.as_bytes(), cursor);
        let line = line.map_err(|error| StoreError::shared(damaged(cursor.position.sequence, &error)))?;
        lines.push(line);
    }
    Ok(lines)
}

fn damaged(after: u64, error: &serde_json::Error) -> crate::store::backend_error::BackendError {
    crate::store::backend_error::BackendError {
        state: crate::store::ledger_state::LedgerState::Damaged,
        message: format!("the line after {after}: {error}"),
    }
}
