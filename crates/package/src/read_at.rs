//! Reading at any offset through a shared reference, from a file or memory.

use std::fs::File;
use std::io;

/// The bytes of an archive.
pub trait ReadAt {
    /// The number of bytes.
    ///
    /// # Errors
    ///
    /// The file's metadata cannot be read.
    fn size(&self) -> io::Result<u64>;

    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    ///
    /// `UnexpectedEof` if there are too few bytes, or the file's read error.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

impl ReadAt for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(self, buffer, offset)
    }
}

impl ReadAt for [u8] {
    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).ok();
        let end = start.and_then(|start| start.checked_add(buffer.len()));
        let bytes = start.zip(end).and_then(|(start, end)| self.get(start..end));
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

impl<T: ReadAt + ?Sized> ReadAt for &T {
    fn size(&self) -> io::Result<u64> {
        (**self).size()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        (**self).read_exact_at(buffer, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_like_a_file_also_at_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, b"0123456789").unwrap();
        let file = countersign_files::regular_file::open(&path, 10).unwrap();
        let read = |source: &dyn ReadAt, offset, length| {
            let mut buffer = vec![0; length];
            source
                .read_exact_at(&mut buffer, offset)
                .map(|()| buffer)
                .map_err(|error| error.kind())
        };
        let memory: &[u8] = b"0123456789";
        assert_eq!((file.size().unwrap(), memory.size().unwrap()), (10, 10));
        for (offset, length) in [(0, 10), (9, 1), (10, 0), (9, 2), (11, 1), (u64::MAX, 1)] {
            assert_eq!(
                read(&memory, offset, length).ok(),
                read(&file, offset, length).ok(),
                "{offset} {length}"
            );
        }
        assert_eq!(read(&memory, 8, 3), Err(io::ErrorKind::UnexpectedEof));
    }
}
