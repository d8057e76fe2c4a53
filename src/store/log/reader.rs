//! Reads a ledger from its beginning and proves its chain, line by line, in bounded memory.
//!
//! What a loss of power left of the last, unacknowledged batch is told from damage: the first may be cut, the second is
//! a [`LedgerFault`]. Entries go to whoever asked for them, with their place in the chain.

use std::io::{self, BufRead, BufReader, Read};

use crate::store::log::record::{self, LedgerEvent, LedgerRecord};
use crate::store::log::{LedgerEntry, Position};

/// A torn end is part of one batch, in bytes: 16 MiB. More than that is damage, and is not read to its end.
const MOST_TORN: usize = record::BATCH * record::MAX;

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub struct LedgerExtent {
    /// What the first line continues: the genesis, or where a compaction happened.
    pub start: Position,
    /// The last line.
    pub end: Position,
    /// Where the last line ends, in bytes.
    pub length: u64,
    /// Whether something stands behind it that was never acknowledged.
    pub torn: bool,
}

impl LedgerExtent {
    /// How many lines the file has. A line's `sequence` counts those before compactions, too.
    pub fn lines(&self) -> u64 {
        self.end.sequence - self.start.sequence
    }
}

/// Why a ledger cannot be read.
#[derive(Debug)]
pub enum LedgerFault {
    /// The disk failed.
    Io(io::Error),
    /// The chain is broken; says where.
    Broken(String),
}

/// Reads a ledger; `each` gets every place in it, the start included, and the binding that the line at this place made.
pub fn read(
    input: impl Read,
    mut each: impl FnMut(Position, Option<LedgerEntry>),
) -> Result<LedgerExtent, LedgerFault> {
    let mut input = BufReader::with_capacity(1 << 18, input);
    let mut chain = Chain::default();
    let mut bytes = Vec::with_capacity(record::MAX);
    let mut torn = false;
    while next(&mut input, &mut bytes)? {
        match chain.accept(&bytes) {
            Ok(change) => {
                if chain.lines == 1 {
                    each(chain.start, None);
                }
                each(chain.end, change);
            }
            Err(what) if what.may_be_torn && chain.was_never_acknowledged(&mut input, &mut bytes)? => {
                torn = true;
                break;
            }
            Err(RefusedLine { what, .. }) => return Err(chain.broken(&what)),
        }
    }
    let Chain {
        start,
        end,
        lines,
        length,
        kept,
    } = chain;
    if lines == 0 {
        each(start, None);
    } else if lines <= kept {
        return Err(chain.broken(&format!(
            "missing: {kept} lines were kept when the ledger was compacted"
        )));
    }
    Ok(LedgerExtent {
        start,
        end,
        length,
        torn,
    })
}

/// The next line, or as much of one as can be a line; whether there is one.
fn next(input: &mut impl BufRead, bytes: &mut Vec<u8>) -> Result<bool, LedgerFault> {
    bytes.clear();
    Ok(input
        .take(record::MAX as u64)
        .read_until(b'\n', bytes)
        .map_err(LedgerFault::Io)?
        > 0)
}

struct Chain {
    start: Position,
    end: Position,
    lines: u64,
    length: u64,
    kept: u64,
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

struct RefusedLine {
    what: String,
    /// It is no line at all. A line that does not continue the chain was written whole.
    may_be_torn: bool,
}

impl Chain {
    fn accept(&mut self, bytes: &[u8]) -> Result<Option<LedgerEntry>, RefusedLine> {
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
            LedgerEvent::Bound(entry) => Some(entry),
            LedgerEvent::Compacted(compaction) if self.lines == 0 => {
                self.kept = compaction.kept;
                self.start = line.previous;
                self.end = line.previous;
                None
            }
            LedgerEvent::Compacted(_) => return Err(whole("a compaction stands at the beginning only".into())),
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

    /// Whether what begins with `bytes` and goes on in `input` is what a loss of power leaves of the last batch: cut off,
    /// or with holes that read as zeros, and without a line that was written after it was on disk.
    fn was_never_acknowledged(&self, input: &mut impl BufRead, bytes: &mut Vec<u8>) -> Result<bool, LedgerFault> {
        // A compacted ledger was on disk before it got its name.
        if self.kept > 0 && self.lines <= self.kept {
            return Ok(false);
        }
        let cut_off = !bytes.ends_with(b"\n") && input.fill_buf().map_err(LedgerFault::Io)?.is_empty();
        if !cut_off && !bytes.contains(&0) {
            return Ok(false);
        }
        let mut length = 0;
        loop {
            length += bytes.len();
            if length > MOST_TORN || self.is_short_of(bytes) {
                return Ok(false);
            }
            if !next(input, bytes)? {
                return Ok(true);
            }
        }
    }

    /// Whether what is left of lines says that more was on disk than the chain has. Digits that are lost make it say less.
    fn is_short_of(&self, bytes: &[u8]) -> bool {
        const SYNCED: &[u8] = b"\"synced\":";
        let places = bytes
            .windows(SYNCED.len())
            .enumerate()
            .filter(|(_, window)| *window == SYNCED);
        let mut numbers = places.map(|(at, _)| &bytes[at + SYNCED.len()..]).filter_map(|rest| {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            std::str::from_utf8(&rest[..digits]).ok()?.parse::<u64>().ok()
        });
        numbers.any(|synced| synced > self.end.sequence)
    }

    fn broken(&self, what: &str) -> LedgerFault {
        LedgerFault::Broken(format!(
            "line {} of the file (byte {}): {what}",
            self.lines + 1,
            self.length
        ))
    }
}
