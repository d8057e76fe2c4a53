//! Temporary files of a build, each beside its place, until all are renamed into place.
//!
//! An abandoned thread may still want to write one when the build is over; it is then refused.
//! [`publish`](crate::build::publish) decides what is put in place.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use countersign_files::durable_file::{self, Access};
use countersign_files::regular_file;
use countersign_model::digest::Digest;

/// More files than this are synced together.
const MANY: usize = 100;

/// The temporary files of one build.
pub(super) struct Staging {
    /// The ending of this build's temporary names, so that builds can run at the same time.
    token: String,
    /// Digests of the waiting files by place; `None` while one is written.
    staged: Mutex<BTreeMap<PathBuf, Option<Digest>>>,
    /// The build is over.
    closed: AtomicBool,
}

impl Staging {
    /// No temporary files yet.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            token: format!("{:016x}", getrandom::u64().map_err(io::Error::other)?),
            staged: Mutex::default(),
            closed: AtomicBool::new(false),
        })
    }

    /// Writes a small file with this digest for `place`.
    pub(super) fn write(&self, place: &Path, digest: Digest, bytes: &[u8]) -> io::Result<()> {
        let Some(temporary) = self.begin(place) else {
            return Ok(());
        };
        with_folder(place, || durable_file::write_like_folder(&temporary, bytes))?;
        self.finish(place, digest);
        Ok(())
    }

    /// Creates a file for `place`, to be written and read; `None` if the build is over.
    pub(super) fn create(&self, place: &Path) -> io::Result<Option<File>> {
        let Some(temporary) = self.begin(place) else {
            return Ok(None);
        };
        with_folder(place, || durable_file::create_like_folder(&temporary)).map(Some)
    }

    /// The file for `place` is complete and has this digest.
    pub(super) fn finish(&self, place: &Path, digest: Digest) {
        self.staged().insert(place.to_owned(), Some(digest));
    }

    /// Removes the file for `place`.
    pub(super) fn discard(&self, place: &Path) {
        self.staged().remove(place);
        let _ = fs::remove_file(self.temporary(place));
        // Succeeds only if it is empty.
        let _ = place.parent().map(fs::remove_dir);
    }

    /// Whether a file with this digest waits for `place`.
    pub(super) fn has(&self, place: &Path, digest: Digest) -> bool {
        self.staged().get(place) == Some(&Some(digest))
    }

    /// Renames the file into its place.
    pub(super) fn put(&self, place: &Path) -> io::Result<()> {
        fs::rename(self.temporary(place), place)?;
        self.staged().remove(place);
        Ok(())
    }

    /// Syncs the files for `places`.
    ///
    /// Syncing 10,000 of them one by one takes longer than the rest of a build. So many are synced together, with
    /// everything else the file system of `root` has cached. `root` was opened before the first write, so that no
    /// write error is missed (syncfs(2), since Linux 5.8).
    pub(super) fn sync(&self, root: &File, places: &[PathBuf]) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        if places.len() > MANY {
            return Ok(rustix::fs::syncfs(root)?);
        }
        places
            .iter()
            .try_for_each(|place| regular_file::open_to_write(&self.temporary(place))?.sync_all())
    }

    /// Removes the remaining temporary files, and accepts no more.
    pub(super) fn close(&self) {
        let staged = self.staged();
        self.closed.store(true, Ordering::Relaxed);
        for place in staged.keys() {
            let _ = fs::remove_file(self.temporary(place));
            // Succeeds only if it is empty.
            let _ = place.parent().map(fs::remove_dir);
        }
    }

    /// Records the file before it exists, so that everything begun is cleaned up.
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
        // The map is consistent even after a panic in another thread.
        self.staged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes, and tries again if the folder of `place` was missing.
fn with_folder<T>(place: &Path, write: impl Fn() -> io::Result<T>) -> io::Result<T> {
    write().or_else(|error| match (error.kind(), place.parent()) {
        (io::ErrorKind::NotFound, Some(folder)) => {
            durable_file::create_folders(folder, Access::LikeFolder)?;
            write()
        }
        _ => Err(error),
    })
}
