//! Maintenance commands: `rebuild` the index, `compact` the ledger. [`reader`](crate::reader) only reads.
//!
//! Both lock the store as a server does. They fail while one runs, and for users that do not own the ledger.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use rustix::process::geteuid;

use countersign_files::regular_file;
use countersign_model::binding::Binding;
use countersign_model::license_key::LicenseId;

use crate::checksum::{BindingsByLicense, BindingsChecksum};
use crate::disk::StoreDisk;
use crate::error::StoreError;
use crate::lock::StoreLock;
use crate::log::compaction;
use crate::log::reader::LedgerFault;
use crate::reader::{IndexState, open_index, require};
use crate::{disk, lock, recovery};

/// The result of [`rebuild`].
#[derive(Debug)]
pub struct RebuildOutcome {
    /// Bindings in the ledger.
    pub bindings: u64,
    /// Bindings that the old index has and the ledger lacks. Unless they may be dropped, nothing was changed.
    pub lacking: Vec<(LicenseId, Binding)>,
    /// Whether the old index could be read, so that `lacking` is complete.
    pub compared: bool,
    /// Whether the index was rebuilt.
    pub done: bool,
}

/// Rebuilds the index from the ledger.
///
/// If the old index has bindings that the ledger lacks, as after the restore of an old backup, nothing is changed
/// unless `discard` allows to drop them.
pub fn rebuild(path: &Path, discard: bool) -> Result<RebuildOutcome, StoreError> {
    let _lock = take(path)?;
    let loaded = recovery::load(path, None)?;
    let bindings = BindingsChecksum::of(&loaded.tables.by_license).count;
    let lacking = lacking(&disk::index_in(path), &loaded.tables.by_license);
    let compared = lacking.is_some();
    let lacking = lacking.unwrap_or_default();
    let done = discard || lacking.is_empty();
    if done {
        disk::rebuild(path, &loaded).map_err(|source| StoreError::Read {
            path: disk::index_in(path),
            source,
        })?;
    }
    Ok(RebuildOutcome {
        bindings,
        lacking,
        compared,
        done,
    })
}

/// The bindings that an index has and the ledger lacks; `None` if the index cannot be read.
fn lacking(index: &Path, ledger: &BindingsByLicense) -> Option<Vec<(LicenseId, Binding)>> {
    let index = match open_index(index) {
        Ok(index) => index,
        Err(state) => return (state == IndexState::Missing).then(Vec::new),
    };
    let mut lacking = Vec::new();
    let read = index.each(|license, host, bound_at| {
        let mut of_license = ledger.of(&license).into_iter().flat_map(|bindings| bindings.iter());
        // A site that was bound again has a later time in the ledger.
        if !of_license.any(|binding| binding.host == host && binding.bound_at >= bound_at) {
            lacking.push((license, Binding::new(host, bound_at)));
        }
    });
    read.is_ok().then_some(lacking)
}

/// The result of [`compact`].
#[derive(Debug)]
pub struct CompactionOutcome {
    /// Number of bindings kept.
    pub kept: u64,
    /// Where the old ledger is now.
    pub aside: PathBuf,
}

/// Begins a new ledger without superseded lines. The old one stays; its name tells until when it was used.
pub fn compact(path: &Path, now: DateTime<Utc>) -> Result<CompactionOutcome, StoreError> {
    require_own(path)?;
    // Opened as for serving, so that a ledger that lost lines is detected first.
    let (disk, ..) = StoreDisk::open(path)?;
    let ledger = recovery::ledger_in(path);
    let new = disk::new_ledger_in(path);
    let failed = |source| StoreError::NotCompacted {
        path: path.to_owned(),
        source,
    };
    let begin = || {
        let file = regular_file::create(&new, 0o600).map_err(failed)?;
        let compacted = compaction::write(|| recovery::open(path), &file, now);
        let (kept, end) = compacted.map_err(|fault| match fault {
            LedgerFault::Io(source) => failed(source),
            fault => recovery::fault_in(path, fault),
        })?;
        file.sync_all().map_err(failed)?;
        Ok((kept, end))
    };
    // On a full disk, a partial file would keep the next start from rebuilding its index.
    let (kept, end) = begin().inspect_err(|_| drop(fs::remove_file(&new)))?;
    let renamed = || -> io::Result<PathBuf> {
        // There is a ledger at every moment.
        let aside = set_aside(path, now)?;
        fs::rename(&new, &ledger)?;
        regular_file::open_folder(path)?.sync_all()?;
        disk.was_compacted(end)?;
        Ok(aside)
    };
    let aside = renamed().inspect_err(|_| drop(fs::remove_file(&new))).map_err(failed)?;
    Ok(CompactionOutcome { kept, aside })
}

/// Sets the ledger of this folder aside under a name of its own. Names have seconds: one that is taken gives the next one.
fn set_aside(path: &Path, now: DateTime<Utc>) -> io::Result<PathBuf> {
    let ledger = recovery::ledger_in(path);
    let mut until = now;
    loop {
        let aside = disk::set_aside_in(path, until);
        match fs::hard_link(&ledger, &aside) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => until += TimeDelta::seconds(1),
            linked => return linked.map(|()| aside),
        }
    }
}

/// New files belong to the user who runs this. A server of another user could not start with them.
fn require_own(path: &Path) -> Result<(), StoreError> {
    require(path)?;
    let ledger = recovery::ledger_in(path);
    match fs::metadata(&ledger) {
        Ok(found) if found.uid() == geteuid().as_raw() => Ok(()),
        Ok(found) => Err(StoreError::NotOurs {
            path: ledger,
            owner: found.uid(),
        }),
        Err(source) => Err(StoreError::Read { path: ledger, source }),
    }
}

fn take(path: &Path) -> Result<StoreLock, StoreError> {
    require_own(path)?;
    let lock = lock::take(path, Duration::ZERO, || Ok(()));
    let lock = lock.map_err(|source| StoreError::Read {
        path: path.to_owned(),
        source,
    })?;
    lock.ok_or_else(|| StoreError::InUse(path.to_owned()))
}
