//! A part of a file, read in chunks while it is sent: a public file, or a package with a site's mark.
//!
//! What the kernel has in memory is read at once, in turns; blocking threads read the rest. A client that reads nothing
//! holds one chunk and the open file.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, ready};
use std::thread::available_parallelism;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use rustix::io::{ReadWriteFlags, preadv2};
use tokio::sync::Semaphore;
use tokio::task::{JoinError, spawn_blocking, yield_now};

use crate::serve::metrics::Counter;
use crate::serve::reply::body::BodyError;
use crate::serve::reply::conditions::Range;
use countersign_package::mark::Patch;

/// The size of a chunk.
const CHUNK: u64 = 64 * 1024;

/// Turns to read a chunk, one fewer than there are cores. Any number of downloads then leaves a worker to other requests, which
/// wait for one chunk and not for one of each download.
static TURNS: LazyLock<Semaphore> = LazyLock::new(|| {
    let cores = available_parallelism().map_or(1, usize::from);
    Semaphore::new((cores - 1).max(1))
});

/// The rest of a file to send.
pub(crate) struct FileBody {
    source: Arc<ChunkSource>,
    range: Range,
    chunk: Option<Pin<Box<dyn Future<Output = Chunk> + Send + Sync>>>,
}

/// The bytes, or why the file or the thread has none.
type Chunk = Result<io::Result<Bytes>, JoinError>;

/// The file, and what to do with its bytes.
struct ChunkSource {
    file: File,
    package: Option<PackageSource>,
}

/// A package, which must not change while it is sent.
pub(crate) struct PackageSource {
    /// The mark, where it has one.
    pub patch: Option<Patch>,
    /// The file's state when it was opened.
    pub opened: FileState,
    /// Counts the bytes read of all packages.
    pub sent: Counter,
    /// Called once if the file has changed or cannot be read.
    pub on_change: Box<dyn Fn(&io::Error) + Send + Sync>,
}

/// Shows whether somebody wrote into a file. Its name may meanwhile lead to another file, which has no effect here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileState {
    /// Size in bytes.
    pub size: u64,
    modified: (i64, i64),
}

impl FileState {
    /// The current state of the file.
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self {
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }
}

impl FileBody {
    /// This part of a public file.
    pub(crate) fn new(file: File, range: Range) -> Self {
        Self::of(ChunkSource { file, package: None }, range)
    }

    /// This part of a package.
    pub(crate) fn of_package(file: File, range: Range, package: PackageSource) -> Self {
        let package = Some(package);
        Self::of(ChunkSource { file, package }, range)
    }

    fn of(source: ChunkSource, range: Range) -> Self {
        Self {
            source: Arc::new(source),
            range,
            chunk: None,
        }
    }
}

impl ChunkSource {
    /// Reads the next bytes, at most a chunk.
    async fn chunk(self: Arc<Self>, range: Range) -> Chunk {
        // hyper would send chunk after chunk for as long as the socket takes them.
        yield_now().await;
        {
            let _turn = TURNS.acquire().await;
            if let Some(read) = self.read_cached(range) {
                return Ok(read);
            }
        }
        // Without a turn: a disk that hangs must not hold up the other downloads.
        spawn_blocking(move || self.read(range)).await
    }

    /// Reads without waiting for a disk; `None` if the kernel does not have all the bytes, or the file system cannot say.
    fn read_cached(&self, range: Range) -> Option<io::Result<Bytes>> {
        let mut bytes = range.buffer();
        let read = preadv2(
            &self.file,
            &mut [IoSliceMut::new(&mut bytes)],
            range.start,
            ReadWriteFlags::NOWAIT,
        );
        (read == Ok(bytes.len())).then(|| self.finish(range.start, bytes))
    }

    /// Reads, and waits for the disk.
    fn read(&self, range: Range) -> io::Result<Bytes> {
        let mut bytes = range.buffer();
        self.file.read_exact_at(&mut bytes, range.start)?;
        self.finish(range.start, bytes)
    }

    fn finish(&self, start: u64, mut bytes: Vec<u8>) -> io::Result<Bytes> {
        if let Some(package) = &self.package {
            package.finish(&self.file, start, &mut bytes)?;
        }
        Ok(Bytes::from(bytes))
    }
}

impl Range {
    /// Room for the next chunk.
    fn buffer(self) -> Vec<u8> {
        vec![0; (self.end - self.start).min(CHUNK) as usize]
    }
}

impl PackageSource {
    /// Inserts the mark into the read bytes, if the file has not changed.
    fn finish(&self, file: &File, start: u64, bytes: &mut [u8]) -> io::Result<()> {
        // Checked after the read, so that none of the bytes belong to another package.
        if FileState::of(file)? != self.opened {
            return Err(io::Error::other("was written to while it was sent"));
        }
        if let Some(patch) = &self.patch {
            patch.apply(start, bytes);
        }
        self.sent.inc_by(bytes.len() as u64);
        Ok(())
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.range.start >= self.range.end {
            return Poll::Ready(None);
        }
        let range = self.range;
        let source = Arc::clone(&self.source);
        let chunk = self.chunk.get_or_insert_with(|| Box::pin(source.chunk(range)));
        let read = ready!(chunk.as_mut().poll(cx));
        self.chunk = None;
        Poll::Ready(Some(match read {
            Ok(Ok(bytes)) => {
                self.range.start += bytes.len() as u64;
                Ok(Frame::data(bytes))
            }
            // The file was truncated meanwhile: the client gets less than announced, and the connection ends.
            Ok(Err(error)) => {
                if let Some(package) = &self.source.package {
                    (package.on_change)(&error);
                }
                Err(error.into())
            }
            Err(error) => Err(error.into()),
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.range.start >= self.range.end
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.range.end - self.range.start)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::sync::atomic::{AtomicU64, Ordering};

    use http_body_util::BodyExt as _;
    use uuid::Uuid;

    use super::*;
    use countersign_files::regular_file;
    use countersign_package::mark::Places;

    fn file(folder: &tempfile::TempDir, length: usize) -> (File, Vec<u8>) {
        let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        let path = folder.path().join("file");
        regular_file::write(&path, &bytes).unwrap();
        (regular_file::open(&path, u64::MAX).unwrap(), bytes)
    }

    fn source(file: &File, patch: Option<Patch>, changes: &Arc<AtomicU64>) -> PackageSource {
        let changes = Arc::clone(changes);
        PackageSource {
            patch,
            opened: FileState::of(file).unwrap(),
            sent: Counter::default(),
            on_change: Box::new(move |_| {
                changes.fetch_add(1, Ordering::Relaxed);
            }),
        }
    }

    #[tokio::test]
    async fn a_part_is_sent_as_it_is_and_a_package_with_its_mark_wherever_chunks_are_cut() {
        let folder = tempfile::tempdir().unwrap();
        let (opened, bytes) = file(&folder, 200_000);
        let range = Range { start: 1, end: 199_999 };
        let whole = FileBody::new(opened.try_clone().unwrap(), range)
            .collect()
            .await
            .unwrap();
        assert_eq!(whole.to_bytes(), &bytes[1..199_999]);
        // Across the first cut, and across the second.
        let places = Places {
            local_crc: 65_535,
            id: 131_060,
            central_crc: 190_000,
        };
        let patch = places.patch(Uuid::from_u128(7));
        let mut expected = bytes.clone();
        patch.apply(0, &mut expected);
        let package = source(&opened, Some(patch), &Arc::default());
        let sent = package.sent.clone();
        let marked = FileBody::of_package(opened, range, package).collect().await.unwrap();
        assert_eq!(marked.to_bytes(), &expected[1..199_999]);
        assert_eq!(sent.get(), 199_998);
    }

    #[tokio::test]
    async fn a_package_that_is_written_to_ends_the_answer_and_is_told_and_one_that_is_replaced_does_not() {
        let folder = tempfile::tempdir().unwrap();
        for (change, expected) in [("replace", 0), ("cut", 1), ("write", 1)] {
            let (opened, bytes) = file(&folder, 200_000);
            let changes = Arc::default();
            let package = source(&opened, None, &changes);
            let mut body = FileBody::of_package(opened, Range { start: 0, end: 200_000 }, package);
            let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert_eq!(first, &bytes[..CHUNK as usize]);
            let path = folder.path().join("file");
            match change {
                "replace" => {
                    regular_file::write(&folder.path().join("other"), b"other").unwrap();
                    std::fs::rename(folder.path().join("other"), path).unwrap();
                }
                "cut" => regular_file::open_to_write(&path).unwrap().set_len(100).unwrap(),
                _ => {
                    let mut file = regular_file::open_to_write(&path).unwrap();
                    file.write_all(b"x").unwrap();
                    // Its time is of the kernel's tick, which may be the one in which it was made.
                    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
                }
            }
            let rest = body.collect().await;
            assert_eq!(rest.is_err(), expected == 1, "{change}");
            assert_eq!(changes.load(Ordering::Relaxed), expected, "{change}");
        }
    }
}
