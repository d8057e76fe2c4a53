//! The ledger's file, or another one that only grows, open for writing, and checks that it is still the file at its path.
//!
//! A file can be renamed, replaced, truncated or appended to while the server runs. What is then written to it is
//! lost at the next start. So an fstat of the open file and a stat of its path compare device, inode, link count and
//! length before each acknowledgement. An additional name (a hard link) is allowed; having no name is not.

use std::fs::{self, File, Metadata, TryLockError};
use std::io::{self, Read};
use std::ops::RangeInclusive;
use std::os::unix::fs::{FileExt, MetadataExt as _};
use std::path::{Path, PathBuf};

use countersign_files::folder_lock::HeldLock;
use countersign_files::regular_file;

use crate::log::position::Position;
use crate::log::reader::{self, LedgerExtent, LedgerFault};
use crate::log::writer::Medium;

/// An open ledger.
pub(crate) struct LedgerFile {
    path: PathBuf,
    file: HeldLock,
}

impl LedgerFile {
    /// Opens the ledger at `path` and locks it; `None` if another process has it, under any name.
    pub(crate) fn take(path: &Path) -> io::Result<Option<Self>> {
        Self::lock(path, regular_file::open_to_write(path)?)
    }

    /// Locks an open file that `path` leads to, or is about to.
    pub(crate) fn lock(path: &Path, file: File) -> io::Result<Option<Self>> {
        match HeldLock::take(file) {
            Ok(file) => Ok(Some(Self {
                path: path.to_owned(),
                file,
            })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Its first `length` bytes.
    pub(crate) fn first(&self, length: u64) -> impl Read {
        let file = &self.file;
        OffsetReader { file, at: 0 }.take(length)
    }

    /// A file that came back is the right one if `is_right` says so of what was read.
    pub(crate) fn prove_by(
        &self,
        read: Result<LedgerExtent, LedgerFault>,
        is_right: impl FnOnce(&LedgerExtent) -> bool,
    ) -> io::Result<()> {
        match read {
            Ok(found) if is_right(&found) => {
                // A rename may have brought it back. Without a sync of the folder, a power failure would undo the
                // rename.
                self.file.sync_all()?;
                let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
                regular_file::open_folder(folder.unwrap_or(Path::new(".")))?.sync_all()
            }
            Err(LedgerFault::Io(error)) => Err(error),
            Ok(_) => Err(self.differs("is back, but with different content")),
            Err(LedgerFault::Broken(what) | LedgerFault::Newer(what)) => {
                Err(self.differs(&format!("is back, but with different content: {what}")))
            }
        }
    }

    fn differs(&self, how: &str) -> io::Error {
        io::Error::other(format!(
            "{} {how}; nothing is written until the right file is back",
            self.path.display()
        ))
    }
}

impl Medium for LedgerFile {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        FileExt::write_all_at(&*self.file, bytes, offset)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn expect(&self, lengths: RangeInclusive<u64>) -> io::Result<()> {
        let open = self.file.metadata()?;
        let named = match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(self.differs("was removed or renamed while the server was running"));
            }
            named => named?,
        };
        let place = |metadata: &Metadata| (metadata.dev(), metadata.ino());
        if place(&open) != place(&named) || open.nlink() == 0 {
            return Err(self.differs("was replaced while the server was running"));
        }
        match open.len() {
            length if lengths.contains(&length) => Ok(()),
            length if length < *lengths.start() => Err(self.differs(&format!(
                "was truncated: it has {length} bytes, but {} are acknowledged",
                lengths.start()
            ))),
            length => Err(self.differs(&format!(
                "was changed by another program: it has {length} bytes, but {} are acknowledged",
                lengths.start()
            ))),
        }
    }

    fn prove(&self, end: Position, length: u64) -> io::Result<()> {
        let found = reader::read(self.first(length), |_, _| ());
        self.prove_by(found, |found| found.end == end && found.length == length)
    }
}

/// Reads a file from an offset, without moving its cursor.
struct OffsetReader<'a> {
    file: &'a File,
    at: u64,
}

impl Read for OffsetReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}
