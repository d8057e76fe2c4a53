//! The file of the texts, `texts.jsonl`: one line for each text, appended like the ledger's.
//!
//! ```text
//! {"chain":"<64 hex>","name":"<32 hex>","synced":6,"text":"order 7"}
//! {"chain":"<64 hex>","customer":{"address":"a@b.example","by":"operator:cli","number":"<32 hex>"},"name":"<32 hex>","synced":6}
//! {"chain":"<64 hex>","erased":"2026-11-25T10:00:00Z","name":"<32 hex>","synced":6}
//! ```
//!
//! `chain` is the SHA-256 of the chain of the line before and the rest of this line, with its line feed. So no changed or missing
//! line goes unnoticed. `synced` is the number of lines that were on disk when this one was written, as in the ledger.

use std::fs;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::log::Position;
use crate::log::file::LedgerFile;
use crate::log::reader::{self, LedgerExtent, LedgerFault};
use crate::log::record;
use crate::log::writer::Medium;
use countersign_files::regular_file;
use countersign_model::customer::CustomerRow;
use countersign_model::digest::Digest;
use countersign_model::issued_license::Hex128;
use countersign_model::stored_text::StoredText;

/// The file's name in the store's folder.
const NAME: &str = "texts.jsonl";

/// The name of the file that had the texts of orders alone.
const FORMAT_1_NAME: &str = "references.jsonl";

/// What the first line continues. Another line format needs another text.
const GENESIS: &[u8] = b"countersign texts 1\n";

const FORMAT_1_GENESIS: &[u8] = b"countersign references 1\n";

const BEGINNING: &[u8] = b"{\"chain\":\"";

/// What follows the chain. Members in the order of RFC 8785.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RestOfLine {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    customer: Option<CustomerRow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    erased: Option<DateTime<Utc>>,
    name: Hex128,
    synced: u64,
    #[serde(default, alias = "reference", skip_serializing_if = "Option::is_none")]
    text: Option<Box<str>>,
}

/// Before the first line. Its sequence counts the lines of the file.
pub(crate) fn genesis() -> Position {
    beginning(GENESIS)
}

/// Before the first line of a file of format 1, which had only the texts of orders.
pub(crate) fn format_1_genesis() -> Position {
    beginning(FORMAT_1_GENESIS)
}

fn beginning(genesis: &[u8]) -> Position {
    Position {
        sequence: 0,
        digest: Digest::of(genesis),
    }
}

/// The file that had the texts of orders alone.
pub(crate) fn format_1_path_in(folder: &Path) -> PathBuf {
    folder.join(FORMAT_1_NAME)
}

pub(crate) fn path_in(folder: &Path) -> PathBuf {
    folder.join(NAME)
}

/// Where the file is written again.
pub(crate) fn new_file_in(folder: &Path) -> PathBuf {
    folder.join(format!(".{NAME}.new"))
}

/// Appends a line to `bytes`, and returns its position.
pub(crate) fn write(
    bytes: &mut Vec<u8>,
    previous: Position,
    synced: u64,
    name: Hex128,
    stored: &StoredText,
) -> io::Result<Position> {
    let rest = RestOfLine {
        customer: stored.customer().cloned(),
        erased: stored.erased_at(),
        name,
        synced,
        text: stored.text().map(Box::from),
    };
    let mut text = serde_json::to_vec(&rest)?;
    text.push(b'\n');
    let digest = chained(previous, &text[1..]);
    write!(bytes, "{{\"chain\":\"{digest}\",")?;
    bytes.extend_from_slice(&text[1..]);
    Ok(Position {
        sequence: previous.sequence + 1,
        digest,
    })
}

fn chained(previous: Position, rest: &[u8]) -> Digest {
    Digest::of(&[previous.digest.to_string().as_bytes(), rest].concat())
}

/// A line after `previous`; `Err(true)` if it is no whole line.
fn accept(previous: Position, bytes: &[u8]) -> Result<(Position, Hex128, StoredText), bool> {
    let whole = bytes.ends_with(b"\n").then_some(bytes).ok_or(true)?;
    let may_be_torn = whole.contains(&0);
    let line = whole.strip_prefix(BEGINNING).ok_or(may_be_torn)?;
    let (chain, rest) = line.split_at_checked(64).ok_or(may_be_torn)?;
    let rest = rest.strip_prefix(b"\",").ok_or(may_be_torn)?;
    let digest = chained(previous, rest);
    if digest.to_string().as_bytes() != chain {
        return Err(may_be_torn);
    }
    // What serde says of a bad line may have the text in it.
    let rest: RestOfLine = serde_json::from_slice(&[b"{", rest].concat()).map_err(|_| false)?;
    let stored = match (rest.erased, rest.text, rest.customer) {
        (Some(time), None, None) => StoredText::Erased(time),
        (None, Some(text), None) => StoredText::Text(text),
        (None, None, Some(row)) => StoredText::Customer(Box::new(row)),
        _ => return Err(false),
    };
    let position = Position {
        sequence: previous.sequence + 1,
        digest,
    };
    Ok((position, rest.name, stored))
}

/// Reads a file, line by line. Tells a torn end, which was never acknowledged, from damage.
pub(crate) fn read(
    input: impl Read,
    genesis: Position,
    mut each: impl FnMut(Hex128, StoredText),
) -> Result<LedgerExtent, LedgerFault> {
    let mut input = BufReader::with_capacity(1 << 18, input);
    let mut bytes = Vec::with_capacity(record::MAX);
    let mut found = LedgerExtent::none(genesis);
    while reader::next(&mut input, &mut bytes)? {
        match accept(found.end, &bytes) {
            Ok((end, name, stored)) => {
                found.end = end;
                found.length += bytes.len() as u64;
                each(name, stored);
            }
            Err(true) if reader::was_never_acknowledged(&mut input, &mut bytes, found.end.sequence)? => {
                found.torn = true;
                break;
            }
            Err(_) => {
                let line = found.lines() + 1;
                let what = "it was changed, or does not continue the line before";
                return Err(LedgerFault::Broken(format!("line {line}: {what}")));
            }
        }
    }
    Ok(found)
}

/// Writes a whole file, and syncs it. All its lines are on disk before it gets its name.
pub(crate) fn write_all<'r>(
    file: &fs::File,
    count: u64,
    all: impl Iterator<Item = (&'r Hex128, &'r StoredText)>,
) -> io::Result<(Position, u64)> {
    let mut out = BufWriter::new(file);
    let mut end = genesis();
    let mut length = 0;
    let mut line = Vec::new();
    for (name, stored) in all {
        line.clear();
        end = write(&mut line, end, count, *name, stored)?;
        length += line.len() as u64;
        out.write_all(&line)?;
    }
    out.flush()?;
    drop(out);
    file.sync_all()?;
    Ok((end, length))
}

/// Begins a file in a folder that has none.
///
/// # Errors
/// There is one, or the disk failed.
pub(crate) fn begin(folder: &Path, all: &[(Hex128, StoredText)]) -> io::Result<()> {
    let new = new_file_in(folder);
    let begun = (|| {
        let file = regular_file::create(&new, 0o600)?;
        write_all(&file, all.len() as u64, all.iter().map(|(name, stored)| (name, stored)))?;
        fs::hard_link(&new, path_in(folder))
    })();
    let _ = fs::remove_file(&new);
    begun?;
    regular_file::open_folder(folder)?.sync_all()
}

/// The open file. The checks of its place are the ledger's; only its lines differ.
pub(crate) struct TextFile(pub LedgerFile);

impl Medium for TextFile {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn expect(&self, lengths: RangeInclusive<u64>) -> io::Result<()> {
        self.0.expect(lengths)
    }

    fn prove(&self, end: Position, length: u64) -> io::Result<()> {
        let found = read(self.0.first(length), genesis(), |_, _| ());
        self.0
            .prove_by(found, |found| found.end == end && found.length == length)
    }
}
