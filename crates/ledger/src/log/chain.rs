//! The chain of a ledger's lines: whether each continues the one before.
//!
//! [`reader`](crate::log::reader) passes it the lines of a file, `store::postgres` those of a table.

use crate::log::Position;
use crate::log::record::{LedgerEvent, LedgerRecord};

/// The lines so far.
#[derive(Debug)]
pub(crate) struct Chain {
    pub start: Position,
    pub end: Position,
    pub lines: u64,
    pub length: u64,
    pub kept: u64,
}

impl Default for Chain {
    fn default() -> Self {
        Self {
            start: Position::genesis(),
            end: Position::genesis(),
            lines: 0,
            length: 0,
            kept: 0,
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

    /// Takes the next line, with its line feed; returns its event, unless it begins a compacted ledger.
    pub(crate) fn accept(&mut self, bytes: &[u8]) -> Result<Option<LedgerEvent>, RefusedLine> {
        let line = if bytes.ends_with(b"\n") {
            LedgerRecord::read(bytes)
        } else {
            Err(serde::de::Error::custom("not ended"))
        };
        let line = line.map_err(|error| RefusedLine {
            what: format!("damaged: {error}"),
            may_be_torn: true,
        })?;
        let whole = |what: String| RefusedLine {
            what,
            may_be_torn: false,
        };
        let change = match line.change {
            LedgerEvent::Compacted(compaction) if self.lines == 0 => {
                self.kept = compaction.kept;
                self.start = line.previous;
                self.end = line.previous;
                None
            }
            LedgerEvent::Compacted(_) => return Err(whole("only the first line may be a compaction".into())),
            change => Some(change),
        };
        if line.previous != self.end {
            return Err(whole(match self.lines {
                0 => "not the first line of a ledger".into(),
                lines => format!("does not continue line {lines}: one of the two was changed"),
            }));
        }
        self.end = self.end.after(bytes);
        self.lines += 1;
        self.length += bytes.len() as u64;
        Ok(change)
    }
}
