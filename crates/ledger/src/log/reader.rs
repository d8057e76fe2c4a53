//! Reads a ledger from its beginning and checks its chain, line by line, in bounded memory.
//!
//! Distinguishes what a power failure left of the last, unacknowledged batch, which may be removed, from damage,
//! which is a [`LedgerFault`]. Passes the entries on with their position.

use std::io::{self, BufRead, BufReader, Read};
use std::ops::ControlFlow;

use countersign_files::in_order::in_order;

use crate::log::chain::{Chain, ParsedLine, RefusedLine};
use crate::log::position::Position;
use crate::log::record::{self, LedgerEvent};

/// The longest torn end in bytes: 16 MiB, more than a batch. Anything longer is damage, and is not read to its end.
const MOST_TORN: usize = record::BATCH * record::MAX;

/// How many bytes of lines a thread parses at once.
const BLOCK: usize = 1 << 20;

/// The result of reading.
#[derive(Debug, PartialEq, Eq)]
pub struct LedgerExtent {
    /// The position that the first line continues: the genesis, or that of a compaction.
    pub start: Position,
    /// The position of the last line.
    pub end: Position,
    /// Where the last line ends, in bytes.
    pub length: u64,
    /// Whether it is followed by something that was never acknowledged.
    pub torn: bool,
}

impl LedgerExtent {
    /// That of a file without lines.
    pub(crate) fn none(genesis: Position) -> Self {
        Self {
            start: genesis,
            end: genesis,
            length: 0,
            torn: false,
        }
    }

    /// The number of lines in the file. A line's `sequence` also counts those before compactions.
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
    /// The chain is whole, but a line is of a kind that this version does not know; says which.
    Newer(String),
}

impl From<io::Error> for LedgerFault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Reads a ledger. `each` gets every position in it, the start included, and the event of the line there. Lines are parsed on all
/// cores, which is most of the work.
pub fn read(
    input: impl Read,
    mut each: impl FnMut(Position, Option<LedgerEvent>),
) -> Result<LedgerExtent, LedgerFault> {
    let mut input = BufReader::with_capacity(1 << 18, input);
    let mut chain = Chain::default();
    let mut failed = None;
    // A line that may be torn, what is wrong with it, and what follows.
    let mut doubtful: Option<(RefusedLine, Vec<u8>)> = None;
    let mut refused = None;
    let next_block = || LineBlock::read(&mut input, &mut failed);
    let take = |block: ParsedBlock| {
        if let Some((_, rest)) = &mut doubtful {
            rest.extend(block.bytes);
            return if rest.len() > MOST_TORN {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            };
        }
        let before = chain.length;
        for line in block.lines {
            match chain.accept(line) {
                Ok(change) => {
                    if chain.lines == 1 {
                        each(chain.start, None);
                    }
                    each(chain.end, change);
                }
                Err(what) if what.may_be_torn => {
                    let rest = block.bytes[(chain.length - before) as usize..].to_vec();
                    doubtful = Some((what, rest));
                    return ControlFlow::Continue(());
                }
                Err(what) => {
                    refused = Some(what);
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    };
    in_order(next_block, LineBlock::parse, take)?;
    if let Some(RefusedLine { what, .. }) = refused {
        return Err(chain.broken(&what));
    }
    if let Some(error) = failed {
        return Err(error.into());
    }
    let torn = doubtful.is_some();
    if let Some((RefusedLine { what, .. }, rest)) = doubtful
        && !chain.may_be_cut(&rest)?
    {
        return Err(chain.broken(&what));
    }
    let Chain {
        start,
        end,
        lines,
        length,
        kept,
        ref newer,
    } = chain;
    if lines == 0 {
        each(start, None);
    } else if lines <= kept {
        return Err(chain.broken(&format!(
            "missing: {kept} lines were kept when the ledger was compacted"
        )));
    }
    if let Some((sequence, what)) = newer {
        let line = sequence - start.sequence;
        return Err(LedgerFault::Newer(format!("line {line} of the file {what}")));
    }
    Ok(LedgerExtent {
        start,
        end,
        length,
        torn,
    })
}

/// Lines, one after the other, and the length of each.
struct LineBlock {
    bytes: Vec<u8>,
    lengths: Vec<usize>,
}

/// A block of lines after parsing.
struct ParsedBlock {
    bytes: Vec<u8>,
    lines: Vec<ParsedLine>,
}

impl LineBlock {
    /// Reads the next lines; `None` after the last one, and after one that cannot be read, which is then `failed`.
    fn read(input: &mut impl BufRead, failed: &mut Option<io::Error>) -> Option<Self> {
        let mut bytes = Vec::with_capacity(BLOCK + record::MAX);
        let mut lengths = Vec::new();
        while bytes.len() < BLOCK && failed.is_none() {
            match input.take(record::MAX as u64).read_until(b'\n', &mut bytes) {
                Ok(0) => break,
                Ok(length) => lengths.push(length),
                Err(error) => *failed = Some(error),
            }
        }
        (!lengths.is_empty()).then_some(Self { bytes, lengths })
    }

    fn parse(self) -> ParsedBlock {
        let Self { bytes, lengths } = self;
        let mut rest = &bytes[..];
        let parsed = lengths.into_iter().map(|length| {
            let (line, others) = rest.split_at(length);
            rest = others;
            ParsedLine::of(line)
        });
        let lines = parsed.collect();
        ParsedBlock { bytes, lines }
    }
}

/// Reads the next line, or as much of it as a line can have; whether there is one.
pub(crate) fn next(input: &mut impl BufRead, bytes: &mut Vec<u8>) -> Result<bool, LedgerFault> {
    bytes.clear();
    Ok(input
        .take(record::MAX as u64)
        .read_until(b'\n', bytes)
        .map_err(LedgerFault::Io)?
        > 0)
}

impl Chain {
    /// As [`was_never_acknowledged`], for the rest of a file. A compacted ledger was on disk before it got its name.
    fn may_be_cut(&self, mut rest: &[u8]) -> Result<bool, LedgerFault> {
        let is_of_compaction = self.kept > 0 && self.lines <= self.kept;
        let mut bytes = Vec::new();
        next(&mut rest, &mut bytes)?;
        Ok(!is_of_compaction && was_never_acknowledged(&mut rest, &mut bytes, self.end.sequence)?)
    }

    fn broken(&self, what: &str) -> LedgerFault {
        LedgerFault::Broken(format!(
            "line {} of the file (byte {}): {what}",
            self.lines + 1,
            self.length
        ))
    }
}

/// Whether `bytes` and the rest of `input` can be the rest of the last batch after a power failure: incomplete, or with
/// holes that read as zeros, and without a line that was written when more than `known` lines were on disk.
pub(crate) fn was_never_acknowledged(
    input: &mut impl BufRead,
    bytes: &mut Vec<u8>,
    known: u64,
) -> Result<bool, LedgerFault> {
    let cut_off = !bytes.ends_with(b"\n") && input.fill_buf().map_err(LedgerFault::Io)?.is_empty();
    if !cut_off && !bytes.contains(&0) {
        return Ok(false);
    }
    let mut length = 0;
    loop {
        length += bytes.len();
        if length > MOST_TORN || says_more_was_synced(bytes, known) {
            return Ok(false);
        }
        if !next(input, bytes)? {
            return Ok(true);
        }
    }
}

/// Whether the rest of the lines shows that more than `known` lines were on disk. Lost digits only lower that number.
fn says_more_was_synced(bytes: &[u8], known: u64) -> bool {
    const SYNCED: &[u8] = b"\"synced\":";
    let places = bytes
        .windows(SYNCED.len())
        .enumerate()
        .filter(|(_, window)| *window == SYNCED);
    let mut numbers = places.map(|(at, _)| &bytes[at + SYNCED.len()..]).filter_map(|rest| {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        std::str::from_utf8(&rest[..digits]).ok()?.parse::<u64>().ok()
    });
    numbers.any(|synced| synced > known)
}
