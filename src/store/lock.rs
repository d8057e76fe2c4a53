//! The store belongs to one process at a time: three locks, because each of them is lost in a way of its own.
//!
//! 1. A lock on the folder itself holds whatever name it is reached by: through symbolic links, bind mounts, or from another
//!    container on this machine. It is lost to the path when the folder is removed or renamed and another one is made.
//! 2. A lock on `.<name>.lock` *beside* the folder holds the path, and survives that. There is one beside the name that was
//!    given and one beside the folder that this name leads to, where they differ. The owner makes it again where somebody
//!    deleted it ([`StoreLock::renew`]), and removes it at the end; one that a killed process left behind is not locked.
//!    Where the parent folder is not writable there is none: then this user cannot remove or rename the folder either.
//! 3. A lock on the ledger's file ([`crate::store::log::file`]) holds where that file is moved or linked into another folder.
//!
//! What no lock can hold is found before each acknowledgement: the ledger has to be the file that its path leads to. Locks
//! are advisory (flock), die with their process, and reach no other machine: two servers on copies are not found out.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::regular_file;

/// How often a lock that somebody else has is tried.
const PAUSE: Duration = Duration::from_millis(10);

/// The store is this process's until this is dropped.
#[derive(Debug)]
pub(super) struct StoreLock {
    beside: Vec<Beside>,
    _folder: File,
}

/// A lock file beside the folder; `None` where it cannot be had.
#[derive(Debug)]
struct Beside {
    path: PathBuf,
    file: Option<File>,
}

/// Why a lock was not taken.
enum LockRefusal {
    Held,
    Failed(io::Error),
}

impl From<io::Error> for LockRefusal {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// Takes the store in the folder `path`, which `make` makes where it is missing; `None` where another process still has it
/// when `patience` is over. SECURITY: two writers would break the chain, and give one seat twice.
pub(super) fn take(
    path: &Path,
    patience: Duration,
    make: impl Fn() -> io::Result<()>,
) -> io::Result<Option<StoreLock>> {
    wait(patience, || {
        // First what holds the path, so that no folder is made in the place of one that was removed under its server.
        let mut beside = BTreeSet::from_iter(names(path))
            .into_iter()
            .map(Beside::take)
            .collect::<Result<Vec<_>, _>>()?;
        make()?;
        let folder = regular_file::open_folder(path)?;
        flock(&folder)?;
        for name in names(path) {
            if beside.iter().all(|held| held.path != name) {
                beside.push(Beside::take(name)?);
            }
        }
        Ok(StoreLock {
            beside,
            _folder: folder,
        })
    })
}

/// Takes the folder alone, so that no server starts on it; makes no file. `None` where a server has the store.
pub(super) fn look(path: &Path) -> io::Result<Option<StoreLock>> {
    wait(Duration::ZERO, || {
        let folder = regular_file::open_folder(path)?;
        flock(&folder)?;
        for name in names(path) {
            if let Ok(file) = regular_file::open(&name, regular_file::UNLIMITED) {
                flock(&file)?;
            }
        }
        Ok(StoreLock {
            beside: Vec::new(),
            _folder: folder,
        })
    })
}

fn wait<T>(patience: Duration, attempt: impl Fn() -> Result<T, LockRefusal>) -> io::Result<Option<T>> {
    let deadline = Instant::now() + patience;
    loop {
        match attempt() {
            Ok(taken) => return Ok(Some(taken)),
            Err(LockRefusal::Failed(error)) => return Err(error),
            Err(LockRefusal::Held) if Instant::now() >= deadline => return Ok(None),
            Err(LockRefusal::Held) => std::thread::sleep(PAUSE),
        }
    }
}

fn flock(file: &File) -> Result<(), LockRefusal> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => LockRefusal::Held,
        TryLockError::Error(error) => LockRefusal::Failed(error),
    })
}

/// The lock files of a store: beside its name, and beside the folder that the name leads to.
fn names(path: &Path) -> impl Iterator<Item = PathBuf> {
    let parent = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Some(Path::new(".")),
        parent => parent,
    };
    let parent = parent.and_then(|parent| parent.canonicalize().ok());
    let given = path.file_name().and_then(|name| Some(parent?.join(name)));
    let beside = |folder: PathBuf| {
        let name = folder.file_name()?.to_string_lossy().into_owned();
        Some(folder.with_file_name(format!(".{name}.lock")))
    };
    given.into_iter().chain(path.canonicalize().ok()).filter_map(beside)
}

impl StoreLock {
    /// Makes the lock files again that somebody deleted.
    ///
    /// # Errors
    /// Another process has the path now.
    pub(super) fn renew(&mut self) -> io::Result<()> {
        for beside in &mut self.beside {
            if !beside.is_in_place() {
                *beside = Beside::take(beside.path.clone()).map_err(|_| {
                    let path = beside.path.display();
                    io::Error::other(format!("{path}: another process has taken the store's place"))
                })?;
            }
        }
        Ok(())
    }
}

impl Beside {
    /// Locks the file at `path`; without one where it cannot be made.
    fn take(path: PathBuf) -> Result<Self, LockRefusal> {
        let file = match regular_file::create(&path, 0o600) {
            Ok(file) => file,
            Err(error) => {
                tracing::debug!(lock = %path.display(), %error, "no lock file beside the store; the folder's own lock holds");
                return Ok(Self { path, file: None });
            }
        };
        flock(&file)?;
        let taken = Self { path, file: Some(file) };
        // Its owner may have removed it just now: whoever comes next would lock another file.
        if taken.is_in_place() {
            Ok(taken)
        } else {
            Err(LockRefusal::Held)
        }
    }

    /// Whether the path leads to the file that is locked.
    fn is_in_place(&self) -> bool {
        let place = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let held = self.file.as_ref().and_then(|file| file.metadata().ok()).map(place);
        held.is_some() && held == fs::metadata(&self.path).ok().map(place)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if self.is_in_place() {
            // Whoever opened it meanwhile gets the lock, sees that it is gone, and makes another one.
            let _ = fs::remove_file(&self.path);
        }
    }
}
