//! Appends to the ledger: a batch is on disk as a whole, or it is not there.
//!
//! After a failure the file is cut back to where the last durable line ends before anything else is written, so that a
//! torn line is never continued.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::line::{Change, Line};
use super::{Entry, Position};

/// What the writer needs of a file; tests have one that fails.
pub(in crate::store) trait Medium {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    fn set_len(&self, length: u64) -> io::Result<()>;
    /// fdatasync.
    fn sync(&self) -> io::Result<()>;
}

impl Medium for File {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, offset)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// The ledger's end.
pub(in crate::store) struct Writer<M> {
    medium: M,
    end: Position,
    length: u64,
    /// Whether something may stand behind the end.
    torn: bool,
}

impl<M: Medium> Writer<M> {
    /// Continues a ledger whose last line ends after `length` bytes.
    pub(in crate::store) fn new(medium: M, end: Position, length: u64, torn: bool) -> Self {
        Self { medium, end, length, torn }
    }

    /// Appends a batch with one sync; returns the places of its lines.
    pub(in crate::store) fn append(&mut self, entries: &[Entry]) -> io::Result<Vec<Position>> {
        self.cut()?;
        let (mut end, mut bytes, mut places) = (self.end, Vec::new(), Vec::with_capacity(entries.len()));
        for entry in entries {
            let change = Change::Bound(entry.clone());
            end = Line { previous: end, synced: self.end.sequence, change }.write(&mut bytes)?;
            places.push(end);
        }
        self.write(&bytes)?;
        self.torn = false;
        (self.end, self.length) = (end, self.length + bytes.len() as u64);
        Ok(places)
    }

    /// Whether a batch could be appended: writes a block that is no line, and takes it away again.
    pub(in crate::store) fn probe(&mut self) -> io::Result<()> {
        self.cut()?;
        self.write(&[b' '; 4096])?;
        self.cut()
    }

    /// Takes away what stands behind the last durable line.
    pub(in crate::store) fn cut(&mut self) -> io::Result<()> {
        if self.torn {
            self.medium.set_len(self.length)?;
            self.medium.sync()?;
            self.torn = false;
        }
        Ok(())
    }

    // SECURITY: without the sync, acknowledged bindings are lost at a loss of power.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.torn = true;
        let written = self.medium.write_all_at(bytes, self.length).and_then(|()| self.medium.sync());
        written.inspect_err(|_| {
            // Where this fails too, it is done before the next batch.
            let _ = self.cut();
        })
    }
}
