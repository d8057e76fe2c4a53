//! What waits under temporary names, each beside its place, until all of a build is renamed into place.
//!
//! Readings that were abandoned may still want to stage when the build is over: then nothing is staged any more.
//! [`publish`](crate::build::publish) decides what is put in place.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::durable_file::{self, Access};
use crate::model::digest::Digest;
use crate::regular_file;

/// More files than this are made durable together.
const MANY: usize = 100;

/// The temporary files of one build.
pub(super) struct Staging {
    /// What temporary names of this build end in, so that builds can stage at the same time.
    token: String,
    /// Digests of the files that wait, by their place; `None` while one is written.
    staged: Mutex<BTreeMap<PathBuf, Option<Digest>>>,
    /// Nothing is staged any more.
    closed: AtomicBool,
}

impl Staging {
    /// Nothing is staged yet.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            token: format!("{:016x}", getrandom::u64().map_err(io::Error::other)?),
            staged: Mutex::default(),
            closed: AtomicBool::new(false),
        })
    }

    /// Writes a small file, of this digest, that is to stand at `place`.
    pub(super) fn write(&self, place: &Path, digest: Digest, bytes: &[u8]) -> io::Result<()> {
        let Some(temporary) = self.begin(place) else {
            return Ok(());
        };
        with_folder(place, || durable_file::write_like_folder(&temporary, bytes))?;
        self.finish(place, digest);
        Ok(())
    }

    /// Creates a file that is to stand at `place`, to be written and read; `None` once all is over.
    pub(super) fn create(&self, place: &Path) -> io::Result<Option<File>> {
        let Some(temporary) = self.begin(place) else {
            return Ok(None);
        };
        with_folder(place, || durable_file::create_like_folder(&temporary)).map(Some)
    }

    /// The file for `place` is written, and has this digest.
    pub(super) fn finish(&self, place: &Path, digest: Digest) {
        self.staged().insert(place.to_owned(), Some(digest));
    }

    /// Removes the file for `place`.
    pub(super) fn discard(&self, place: &Path) {
        self.staged().remove(place);
        let _ = fs::remove_file(self.temporary(place));
        // Goes only where it is empty.
        let _ = place.parent().map(fs::remove_dir);
    }

    /// Whether a file of this digest waits for `place`.
    pub(super) fn has(&self, place: &Path, digest: Digest) -> bool {
        self.staged().get(place) == Some(&Some(digest))
    }

    /// Renames the file into its place.
    pub(super) fn put(&self, place: &Path) -> io::Result<()> {
        fs::rename(self.temporary(place), place)?;
        self.staged().remove(place);
        Ok(())
    }

    /// Makes the files for `places` durable.
    ///
    /// One by one, 10,000 of them take longer than all the rest of a build. Many are therefore written together with whatever
    /// else the file system of `root` holds back. `root` was opened before the first was written, so that no failed write is
    /// missed (syncfs(2), since Linux 5.8).
    pub(super) fn sync(&self, root: &File, places: &[PathBuf]) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        if places.len() > MANY {
            return Ok(rustix::fs::syncfs(root)?);
        }
        places
            .iter()
            .try_for_each(|place| regular_file::open_to_write(&self.temporary(place))?.sync_all())
    }

    /// Removes what was staged and not put in place, and stages nothing more.
    pub(super) fn close(&self) {
        let staged = self.staged();
        self.closed.store(true, Ordering::Relaxed);
        for place in staged.keys() {
            let _ = fs::remove_file(self.temporary(place));
            // Goes only where it is empty.
            let _ = place.parent().map(fs::remove_dir);
        }
    }

    /// Notes the file before it is there, so that whatever was begun is cleaned up.
    fn begin(&self, place: &Path) -> Option<PathBuf> {
        let mut staged = self.staged();
        if self.closed.load(Ordering::Relaxed) {
            return None;
        }
        staged.insert(place.to_owned(), None);
        Some(self.temporary(place))
    }

    /// `.1.2.json.<token>.new`: no version starts with a dot.
    fn temporary(&self, place: &Path) -> PathBuf {
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        place.with_file_name(format!(".{name}.{}.new", self.token))
    }

    fn staged(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Option<Digest>>> {
        // A map is whole after a panic in another thread, too.
        self.staged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes, and once more where the folder of `place` was missing.
fn with_folder<T>(place: &Path, write: impl Fn() -> io::Result<T>) -> io::Result<T> {
    write().or_else(|error| match (error.kind(), place.parent()) {
        (io::ErrorKind::NotFound, Some(folder)) => {
            durable_file::create_folders(folder, Access::LikeFolder)?;
            write()
        }
        _ => Err(error),
    })
}
