//! The ledger's lines after a place, for readers that receive every event: reads on from there, on both backends.
//!
//! A cursor names a line by its position: its number, and the digest that chains it to all lines before it. A compaction sets
//! the old lines aside and begins a new part. The feed reads the old part to its end, passes the copies in the new one over,
//! and goes on behind them, so that every line comes once. Where no part has the cursor's line, because a person deleted the
//! old lines or restored a backup, the feed goes on by time: then lines may come twice, and the log says so.

use chrono::{DateTime, TimeDelta, Utc};

use countersign_model::digest::Digest;

use crate::error::StoreError;
use crate::ledger_parts::{DatabaseParts, FolderParts, LedgerParts};
use crate::log::Position;
use crate::log::record::{self, LedgerEvent, LedgerRecord, LineError};
use crate::source::StoreSource;

/// Lines that are looked at together for the first one after a time.
const PAGE: usize = 2_000;

/// A line that the feed has not returned yet may have a time this much before the cursor's: a request can wait for its commit while a
/// later one is committed.
const OUT_OF_ORDER: TimeDelta = TimeDelta::minutes(1);

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
    /// What happened. Never a compaction.
    pub event: LedgerEvent,
}

/// A ledger that is read on from a cursor.
pub struct LedgerFeed {
    parts: Box<dyn LedgerParts>,
    cursor: FeedCursor,
    /// The part with the next line, once it is found.
    part: Option<FoundPart>,
    /// A line that no part has any more, and the line after which the feed goes on instead.
    lost: Option<(Position, Position)>,
}

struct FoundPart {
    name: String,
    is_in_use: bool,
}

impl LedgerFeed {
    /// A feed of the lines after `cursor`. Opens nothing yet.
    pub fn new(source: StoreSource<'_>, cursor: FeedCursor) -> Self {
        let parts: Box<dyn LedgerParts> = match source {
            StoreSource::Folder(path) => Box::new(FolderParts::new(path)),
            StoreSource::Database(address) => Box::new(DatabaseParts::new(address)),
        };
        Self {
            parts,
            cursor,
            part: None,
            lost: None,
        }
    }

    /// At most `limit` lines in the order of the ledger, up to the line `end`, which is durable. Blocks. Copies that a
    /// compaction made are left out, so fewer lines, or none, do not mean that the end is reached: [`Self::is_at`] tells.
    ///
    /// # Errors
    /// The ledger cannot be read. The next call goes on after the last line that was given.
    pub fn next(&mut self, end: u64, limit: usize) -> Result<Vec<FeedLine>, StoreError> {
        let mut lines = Vec::new();
        while lines.len() < limit && !self.is_at(end) {
            match self.read(end, limit - lines.len(), &mut lines) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.close();
                    // The next call meets the error again.
                    return if lines.is_empty() { Err(error) } else { Ok(lines) };
                }
            }
        }
        Ok(lines)
    }

    /// Whether every line up to this sequence was given.
    pub fn is_at(&self, end: u64) -> bool {
        self.cursor.position.sequence >= end
    }

    /// The last line that was given, or passed over.
    pub fn cursor(&self) -> FeedCursor {
        self.cursor
    }

    /// Goes back to this cursor; to where the feed went on, if no part has its line.
    pub fn rewind(&mut self, cursor: FeedCursor) {
        self.cursor = cursor;
        if let Some((_, goes_on)) = self.lost.filter(|(lost, _)| *lost == cursor.position) {
            self.cursor.position = goes_on;
        }
        self.close();
    }

    fn close(&mut self) {
        self.part = None;
        self.parts.close();
    }

    /// Adds the next lines of the part where the cursor is; whether there may be more.
    fn read(&mut self, end: u64, limit: usize, lines: &mut Vec<FeedLine>) -> Result<bool, StoreError> {
        let part = match self.part.take() {
            Some(part) => part,
            None => self.find(end)?,
        };
        let next = self.cursor.position.sequence + 1;
        let texts = self.parts.lines(&part.name, next, end, limit)?;
        if texts.is_empty() {
            // An old part has no more: another one continues it.
            let has_more = !part.is_in_use;
            self.part = Some(part).filter(|part| part.is_in_use);
            return Ok(has_more);
        }
        for text in texts {
            // Also a line of an unknown kind must continue the chain.
            if record::previous_of(&text).is_some_and(|previous| previous != self.cursor.position) {
                let what = format!("the line after {} does not continue it", self.cursor.position.sequence);
                return Err(self.parts.damaged(&part.name, what));
            }
            let LedgerRecord { previous, change, .. } = self.record(&part.name, &text, self.cursor.position)?;
            let position = previous.after(&text);
            if let LedgerEvent::Compacted(compaction) = change {
                self.cursor.position = self.last_copy(&part.name, position, compaction.kept)?;
                break;
            }
            self.cursor = FeedCursor {
                position,
                time: change.time(),
            };
            lines.push(FeedLine {
                cursor: self.cursor,
                event: change,
            });
        }
        self.part = Some(part);
        Ok(true)
    }

    /// The line after `last`.
    fn record(&self, part: &str, text: &[u8], last: Position) -> Result<LedgerRecord, StoreError> {
        let after = last.sequence;
        LedgerRecord::read(text).map_err(|error| match error {
            LineError::Newer(newer) => self.parts.newer(part, format!("line {} {newer}", after + 1)),
            LineError::Damaged(error) => self.parts.damaged(part, format!("the line after {after}: {error}")),
        })
    }

    /// The position of the last line that a compaction copied behind its own.
    fn last_copy(&mut self, part: &str, compaction: Position, kept: u64) -> Result<Position, StoreError> {
        let sequence = compaction.sequence.saturating_add(kept);
        if kept == 0 {
            return Ok(compaction);
        }
        let digest = self.digest(part, sequence)?;
        let missing = || format!("line {sequence}, which the compaction kept, is missing");
        let digest = digest.ok_or_else(|| self.parts.damaged(part, missing()))?;
        Ok(Position { sequence, digest })
    }

    fn digest(&mut self, part: &str, sequence: u64) -> Result<Option<Digest>, StoreError> {
        let line = self.parts.lines(part, sequence, sequence, 1)?;
        Ok(line.first().map(|line| Digest::of(line)))
    }

    /// The part with the line after the cursor. Moves the cursor if no part has its line.
    fn find(&mut self, end: u64) -> Result<FoundPart, StoreError> {
        let names = self.parts.names()?;
        let Position { sequence, digest } = self.cursor.position;
        for (place, name) in names.iter().enumerate() {
            let first = self.parts.lines(name, 0, u64::MAX, 1)?.pop();
            // What is no ledger does not matter: only the part that goes on is read.
            let first = first.and_then(|line| record::previous_of(&line));
            if first == Some(self.cursor.position) {
                return Ok(found(name, place));
            }
        }
        for (place, name) in names.iter().enumerate() {
            // An old part with nothing behind the cursor's line is of no use.
            let is_of_use = place == 0 || self.digest(name, sequence + 1)?.is_some();
            if is_of_use && sequence > 0 && self.digest(name, sequence)? == Some(digest) {
                return Ok(found(name, place));
            }
        }
        let [in_use, ..] = &names[..] else {
            return Err(self.parts.damaged("ledger", "it has no part".to_owned()));
        };
        let goes_on = self.before_time(in_use, end)?;
        self.lost = Some((self.cursor.position, goes_on));
        self.cursor.position = goes_on;
        tracing::warn!(
            line = sequence,
            goes_on_after = goes_on.sequence,
            "the ledger has no such line any more, and no older lines beside it: reading goes on with what is not earlier than \
             a minute before that line, and may repeat some"
        );
        Ok(found(in_use, 0))
    }

    /// The position before the first line of the part in use that the feed may not have returned.
    fn before_time(&mut self, part: &str, end: u64) -> Result<Position, StoreError> {
        let since = self.cursor.time - OUT_OF_ORDER;
        let mut last = Position::genesis();
        loop {
            let texts = self.parts.lines(part, last.sequence + 1, end, PAGE)?;
            if texts.is_empty() {
                return Ok(last);
            }
            for text in texts {
                let LedgerRecord { previous, change, .. } = self.record(part, &text, last)?;
                if !matches!(change, LedgerEvent::Compacted(_)) && change.time() >= since {
                    return Ok(previous);
                }
                last = previous.after(&text);
            }
        }
    }
}

fn found(name: &str, place: usize) -> FoundPart {
    FoundPart {
        name: name.to_owned(),
        is_in_use: place == 0,
    }
}
