//! Three locks that give the store to one process at a time. Each of them can be lost in a different way.
//!
//! 1. The lock on the folder holds for every path to it: symbolic links, bind mounts, other containers on this machine.
//!    It no longer protects the path if the folder is removed or renamed and another one is created.
//! 2. The lock on `.<name>.lock` *beside* the folder protects the path. If the given name is a symbolic link, there is
//!    one beside the link and one beside its target. The owner creates a deleted one again ([`StoreLock::renew`]) and
//!    removes it at the end; one that a killed process left behind is not locked. If the parent folder is not writable
//!    there is none, but then this user cannot remove or rename the folder, either.
//! 3. The lock on the ledger's file ([`crate::log::file`]) holds if that file is moved or linked elsewhere.
//!
//! Before each acknowledgement, the ledger must still be the file that its path leads to. Locks are advisory (flock),
//! end with their process, and reach no other machine: two servers on copies do not notice each other.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::StoreError;
use countersign_files::folder_lock::HeldLock;
use countersign_files::regular_file;

/// How long to wait for another process to leave a folder, as at a restart.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// Time between two attempts to get a lock.
const PAUSE: Duration = Duration::from_millis(10);

/// The store belongs to this process until this is dropped.
#[derive(Debug)]
pub(super) struct StoreLock {
    beside: Vec<Beside>,
    _folder: HeldLock,
}

/// The folder of a node that shares a ledger belongs to this process until this is dropped.
#[derive(Debug)]
pub struct NodeLock {
    _lock: StoreLock,
}

impl NodeLock {
    /// Creates the folder if it is missing, and waits a second for another server to leave it, as at a restart.
    ///
    /// # Errors
    /// Another server has it, or it cannot be created.
    pub fn take(folder: &Path) -> Result<Self, StoreError> {
        let taken = take(folder, PATIENCE, || make_folder(folder)).map_err(|source| StoreError::Read {
            path: folder.to_owned(),
            source,
        })?;
        let lock = taken.ok_or_else(|| StoreError::InUse(folder.to_owned()))?;
        Ok(Self { _lock: lock })
    }
}

/// Whether a server has the store, or the node, in this folder.
pub fn is_in_use(folder: &Path) -> bool {
    matches!(look(folder), Ok(None))
}

/// A lock file beside the folder; `None` if it cannot be created.
#[derive(Debug)]
struct Beside {
    path: PathBuf,
    file: Option<HeldLock>,
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

/// Creates the store's folder. Syncs the folder's name, and the names of parents that were created with it.
pub(super) fn make_folder(path: &Path) -> io::Result<()> {
    if !path.is_dir() {
        match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() && !parent.is_dir() => make_folder(parent)?,
            _ => {}
        }
        DirBuilder::new().mode(0o700).create(path)?;
    }
    regular_file::open_folder(path.canonicalize()?.parent().unwrap_or(path))?.sync_all()
}

/// Locks the store in the folder `path`, which `make` creates if it is missing; `None` if another process still has it
/// after `patience`. SECURITY: two writers would break the chain, and give the same seat twice.
pub(super) fn take(
    path: &Path,
    patience: Duration,
    make: impl Fn() -> io::Result<()>,
) -> io::Result<Option<StoreLock>> {
    wait(patience, || {
        // The path first, so that no folder is created in the place of one that was removed under its server.
        let mut beside = BTreeSet::from_iter(names(path))
            .into_iter()
            .map(Beside::take)
            .collect::<Result<Vec<_>, _>>()?;
        make()?;
        let folder = flock(regular_file::open_folder(path)?)?;
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

/// Locks only the folder, so that no server starts on it; creates no file. `None` if a server has the store.
pub(super) fn look(path: &Path) -> io::Result<Option<StoreLock>> {
    wait(Duration::ZERO, || {
        let folder = flock(regular_file::open_folder(path)?)?;
        for name in names(path) {
            if let Ok(file) = regular_file::open(&name, regular_file::UNLIMITED) {
                flock(file)?;
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

fn flock(file: File) -> Result<HeldLock, LockRefusal> {
    HeldLock::take(file).map_err(|error| match error {
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
    /// Creates lock files again that somebody deleted.
    ///
    /// # Errors
    /// Another process has locked the path.
    pub(super) fn renew(&mut self) -> io::Result<()> {
        for beside in &mut self.beside {
            if !beside.is_in_place() {
                *beside = Beside::take(beside.path.clone()).map_err(|_| {
                    let path = beside.path.display();
                    io::Error::other(format!("{path}: another process has locked the store"))
                })?;
            }
        }
        Ok(())
    }
}

impl Beside {
    /// Locks the file at `path`; goes without if it cannot be created.
    fn take(path: PathBuf) -> Result<Self, LockRefusal> {
        let file = match regular_file::create(&path, 0o600) {
            Ok(file) => file,
            Err(error) => {
                tracing::debug!(lock = %path.display(), %error, "no lock file beside the store; using the lock of the folder");
                return Ok(Self { path, file: None });
            }
        };
        let file = Some(flock(file)?);
        let taken = Self { path, file };
        // Its owner may just have removed it. Then the next process would lock another file.
        if taken.is_in_place() {
            Ok(taken)
        } else {
            Err(LockRefusal::Held)
        }
    }

    /// Whether the path leads to the locked file.
    fn is_in_place(&self) -> bool {
        let place = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let held = self.file.as_ref().and_then(|file| file.metadata().ok()).map(place);
        held.is_some() && held == fs::metadata(&self.path).ok().map(place)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if self.is_in_place() {
            // A process that opened it meanwhile gets the lock, sees that the file is gone, and creates another one.
            let _ = fs::remove_file(&self.path);
        }
    }
}
