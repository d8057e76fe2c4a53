//! The lines of a registry file, one after the other, so that a file with a million licenses need not be in memory as a
//! whole. Only the last line shows whether the file is complete.

use std::io::{self, BufRead, BufReader, Cursor, Read as _};
use std::path::Path;

use crate::error::Diagnostic;
use countersign_files::regular_file;

pub(super) const MEBIBYTE: u64 = 1 << 20;

/// The size of one read.
const PIECE: usize = 256 * 1024;

/// Where a file's bytes come from, and their number.
pub struct ByteSource {
    from: Box<dyn BufRead>,
    length: u64,
}

impl ByteSource {
    /// Bytes in memory.
    pub fn held(bytes: Vec<u8>) -> Self {
        Self {
            length: bytes.len() as u64,
            from: Box::new(Cursor::new(bytes)),
        }
    }

    /// A file. Reads little more than `limit` bytes.
    pub fn open(path: &Path, limit: u64) -> io::Result<Self> {
        let file = regular_file::open(path, limit)?;
        let length = file.metadata()?.len();
        Ok(Self {
            from: Box::new(BufReader::with_capacity(PIECE, file.take(limit + 1))),
            length,
        })
    }

    /// All bytes, if there are no more than `limit`.
    pub(super) fn whole(self, limit: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.from.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
        match bytes.len() as u64 > limit {
            true => Err(io::ErrorKind::FileTooLarge.into()),
            false => Ok(bytes),
        }
    }
}

/// A file's lines.
pub struct LineReader<'a> {
    /// The file's name in diagnostics.
    path: &'a Path,
    source: ByteSource,
    /// How many bytes may be read, and how many have been.
    limit: u64,
    read: u64,
    number: usize,
    line: Vec<u8>,
}

impl<'a> LineReader<'a> {
    /// The lines of the file `path`, which may have `limit` bytes.
    pub fn new(path: &'a Path, source: ByteSource, limit: u64) -> Self {
        Self {
            path,
            source,
            limit,
            read: 0,
            number: 0,
            line: Vec::new(),
        }
    }

    /// The size of the file in bytes.
    pub fn bytes(&self) -> usize {
        self.source.length.min(self.limit) as usize
    }

    /// The next line with its end, and its number from 1; `None` after the last line of a complete file. After a
    /// diagnostic, all earlier lines are invalid, too.
    pub fn next(&mut self) -> Result<Option<(usize, &str)>, Diagnostic> {
        let complain = |message: String| Err(Diagnostic::of_file(self.path, message));
        self.line.clear();
        match self.source.from.read_until(b'\n', &mut self.line) {
            Err(error) => return complain(format!("cannot be read: {error}")),
            Ok(0) if self.number > 0 && self.read == self.source.length => return Ok(None),
            Ok(0) if self.number > 0 => return complain("it changed while it was read".into()),
            Ok(length) => self.read += length as u64,
        }
        if self.read > self.limit {
            return complain(format!("larger than {} MiB", self.limit / MEBIBYTE));
        }
        self.number += 1;
        match str::from_utf8(&self.line) {
            // An interrupted writer must not make a long registry short.
            Ok("") => complain("the file is empty".into()),
            Ok(line) if !line.ends_with('\n') => {
                complain("the file does not end with a newline: it may be half written".into())
            }
            Ok(line) => Ok(Some((self.number, line))),
            Err(error) => {
                let file = self.path.to_owned();
                let line = self.number;
                let column = error.valid_up_to() + 1;
                Err(Diagnostic {
                    file,
                    line,
                    column,
                    message: "not UTF-8".to_owned(),
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines with their numbers, and the diagnostic.
    fn read(text: &[u8], limit: u64) -> (Vec<(usize, String)>, Option<String>) {
        let mut lines = LineReader::new(Path::new("a.jsonl"), ByteSource::held(text.to_vec()), limit);
        let mut read = Vec::new();
        loop {
            match lines.next() {
                Ok(Some((number, line))) => read.push((number, line.to_owned())),
                Ok(None) => return (read, None),
                Err(diagnostic) => {
                    return (
                        read,
                        diagnostic.to_string().split_once("a.jsonl:").map(|(_, end)| end.into()),
                    );
                }
            }
        }
    }

    #[test]
    fn lines_come_with_their_ends_and_numbers_up_to_the_limit() {
        let lines = [(1, "a\r\n".to_owned()), (2, "\n".to_owned()), (3, "ä\n".to_owned())];
        let text = "a\r\n\nä\n".as_bytes();
        assert_eq!(read(text, text.len() as u64), (lines.to_vec(), None));
        let (before, diagnostic) = read(text, text.len() as u64 - 1);
        assert_eq!(
            (&before[..], diagnostic.as_deref()),
            (&lines[..2], Some(" larger than 0 MiB"))
        );
    }

    #[test]
    fn a_file_that_is_not_whole_or_no_text_is_complained_about_with_its_place() {
        let end = " the file does not end with a newline: it may be half written";
        for (text, diagnostic) in [
            (&b""[..], " the file is empty"),
            (b"a\nb", end),
            (b"a\nb\nc\xff\n", "3:2: not UTF-8"),
        ] {
            assert_eq!(read(text, 100).1.as_deref(), Some(diagnostic));
        }
    }

    #[test]
    fn a_file_that_grows_or_shrinks_meanwhile_is_complained_about() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        std::fs::write(&path, "a\nb\n").unwrap();
        for length in [3, 5] {
            let source = ByteSource {
                length,
                ..ByteSource::open(&path, 100).unwrap()
            };
            let mut lines = LineReader::new(&path, source, 100);
            assert!(lines.next().is_ok() && lines.next().is_ok());
            assert!(
                lines
                    .next()
                    .unwrap_err()
                    .to_string()
                    .ends_with("a.jsonl: it changed while it was read")
            );
        }
    }
}
