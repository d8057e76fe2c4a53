//! The ledger's file, open for writing, and whether it still is the file that its path leads to.
//!
//! A file can be renamed, replaced, cut or appended to under a running server, and what is written to it then is lost to
//! the next start. Two calls of the kernel, an fstat of the open file and a stat of its path, tell before each
//! acknowledgement: device, inode, link count and length. A further name (a hard link) is no fault; no name is one.

use std::fs::{self, File, Metadata, TryLockError};
use std::io::{self, Read};
use std::ops::RangeInclusive;
use std::os::unix::fs::{FileExt, MetadataExt as _};
use std::path::{Path, PathBuf};

use crate::regular_file;

use crate::store::log::Position;
use crate::store::log::reader::{self, LedgerFault};
use crate::store::log::writer::Medium;

/// An open ledger.
pub(in crate::store) struct LedgerFile {
    path: PathBuf,
    file: File,
}

impl LedgerFile {
    /// Opens the ledger at `path` and locks it; `None` where another process has it, under whatever name.
    pub(in crate::store) fn take(path: &Path) -> io::Result<Option<Self>> {
        let file = regular_file::open_to_write(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self {
                path: path.to_owned(),
                file,
            })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
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
        FileExt::write_all_at(&self.file, bytes, offset)
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
                return Err(self.differs("was removed or renamed under the running server"));
            }
            named => named?,
        };
        let place = |metadata: &Metadata| (metadata.dev(), metadata.ino());
        if place(&open) != place(&named) || open.nlink() == 0 {
            return Err(self.differs("was replaced under the running server"));
        }
        match open.len() {
            length if lengths.contains(&length) => Ok(()),
            length if length < *lengths.start() => Err(self.differs(&format!(
                "was cut: it has {length} bytes, and {} are acknowledged",
                lengths.start()
            ))),
            length => Err(self.differs(&format!(
                "was written to by something else: it has {length} bytes, and {} are acknowledged",
                lengths.start()
            ))),
        }
    }

    fn prove(&self, end: Position, length: u64) -> io::Result<()> {
        let whole = OffsetReader {
            file: &self.file,
            at: 0,
        }
        .take(length);
        match reader::read(whole, |_, _| ()) {
            Ok(found) if found.end == end && found.length == length => {
                // It may have come back by a rename, which is lost with the power where its folder is not synced.
                self.file.sync_all()?;
                let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
                regular_file::open_folder(folder.unwrap_or(Path::new(".")))?.sync_all()
            }
            Err(LedgerFault::Io(error)) => Err(error),
            Ok(_) => Err(self.differs("came back, but not as it was")),
            Err(LedgerFault::Broken(what)) => Err(self.differs(&format!("came back, but not as it was: {what}"))),
        }
    }
}

/// Reads a file from an offset on, and leaves its cursor alone.
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
