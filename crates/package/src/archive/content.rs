//! A checked entry of an archive, which `local` makes, and step 4: its data, decompressed if necessary, and compared with size and
//! CRC-32.

use std::io::{self, Read};

use flate2::{Decompress, FlushDecompress, Status};

use super::refusal::ArchiveRefusal;
use crate::entry_name::{EntryName, is_never_packed};
use crate::format::method;
use crate::read_at::ReadAt;

/// A file or a folder in an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveEntry {
    /// Its name; that of a folder without the final `/`.
    pub name: EntryName,
    /// Whether it is a folder.
    pub is_folder: bool,
    /// Its unpacked size in bytes.
    pub size: u64,
    /// Its size in the archive in bytes.
    pub packed: u64,
    /// The CRC-32 of its content.
    pub crc: u32,
    pub(crate) method: u16,
    pub(crate) header_at: u64,
    pub(crate) data_at: u64,
    pub(crate) central_at: u64,
}

impl ArchiveEntry {
    /// Whether it, or a folder in its name, is [never packed](is_never_packed).
    pub fn is_never_packed(&self) -> bool {
        self.name.as_str().split('/').any(is_never_packed)
    }
}

/// Bytes to read from the archive at once.
const PIECE: u64 = 1 << 16;

/// Reads an entry's content. The last read fails with an [`ArchiveRefusal`] inside the error if size or CRC-32 do not
/// match the headers.
pub struct EntryReader<'a, R: ?Sized> {
    source: &'a R,
    /// What is still to be read from the archive.
    at: u64,
    left: u64,
    /// Read, but not decompressed yet: `input[taken..]`.
    input: Vec<u8>,
    taken: usize,
    /// `None` for STORED data.
    inflate: Option<Decompress>,
    is_done: bool,
    crc: crc32fast::Hasher,
    given: u64,
    size: u64,
    expected_crc: u32,
}

impl<R: ?Sized> std::fmt::Debug for EntryReader<'_, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Content")
            .field("given", &self.given)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

impl<'a, R: ReadAt + ?Sized> EntryReader<'a, R> {
    pub(super) fn new(source: &'a R, entry: &ArchiveEntry) -> Self {
        Self {
            source,
            at: entry.data_at,
            left: entry.packed,
            input: Vec::new(),
            taken: 0,
            inflate: (entry.method == method::DEFLATE).then(|| Decompress::new(false)),
            is_done: false,
            crc: crc32fast::Hasher::new(),
            given: 0,
            size: entry.size,
            expected_crc: entry.crc,
        }
    }

    /// Reads the next piece from the archive if the last one is used up.
    fn fill(&mut self) -> io::Result<()> {
        if self.taken < self.input.len() || self.left == 0 {
            return Ok(());
        }
        // At most 64 KiB.
        self.input.resize(self.left.min(PIECE) as usize, 0);
        self.source.read_exact_at(&mut self.input, self.at)?;
        self.at += self.input.len() as u64;
        self.left -= self.input.len() as u64;
        self.taken = 0;
        Ok(())
    }

    /// Fills the buffer and returns the number of bytes; 0 at the end of the data.
    fn next(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.fill()?;
            let piece = &self.input[self.taken..];
            let Some(inflate) = &mut self.inflate else {
                let length = piece.len().min(buffer.len());
                buffer[..length].copy_from_slice(&piece[..length]);
                self.taken += length;
                return Ok(length);
            };
            if self.is_done {
                return Ok(0);
            }
            let taken = inflate.total_in();
            let given = inflate.total_out();
            let status = inflate
                .decompress(piece, buffer, FlushDecompress::None)
                .map_err(|_| refused(ArchiveRefusal::Deflate))?;
            // Neither is longer than its slice.
            let used = (inflate.total_in() - taken) as usize;
            let made = (inflate.total_out() - given) as usize;
            self.taken += used;
            self.is_done = status == Status::StreamEnd;
            if made > 0 {
                return Ok(made);
            }
            // More input helps only if there is some.
            let is_stuck = used == 0 && self.taken == self.input.len() && self.left == 0;
            if !self.is_done && is_stuck {
                return Err(refused(ArchiveRefusal::Deflate));
            }
        }
    }

    fn check(&self) -> io::Result<()> {
        // Bytes after the end of the deflate stream are not allowed.
        if self.taken < self.input.len() || self.left > 0 {
            return Err(refused(ArchiveRefusal::Deflate));
        }
        if self.given != self.size {
            return Err(refused(ArchiveRefusal::Size));
        }
        if self.crc.clone().finalize() != self.expected_crc {
            return Err(refused(ArchiveRefusal::Crc));
        }
        Ok(())
    }
}

impl<R: ReadAt + ?Sized> Read for EntryReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let length = self.next(buffer)?;
        self.given += length as u64;
        // SECURITY: stop at a zip bomb as soon as it is larger than announced.
        if self.given > self.size {
            return Err(refused(ArchiveRefusal::Size));
        }
        self.crc.update(&buffer[..length]);
        if length == 0 {
            self.check()?;
        }
        Ok(length)
    }
}

fn refused(reason: ArchiveRefusal) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}
