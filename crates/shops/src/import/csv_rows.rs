//! Reads a CSV file (RFC 4180) row by row, whatever its length. A quote that is never closed does not make one row of the
//! rest of the file.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

use csv::{ByteRecord, Reader, ReaderBuilder, Terminator};

/// The most bytes of one row: a license with some thousand sites.
pub const MAX_ROW: usize = 1 << 20;

/// What the CSV reader reads at once.
const BUFFER: usize = 64 << 10;

/// Why a file is not read, or not read to its end.
#[derive(Debug, thiserror::Error)]
pub enum CsvError {
    /// Nothing is in it.
    #[error("the file is empty: its first line must name the columns")]
    Empty,
    /// It is in another encoding.
    #[error("the file is UTF-16: save it as UTF-8")]
    Utf16,
    /// A row is too long.
    #[error("the row that begins in line {line} is longer than {MAX_ROW} bytes: is a quote not closed?")]
    TooLong {
        /// The line, from 1.
        line: u64,
    },
    /// Its last row does not end.
    #[error("the row that begins in line {line} has a quote that is not closed")]
    Unclosed {
        /// The line, from 1.
        line: u64,
    },
    /// It cannot be read.
    #[error("the file cannot be read after line {line}")]
    Read {
        /// The last line that was read.
        line: u64,
        /// Why.
        source: io::Error,
    },
}

/// The rows of a CSV file.
pub struct CsvRows<R> {
    reader: Reader<RowBudget<R>>,
    allowance: Rc<Cell<usize>>,
    header: ByteRecord,
    row: ByteRecord,
}

/// Fails after so many bytes, and puts [`END`] behind the file.
struct RowBudget<R> {
    inner: R,
    allowance: Rc<Cell<usize>>,
    /// How much of [`END`] was read.
    ended: usize,
}

/// The row behind the last one. If it comes as a part of another row, a quote of that one is not closed.
const END_ROW: &[u8] = b"countersignEndOfFile";

/// The end of the last line, and [`END_ROW`].
const END: &[u8] = b"\ncountersignEndOfFile\n";

/// The mark of [`RowBudget`]'s own error.
const OVER: &str = "the row is too long";

impl<R: Read> Read for RowBudget<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let allowed = self.allowance.get().min(buffer.len());
        if allowed == 0 && !buffer.is_empty() {
            return Err(io::Error::other(OVER));
        }
        let mut count = match self.ended {
            0 => self.inner.read(&mut buffer[..allowed])?,
            _ => 0,
        };
        if count == 0 {
            let rest = &END[self.ended..];
            count = rest.len().min(allowed);
            buffer[..count].copy_from_slice(&rest[..count]);
            self.ended += count;
        }
        self.allowance.set(self.allowance.get() - count);
        Ok(count)
    }
}

impl<R: Read> CsvRows<R> {
    /// Reads the header. A byte order mark is dropped.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn open(inner: R, delimiter: u8) -> Result<Self, CsvError> {
        let allowance = Rc::new(Cell::new(MAX_ROW));
        let bounded = RowBudget {
            inner,
            allowance: Rc::clone(&allowance),
            ended: 0,
        };
        let reader = ReaderBuilder::new()
            .delimiter(delimiter)
            .has_headers(false)
            // A row with another number of columns is reported with its line.
            .flexible(true)
            // Consumed with its row, so that the lines can be counted. What is before it is cut off below.
            .terminator(Terminator::Any(b'\n'))
            .buffer_capacity(BUFFER)
            .from_reader(bounded);
        let mut rows = Self {
            reader,
            allowance,
            header: ByteRecord::new(),
            row: ByteRecord::new(),
        };
        if !rows.advance()? {
            return Err(CsvError::Empty);
        }
        rows.header = rows.row.clone();
        if rows
            .header
            .get(0)
            .is_some_and(|first| first.starts_with(&[0xFF, 0xFE]) || first.starts_with(&[0xFE, 0xFF]))
        {
            return Err(CsvError::Utf16);
        }
        Ok(rows)
    }

    /// The first row.
    pub fn header(&self) -> &ByteRecord {
        &self.header
    }

    /// The next row and the line where it begins; `None` at the end. Empty lines are no rows.
    ///
    /// # Errors
    /// The file cannot be read further.
    pub fn next_row(&mut self) -> Result<Option<(u64, &ByteRecord)>, CsvError> {
        if !self.advance()? {
            return Ok(None);
        }
        // Every row ends with one more.
        let line = self.reader.position().line().saturating_sub(1 + self.line_ends());
        Ok(Some((line, &self.row)))
    }

    /// How many line ends are in the cells of the row.
    fn line_ends(&self) -> u64 {
        let is_line_end = |byte: &&u8| **byte == b'\n';
        self.row.iter().flatten().filter(is_line_end).count() as u64
    }

    /// Reads the next row that is not empty.
    fn advance(&mut self) -> Result<bool, CsvError> {
        loop {
            let is_row = self.read_record()?;
            if self.row.len() == 1 && &self.row[0] == END_ROW {
                return Ok(false);
            }
            let last = self.row.len().saturating_sub(1);
            let is_unclosed = |cell: &[u8]| cell.strip_suffix(b"\n").is_some_and(|cell| cell.ends_with(END_ROW));
            if is_row && self.row.get(last).is_some_and(is_unclosed) {
                let inside = self.line_ends();
                return Err(CsvError::Unclosed {
                    line: self.reader.position().line().saturating_sub(inside),
                });
            }
            if let Some(cell) = self.row.get(last).filter(|cell| cell.ends_with(b"\r")) {
                let cut = cell[..cell.len() - 1].to_vec();
                let before: Vec<Vec<u8>> = self.row.iter().take(last).map(<[u8]>::to_vec).collect();
                self.row = before.into_iter().chain([cut]).collect();
            }
            let is_empty = self.row.len() == 1 && self.row[0].trim_ascii().is_empty();
            if !is_row || !is_empty {
                return Ok(is_row);
            }
        }
    }

    fn read_record(&mut self) -> Result<bool, CsvError> {
        self.allowance.set(MAX_ROW);
        let begins = self.reader.position().line();
        self.reader
            .read_byte_record(&mut self.row)
            .map_err(|error| match error.into_kind() {
                csv::ErrorKind::Io(source) if source.to_string() == OVER => CsvError::TooLong { line: begins },
                csv::ErrorKind::Io(source) => CsvError::Read {
                    line: begins.saturating_sub(1),
                    source,
                },
                // A reader of bytes with rows of any length has no other errors.
                kind => CsvError::Read {
                    line: begins.saturating_sub(1),
                    source: io::Error::other(format!("{kind:?}")),
                },
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &[u8]) -> Vec<(u64, Vec<String>)> {
        let mut rows = CsvRows::open(text, b',').unwrap();
        let mut read = Vec::new();
        while let Some((line, row)) = rows.next_row().unwrap() {
            let cells = row.iter().map(|cell| String::from_utf8_lossy(cell).into_owned());
            read.push((line, cells.collect()));
        }
        read
    }

    #[test]
    fn cells_may_have_line_ends_quotes_and_any_bytes_and_rows_know_their_lines() {
        let text = b"\xEF\xBB\xBFkey,note\r\na,\"one\r\ntwo, \"\"three\"\"\"\r\n\r\nb,\xff\nc\n";
        let opened = CsvRows::open(&text[..], b',').unwrap();
        assert_eq!(opened.header().get(0), Some(&b"key"[..]));
        let read = rows(text);
        assert_eq!(read[0].1, ["a", "one\r\ntwo, \"three\""]);
        assert_eq!(read[1].1, ["b", "\u{fffd}"]);
        assert_eq!(read[2].1, ["c"]);
        let lines: Vec<_> = read.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [2, 5, 6]);
    }

    #[test]
    fn a_quote_that_is_never_closed_ends_the_file_and_not_the_memory() {
        let endless = io::Read::chain(&b"key\na\n\"b"[..], io::repeat(b'x'));
        let mut rows = CsvRows::open(endless, b',').unwrap();
        assert!(rows.next_row().unwrap().is_some());
        let error = rows.next_row().map(|row| row.is_some()).unwrap_err();
        assert!(error.to_string().contains("begins in line 3"), "{error}");
    }

    #[test]
    fn a_quote_that_is_not_closed_at_the_end_is_reported_with_its_row() {
        for text in ["key\na\n\n\"b\nc,d\n", "key\na\n\n\"b", "key\na\n\nx,\"b\n"] {
            let mut rows = CsvRows::open(text.as_bytes(), b',').unwrap();
            assert!(rows.next_row().unwrap().is_some());
            let error = rows.next_row().map(|row| row.is_some()).unwrap_err();
            assert_eq!(
                error.to_string(),
                "the row that begins in line 4 has a quote that is not closed",
                "{text:?}"
            );
        }
        assert_eq!(
            rows(b"key\n\"a\n\"\n")[0].1,
            ["a\n"],
            "a closed one may end with a line end"
        );
        assert!(matches!(
            CsvRows::open(&b"\"key\n"[..], b','),
            Err(CsvError::Unclosed { line: 1 })
        ));
    }

    #[test]
    fn what_has_no_header_is_refused() {
        assert!(matches!(CsvRows::open(&b""[..], b','), Err(CsvError::Empty)));
        assert!(matches!(CsvRows::open(&b"\xFF\xFEk\0"[..], b','), Err(CsvError::Utf16)));
    }
}
