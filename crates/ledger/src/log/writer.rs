//! Appends to the ledger, or to another file of lines: a batch is on disk as a whole, or not at all.
//!
//! After a failure, the file is truncated to its last durable line before the next write, so that a torn line is never
//! continued. Nothing is written or acknowledged unless the file is the expected one.

use std::io;
use std::ops::RangeInclusive;

use crate::log::position::Position;
use crate::log::record::{LedgerEvent, LedgerRecord};

/// The operations of a file that the writer uses. [`crate::log::file`] implements them; tests inject failures.
pub(crate) trait Medium {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    fn set_len(&self, length: u64) -> io::Result<()>;
    /// fdatasync.
    fn sync(&self) -> io::Result<()>;
    /// Whether it is still the file at its path, with a length within `lengths`. Costs two system calls.
    fn expect(&self, lengths: RangeInclusive<u64>) -> io::Result<()>;
    /// Whether its first `length` bytes are the ledger that ends at `end`, durably. Reads all of them.
    fn prove(&self, end: Position, length: u64) -> io::Result<()>;
}

/// The ledger's end.
pub(crate) struct LedgerWriter<M> {
    medium: M,
    end: Position,
    length: u64,
    /// The longest the file may be: more than `length` if something follows that is not a durable line.
    reach: u64,
    /// Whether the last check found another file.
    displaced: bool,
}

impl<M: Medium> LedgerWriter<M> {
    /// Continues a ledger whose last line ends after `length` bytes. `torn` if something follows it.
    pub(crate) fn new(medium: M, end: Position, length: u64, torn: bool) -> Self {
        let reach = if torn { u64::MAX } else { length };
        Self {
            medium,
            end,
            length,
            reach,
            displaced: false,
        }
    }

    /// The position of the last durable line.
    pub(crate) fn end(&self) -> Position {
        self.end
    }

    /// Appends a batch with one sync; returns the positions of its lines.
    pub(crate) fn append(&mut self, changes: &[LedgerEvent]) -> io::Result<Vec<Position>> {
        self.make_ready()?;
        let mut end = self.end;
        let mut bytes = Vec::new();
        let mut places = Vec::with_capacity(changes.len());
        for change in changes {
            let change = change.clone();
            end = LedgerRecord {
                previous: end,
                synced: self.end.sequence,
                change,
            }
            .write(&mut bytes)?;
            places.push(end);
        }
        self.append_bytes(&bytes, end)?;
        Ok(places)
    }

    /// Makes sure that the file is the expected one and ends with its last durable line.
    pub(crate) fn make_ready(&mut self) -> io::Result<()> {
        self.look()?;
        self.cut()
    }

    /// Appends whole lines with one sync, after [`Self::make_ready`]. The last one is at `end`.
    pub(crate) fn append_bytes(&mut self, bytes: &[u8], end: Position) -> io::Result<()> {
        self.write(bytes)?;
        // SECURITY: without this check, bindings would be acknowledged in a file that nobody will read again.
        self.expect(self.reach..=self.reach)?;
        self.length = self.reach;
        self.end = end;
        Ok(())
    }

    /// The file.
    pub(crate) fn medium(&self) -> &M {
        &self.medium
    }

    /// Whether a batch can be appended: writes a block that is not a line, and removes it.
    pub(crate) fn probe(&mut self) -> io::Result<()> {
        self.look()?;
        self.cut()?;
        self.write(&[b' '; 4096])?;
        self.cut()
    }

    /// Whether the file is still the expected one. One that came back is read as a whole first.
    pub(crate) fn look(&mut self) -> io::Result<()> {
        let came_back = self.displaced;
        self.expect(self.length..=self.reach)?;
        if came_back {
            self.medium
                .prove(self.end, self.length)
                .inspect_err(|_| self.displaced = true)?;
        }
        Ok(())
    }

    /// Removes what follows the last durable line.
    pub(crate) fn cut(&mut self) -> io::Result<()> {
        if self.reach > self.length {
            self.medium.set_len(self.length)?;
            self.medium.sync()?;
            self.reach = self.length;
        }
        Ok(())
    }

    fn expect(&mut self, lengths: RangeInclusive<u64>) -> io::Result<()> {
        let looked = self.medium.expect(lengths);
        self.displaced = looked.is_err();
        looked
    }

    // SECURITY: without the sync, a power failure loses acknowledged bindings.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.reach = self.length + bytes.len() as u64;
        let written = self
            .medium
            .write_all_at(bytes, self.length)
            .and_then(|()| self.medium.sync());
        written.inspect_err(|_| {
            // If this fails too, it is done before the next batch.
            let _ = self.cut();
        })
    }
}
