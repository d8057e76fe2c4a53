//! The chain of a ledger's lines: whether each continues the one before.
//!
//! [`reader`](crate::log::reader) passes it the lines of a file, `store::postgres` those of a table.

use crate::log::position::Position;
use crate::log::record::{LedgerEvent, LedgerRecord, LineError};
use countersign_model::digest::Digest;

/// The lines so far.
#[derive(Debug)]
pub(crate) struct Chain {
    pub start: Position,
    pub end: Position,
    pub lines: u64,
    pub length: u64,
    pub kept: u64,
    /// The first line of a kind that this version does not know: its `sequence`, and what is to say of it.
    pub newer: Option<(u64, String)>,
}

impl Default for Chain {
    fn default() -> Self {
        Self {
            start: Position::genesis(),
            end: Position::genesis(),
            lines: 0,
            length: 0,
            kept: 0,
            newer: None,
        }
    }
}

/// Why a line does not continue the chain.
#[derive(Debug)]
pub(crate) struct RefusedLine {
    pub what: String,
    /// Not a line. (A line that does not continue the chain was written as a whole.)
    pub may_be_torn: bool,
}

/// What a line says, before it is known whether it continues the chain. Lines need not be parsed in order.
#[derive(Debug)]
pub(crate) struct ParsedLine {
    length: usize,
    digest: Digest,
    record: Result<LedgerRecord, LineError>,
}

impl ParsedLine {
    /// Parses a line with its line feed.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let record = if bytes.ends_with(b"\n") {
            LedgerRecord::read(bytes)
        } else {
            Err(LineError::Damaged(serde::de::Error::custom("not ended")))
        };
        Self {
            length: bytes.len(),
            digest: Digest::of(bytes),
            record,
        }
    }
}

impl Chain {
    /// A chain whose last line is at `end`.
    pub(crate) fn after(end: Position) -> Self {
        Self {
            start: end,
            end,
            lines: end.sequence,
            ..Self::default()
        }
    }

    /// Takes the next line; returns its event, unless it begins a compacted ledger or is of a kind that
    /// this version does not know. [`Self::newer`] then has that line. The lines after it show whether it was changed, so the
    /// caller reads them, too, and refuses the ledger at its end.
    pub(crate) fn accept(&mut self, line: ParsedLine) -> Result<Option<LedgerEvent>, RefusedLine> {
        let ParsedLine { length, digest, record } = line;
        let (previous, change) = match record {
            Ok(line) => (line.previous, Some(line.change)),
            Err(LineError::Newer(newer)) => {
                let sequence = newer.previous.sequence + 1;
                self.newer.get_or_insert_with(|| (sequence, newer.to_string()));
                (newer.previous, None)
            }
            Err(LineError::Damaged(error)) => {
                return Err(RefusedLine {
                    what: format!("damaged: {error}"),
                    may_be_torn: true,
                });
            }
        };
        let whole = |what: String| RefusedLine {
            what,
            may_be_torn: false,
        };
        let change = match change {
            Some(LedgerEvent::Compacted(compaction)) if self.lines == 0 => {
                self.kept = compaction.kept;
                self.start = previous;
                self.end = previous;
                None
            }
            Some(LedgerEvent::Compacted(_)) => return Err(whole("only the first line may be a compaction".into())),
            change => change,
        };
        if previous != self.end {
            return Err(whole(match self.lines {
                0 => "not the first line of a ledger".into(),
                lines => format!("does not continue line {lines}: one of the two was changed"),
            }));
        }
        self.end = Position {
            sequence: previous.sequence + 1,
            digest,
        };
        self.lines += 1;
        self.length += length as u64;
        Ok(change)
    }
}
