//! Reads an archive strictly: it is accepted only if every program must read it in the same way.
//!
//! Every byte belongs to a header, to one file's data, or to the directory; the two headers of an entry agree; and
//! the data match the headers. Any other zip archive is refused with the entry's name, because another program might
//! read it differently. [`refusal`] has all reasons. An [`Archive`] always meets these rules.
//!
//! Steps: `end` finds the directory, `central` reads it, `local` follows the entries through the file, and `content`
//! reads each one's data.

mod central;
mod content;
mod end;
mod extra;
mod local;
pub mod refusal;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use super::collision;
use super::read_at::ReadAt;
use super::{MAX_PACKED, MAX_RATIO, MAX_UNPACKED};
use countersign_files::regular_file;

pub use content::{ArchiveEntry, EntryReader};
pub use refusal::{ArchiveError, ArchiveRefusal};

/// An archive whose structure, names and contents were checked.
#[derive(Debug)]
pub struct Archive<R> {
    source: R,
    size: u64,
    entries: Vec<ArchiveEntry>,
}

impl Archive<File> {
    /// Opens a regular file and checks all of it.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is refused.
    pub fn open(path: &Path) -> Result<Self, ArchiveError> {
        let file = regular_file::open(path, MAX_PACKED).map_err(ArchiveError::Read)?;
        Self::check(file)
    }
}

impl<R: ReadAt> Archive<R> {
    /// Checks all of an archive: its structure, its names, and every file's content.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is refused.
    pub fn check(source: R) -> Result<Self, ArchiveError> {
        let size = source.size().map_err(ArchiveError::Read)?;
        if size > MAX_PACKED {
            return Err(ArchiveRefusal::TooLarge.into());
        }
        let directory = end::locate(&source, size)?;
        let mut found = central::read(&source, &directory)?;
        let unpacked = found.iter().map(|entry| entry.size).fold(0_u64, u64::saturating_add);
        if unpacked > MAX_UNPACKED {
            return Err(ArchiveRefusal::TooLargeUnpacked.into());
        }
        if unpacked > MAX_RATIO * size {
            return Err(ArchiveRefusal::Ratio.into());
        }
        found.sort_by_key(|entry| entry.header_at);
        let mut entries = local::follow(&source, found, directory.at)?;
        let names = entries.iter().map(|entry| (entry.name.as_str(), entry.is_folder));
        if let Some((name, collision)) = collision::find(names) {
            return Err(ArchiveError::Refused {
                entry: Some(name.to_owned()),
                reason: collision.into(),
            });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let archive = Self { source, size, entries };
        archive.check_contents()?;
        Ok(archive)
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// All entries, sorted by the bytes of their names.
    pub fn entries(&self) -> &[ArchiveEntry] {
        &self.entries
    }

    /// Its files, sorted by the bytes of their names.
    pub fn files(&self) -> impl Iterator<Item = &ArchiveEntry> {
        self.entries.iter().filter(|entry| !entry.is_folder)
    }

    /// The total size of the files in bytes.
    pub fn unpacked(&self) -> u64 {
        self.entries.iter().map(|entry| entry.size).sum()
    }

    /// The content of an entry. It is verified again: the last read fails if the content does not match the headers.
    pub fn content(&self, entry: &ArchiveEntry) -> EntryReader<'_, R> {
        EntryReader::new(&self.source, entry)
    }

    /// The whole content of an entry, in memory. For small entries.
    ///
    /// # Errors
    ///
    /// The file can no longer be read, or was changed since it was checked.
    pub fn read(&self, entry: &ArchiveEntry) -> Result<Vec<u8>, ArchiveError> {
        let mut bytes = Vec::new();
        self.content(entry)
            .read_to_end(&mut bytes)
            .map_err(|error| ArchiveError::of_content(&entry.name, error))?;
        Ok(bytes)
    }

    /// At most the first `limit` bytes of an entry.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn read_start(&self, entry: &ArchiveEntry, limit: u64) -> Result<Vec<u8>, ArchiveError> {
        let mut bytes = Vec::new();
        let content = self.content(entry).take(limit).read_to_end(&mut bytes);
        content.map_err(|error| ArchiveError::of_content(&entry.name, error))?;
        Ok(bytes)
    }

    /// Writes the whole content of an entry to `out`.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), and if `out` fails.
    pub fn copy_to(&self, entry: &ArchiveEntry, out: &mut impl io::Write) -> Result<(), ArchiveError> {
        let copied = io::copy(&mut self.content(entry), out);
        copied
            .map(drop)
            .map_err(|error| ArchiveError::of_content(&entry.name, error))
    }

    fn check_contents(&self) -> Result<(), ArchiveError> {
        for entry in &self.entries {
            self.copy_to(entry, &mut io::sink())?;
        }
        Ok(())
    }
}

#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
