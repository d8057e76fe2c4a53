//! The parts of a ledger: the file or table in use, and those that compactions set aside.
//!
//! A compaction begins a new part that continues the old one's last line, so all parts are one chain. A part is found and read
//! by the numbers of its lines, which ascend by one. [`LedgerFeed`](crate::ledger_feed::LedgerFeed) goes from one to the next.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::disk;
use crate::error::{BackendError, LedgerState, NEWER, StoreError};
use crate::log;
use crate::log::record;
use crate::postgres::shared_reader::SharedReader;
use countersign_files::regular_file;

/// Below this many bytes, lines are read one by one.
const NEAR: u64 = 64 << 10;

/// Where the parts of a ledger are.
pub(crate) trait LedgerParts: Send {
    /// The names of all parts, the one in use first.
    fn names(&mut self) -> Result<Vec<String>, StoreError>;

    /// At most `limit` whole lines of a part whose numbers are `first` to `last`, each with its line feed.
    fn lines(&mut self, part: &str, first: u64, last: u64, limit: usize) -> Result<Vec<Vec<u8>>, StoreError>;

    /// The error for a part that is not what was written.
    fn damaged(&self, part: &str, what: String) -> StoreError;

    /// The error for a part with a line of a kind that this version does not know.
    fn newer(&self, part: &str, what: String) -> StoreError;

    /// Lets go of what is open.
    fn close(&mut self);
}

/// Files in a store's folder.
pub(crate) struct FolderParts {
    folder: PathBuf,
    open: Option<OpenFile>,
}

struct OpenFile {
    name: String,
    reader: BufReader<File>,
    /// The number of the line that the reader is at.
    next: u64,
}

impl FolderParts {
    pub(crate) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            open: None,
        }
    }
}

impl LedgerParts for FolderParts {
    fn names(&mut self) -> Result<Vec<String>, StoreError> {
        let failed = |source| StoreError::Read {
            path: self.folder.clone(),
            source,
        };
        let mut aside = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            aside.extend(name.to_str().filter(|name| disk::is_set_aside(name)).map(str::to_owned));
        }
        // Their names have the time.
        aside.sort_unstable_by(|one, other| other.cmp(one));
        Ok([vec![log::NAME.to_owned()], aside].concat())
    }

    fn lines(&mut self, part: &str, first: u64, last: u64, limit: usize) -> Result<Vec<Vec<u8>>, StoreError> {
        let path = self.folder.join(part);
        let failed = |source| StoreError::Read {
            path: path.clone(),
            source,
        };
        let mut file = match self.open.take() {
            Some(file) if file.name == part && file.next == first => file,
            _ => {
                let file = regular_file::open(&path, regular_file::UNLIMITED).map_err(failed)?;
                let mut reader = BufReader::with_capacity(NEAR as usize, file);
                let next = seek_line(&mut reader, first).map_err(failed)?;
                let name = part.to_owned();
                OpenFile { name, reader, next }
            }
        };
        let mut lines = Vec::new();
        while file.next <= last && lines.len() < limit {
            let Some(line) = next_line(&mut file.reader).map_err(failed)? else {
                break;
            };
            file.next = file.next.saturating_add(1);
            lines.push(line);
        }
        self.open = Some(file);
        Ok(lines)
    }

    fn damaged(&self, part: &str, what: String) -> StoreError {
        let path = self.folder.join(part);
        StoreError::Damaged { path, what }
    }

    fn newer(&self, part: &str, what: String) -> StoreError {
        let path = self.folder.join(part);
        StoreError::Newer { path, what }
    }

    fn close(&mut self) {
        self.open = None;
    }
}

/// Goes to the first line whose number is `wanted` or greater; returns its number, or that of the line which would come next.
/// Reads a few pages, however long the file is.
fn seek_line<R: Read + Seek>(ledger: &mut BufReader<R>, wanted: u64) -> io::Result<u64> {
    let mut low = 0;
    let mut high = ledger.seek(SeekFrom::End(0))?;
    while high - low > NEAR {
        let middle = low + (high - low) / 2;
        ledger.seek(SeekFrom::Start(middle))?;
        next_line(ledger)?;
        let start = ledger.stream_position()?;
        // What is no line follows the last one.
        let number = next_line(ledger)?.as_deref().and_then(number_of);
        match number.is_some_and(|number| number < wanted) {
            true => low = start,
            false => high = start.min(high - 1),
        }
    }
    ledger.seek(SeekFrom::Start(low))?;
    let mut start = low;
    let mut number: Option<u64> = None;
    while let Some(line) = next_line(ledger)? {
        let here = match number {
            None => number_of(&line).unwrap_or(u64::MAX),
            Some(before) => before.saturating_add(1),
        };
        if here >= wanted {
            ledger.seek(SeekFrom::Start(start))?;
            return Ok(here);
        }
        number = Some(here);
        start += line.len() as u64;
    }
    Ok(number.map_or(wanted, |last| last.saturating_add(1)))
}

fn number_of(line: &[u8]) -> Option<u64> {
    Some(record::previous_of(line)?.sequence + 1)
}

/// Reads the next whole line. What is not a whole line yet is read again later.
fn next_line<R: Read + Seek>(ledger: &mut BufReader<R>) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let start = ledger.stream_position()?;
    ledger.by_ref().take(record::MAX as u64).read_until(b'\n', &mut line)?;
    if line.ends_with(b"\n") {
        return Ok(Some(line));
    }
    ledger.seek(SeekFrom::Start(start))?;
    Ok(None)
}

/// Tables of a database.
pub(crate) struct DatabaseParts {
    address: String,
    reader: Option<Box<SharedReader>>,
}

impl DatabaseParts {
    pub(crate) fn new(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            reader: None,
        }
    }

    fn reader(&mut self) -> Result<&SharedReader, StoreError> {
        let reader = match self.reader.take() {
            Some(reader) => reader,
            None => Box::new(SharedReader::open(&self.address)?),
        };
        Ok(self.reader.insert(reader))
    }
}

impl LedgerParts for DatabaseParts {
    fn names(&mut self) -> Result<Vec<String>, StoreError> {
        self.reader()?.ledger_tables()
    }

    fn lines(&mut self, part: &str, first: u64, last: u64, limit: usize) -> Result<Vec<Vec<u8>>, StoreError> {
        self.reader()?.lines_of(part, first, last, limit)
    }

    fn damaged(&self, part: &str, what: String) -> StoreError {
        StoreError::shared(BackendError {
            state: LedgerState::Damaged,
            message: format!("{part}: {what}"),
        })
    }

    fn newer(&self, part: &str, what: String) -> StoreError {
        StoreError::shared(BackendError {
            state: LedgerState::NewerVersion,
            message: format!("{part}: {NEWER}: {what}"),
        })
    }

    fn close(&mut self) {
        self.reader = None;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io::Cursor;
    use std::rc::Rc;

    use chrono::{DateTime, TimeDelta};
    use tempfile::TempDir;

    use super::*;
    use crate::ledger_feed::{FeedCursor, LedgerFeed};
    use crate::log::record::{LedgerEvent, LedgerRecord};
    use crate::log::{Compaction, Position};
    use crate::source::StoreSource;
    use crate::testing::api_token;

    /// A file that counts the bytes that are read.
    struct Counted(Cursor<Vec<u8>>, Rc<Cell<usize>>);

    impl Read for Counted {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let read = self.0.read(into)?;
            self.1.set(self.1.get() + read);
            Ok(read)
        }
    }

    impl Seek for Counted {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.0.seek(to)
        }
    }

    /// A ledger that was compacted after line `before`, with `count` lines.
    fn ledger(before: u64, count: u64) -> Vec<u8> {
        let mut end = Position {
            sequence: before,
            ..Position::genesis()
        };
        let mut bytes = Vec::new();
        for number in 0..count {
            let change = match number {
                0 => LedgerEvent::Compacted(Compaction {
                    kept: 0,
                    time: chrono::DateTime::UNIX_EPOCH,
                }),
                number => LedgerEvent::Token(std::sync::Arc::new(api_token(&"t".repeat(1 + number as usize % 50)))),
            };
            let record = LedgerRecord {
                previous: end,
                synced: before,
                change,
            };
            end = record.write(&mut bytes).unwrap();
        }
        bytes
    }

    #[test]
    fn a_line_is_found_by_its_number_in_a_long_file_without_reading_it() {
        let bytes = ledger(7, 30_000);
        assert!(bytes.len() > 6_000_000, "{}", bytes.len());
        let read = Rc::new(Cell::new(0));
        let torn = [&bytes[..], b"{\"event\":\"bou"].concat();
        let mut reader = BufReader::with_capacity(NEAR as usize, Counted(Cursor::new(torn), Rc::clone(&read)));
        for wanted in [0, 1, 8, 9, 10, 400, 15_007, 30_006, 30_007] {
            read.set(0);
            let found = seek_line(&mut reader, wanted).unwrap();
            assert_eq!(found, wanted.max(8));
            assert_eq!(number_of(&next_line(&mut reader).unwrap().unwrap()), Some(found));
            assert!(
                read.get() < 2_000_000,
                "{} bytes were read for line {wanted}",
                read.get()
            );
        }
        assert_eq!(seek_line(&mut reader, 30_008).unwrap(), 30_008);
        assert_eq!(next_line(&mut reader).unwrap(), None, "a line that is not whole yet");
        assert_eq!(seek_line(&mut reader, 40_000).unwrap(), 30_008);
        let mut empty = BufReader::new(Cursor::new(Vec::new()));
        assert_eq!(seek_line(&mut empty, 1).unwrap(), 1);
    }

    /// The bytes that this thread has read.
    fn read_here() -> usize {
        let text = fs::read_to_string("/proc/thread-self/io").unwrap();
        text.lines().next().unwrap()["rchar: ".len()..].parse().unwrap()
    }

    #[test]
    fn whoever_goes_back_again_and_again_reads_a_few_pages_of_a_long_ledger() {
        let folder = TempDir::new().unwrap();
        let bytes = ledger(0, 30_000);
        fs::write(folder.path().join(log::NAME), &bytes).unwrap();
        let lines = bytes.split_inclusive(|byte| *byte == b'\n').take(29_990);
        let known = FeedCursor {
            position: lines.fold(Position::genesis(), |position, line| position.after(line)),
            time: DateTime::UNIX_EPOCH,
        };
        // After a backup was restored, no part has the line. The feed goes on by time, and then from the line that it found.
        let lost = FeedCursor {
            position: Position {
                sequence: 100,
                ..known.position
            },
            time: DateTime::UNIX_EPOCH + TimeDelta::days(100 * 365),
        };
        for cursor in [known, lost] {
            let mut feed = LedgerFeed::new(StoreSource::Folder(folder.path()), cursor);
            if cursor == lost {
                assert!(feed.next(29_990, 9).unwrap().is_empty());
                assert_eq!(feed.cursor().position, known.position);
            }
            for _ in 0..4 {
                let before = read_here();
                assert_eq!(feed.next(30_000, 9).unwrap().len(), 9);
                let read = read_here() - before;
                assert!(read < bytes.len() / 3, "{read} of {} bytes", bytes.len());
                feed.rewind(cursor);
            }
        }
    }
}
