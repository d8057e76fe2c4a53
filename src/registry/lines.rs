//! The lines of a registry file, handed over one after the other and only as far as they are whole: an export of a million
//! licenses need not be in memory with all that is read from it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read as _};
use std::path::Path;

use super::complaint::Complaint;
use super::files::Listed;

pub const MEBIBYTE: u64 = 1 << 20;

/// As much of a file is read at once.
const PIECE: usize = 256 * 1024;

/// Where a file's bytes come from, and about how many there are.
pub struct Source {
    from: Box<dyn BufRead>,
    length: u64,
}

impl Source {
    /// Bytes that are there.
    pub fn held(bytes: Vec<u8>) -> Self {
        Self { length: bytes.len() as u64, from: Box::new(Cursor::new(bytes)) }
    }

    /// A file, of which not much more than `limit` is read.
    pub fn open(path: &Path, limit: u64) -> io::Result<Self> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        Ok(Self { from: Box::new(BufReader::with_capacity(PIECE, file.take(limit + 1))), length })
    }
}

/// A file's lines.
pub struct Lines<'a> {
    listed: &'a Listed,
    source: Source,
    /// How many bytes may be read, and how many were.
    limit: u64,
    read: u64,
    number: usize,
    line: Vec<u8>,
}

impl<'a> Lines<'a> {
    /// The lines of the file `listed`, which may be of `limit` bytes.
    pub fn new(listed: &'a Listed, source: Source, limit: u64) -> Self {
        Self { listed, source, limit, read: 0, number: 0, line: Vec::new() }
    }

    /// About how many bytes all of them are.
    pub fn bytes(&self) -> usize {
        self.source.length.min(self.limit) as usize
    }

    /// The next line with its end, and its number from 1; `None` behind the last one.
    pub fn next(&mut self) -> Result<Option<(usize, &str)>, Complaint> {
        let complain = |message: String| Err(Complaint::of_file(&self.listed.file, message));
        self.line.clear();
        match self.source.from.read_until(b'\n', &mut self.line) {
            Err(error) => return complain(format!("cannot be read: {error}")),
            Ok(0) if self.number > 0 => return Ok(None),
            Ok(length) => self.read += length as u64,
        }
        if self.read > self.limit {
            return complain(format!("larger than {} MiB", self.limit / MEBIBYTE));
        }
        self.number += 1;
        match str::from_utf8(&self.line) {
            // A writer that was interrupted must not make a shorter registry out of a longer one.
            Ok(line) if !line.ends_with('\n') => {
                complain("the file does not end with a newline: it may be half written".into())
            }
            Ok(line) => Ok(Some((self.number, line))),
            Err(error) => {
                let (file, line, column) = (self.listed.file.clone(), self.number, error.valid_up_to() + 1);
                Err(Complaint { file, line, column, message: "not UTF-8".to_owned() })
            }
        }
    }
}
