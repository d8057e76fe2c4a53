//! The store as commands see it: the ledger read beside a running server, the index where none runs.
//!
//! What changes files (`rebuild`, `compact`) takes the store as a server does, so it is refused while one runs, and to whom the
//! ledger does not belong.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use rustix::fs::{Access, access};
use rustix::process::geteuid;

use crate::model::binding::{Binding, SiteReport};
use crate::model::digest::Digest;
use crate::model::license_key::LicenseId;
use crate::regular_file;

use crate::store::checksum::{BindingsBuilder, BindingsByLicense, BindingsChecksum};
use crate::store::disk::StoreDisk;
use crate::store::error::StoreError;
use crate::store::index::Index;
use crate::store::lock::StoreLock;
use crate::store::log::compaction;
use crate::store::log::reader::LedgerFault;
use crate::store::{disk, lock, recovery};

/// A store, open for a look; nothing is made or changed.
pub struct StoreReader {
    path: PathBuf,
    /// `None` while a server has the store.
    lock: Option<StoreLock>,
    /// The index, or how it is where it was not opened.
    index: Result<Index, IndexState>,
}

/// What [`StoreReader::verify`] found in a ledger without a fault.
#[derive(Debug)]
pub struct VerifiedLedger {
    /// How many lines the file has.
    pub lines: u64,
    /// The last line's `sequence`, which counts through all compactions.
    pub sequence: u64,
    /// Whether something stands behind it that was never acknowledged, or not yet.
    pub torn: bool,
    /// The SHA-256 of the last line: who keeps it can later prove that nothing before it was changed.
    pub digest: Digest,
    /// Bindings that are not superseded.
    pub bindings: u64,
    /// Licenses that have one.
    pub licenses: usize,
    /// The latest time of a binding; a clock that was ahead leaves one in the future.
    pub latest: Option<DateTime<Utc>>,
    /// How the index is.
    pub index: IndexState,
}

/// How an index is, compared with its ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexState {
    /// It says what the ledger says.
    Agrees,
    /// A server has it.
    Held,
    /// There is none, as in a copy of the ledger alone; the next start makes it.
    Missing,
    /// It was not opened, because opening it writes: it belongs to another user, or nothing can be written here.
    NotCompared,
    /// It lacks this many of the latest bindings, as after a crash; the next start adds them.
    Behind(usize),
    /// It cannot be read or says something else; the next start makes it anew.
    Differs,
}

/// Whether a ledger is there with something in it.
pub fn has_bindings(path: &Path) -> bool {
    fs::metadata(recovery::ledger_in(path)).is_ok_and(|ledger| ledger.len() > 0)
}

/// Opens an existing store for a look, also while a server runs on it.
pub fn read_only(path: &Path) -> Result<StoreReader, StoreError> {
    require(path)?;
    let lock = lock::look(path).map_err(|source| StoreError::Read {
        path: path.to_owned(),
        source,
    })?;
    let index = match &lock {
        Some(_) => open_index(&disk::index_in(path)),
        None => Err(IndexState::Held),
    };
    Ok(StoreReader {
        path: path.to_owned(),
        lock,
        index,
    })
}

/// Opens an index where that does no harm: sled makes what is not there, and writes into what it opens.
fn open_index(path: &Path) -> Result<Index, IndexState> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(IndexState::Missing),
        // SECURITY: what root writes there, the server's user could not open any more.
        Ok(found) if found.uid() != geteuid().as_raw() => return Err(IndexState::NotCompared),
        _ => {}
    }
    // Root may write anywhere, and what somebody made read-only is meant to stay as it is.
    let is_writable = |path: &Path| fs::metadata(path).is_ok_and(|found| found.mode() & 0o200 != 0);
    let may_write = |path: &Path| is_writable(path) && access(path, Access::WRITE_OK).is_ok();
    if ![path, &path.join("db"), path.parent().unwrap_or(path)]
        .into_iter()
        .all(may_write)
    {
        return Err(IndexState::NotCompared);
    }
    Index::open(path).map_err(|_| IndexState::Differs)
}

/// The bindings of a license in the order of binding, void ones included, as the ledger has them. Neither waits for a
/// server nor keeps one from starting.
pub fn bindings_of(path: &Path, license: &LicenseId) -> Result<Vec<Binding>, StoreError> {
    require(path)?;
    let mut builder = BindingsBuilder::default();
    recovery::read(path, |_, entry| {
        if let Some(entry) = entry.filter(|entry| entry.license == *license) {
            builder.add(entry);
        }
    })?;
    let by_license = builder.finish();
    Ok(by_license
        .of(license)
        .map_or_else(Vec::new, |bindings| bindings.to_vec()))
}

/// What [`rebuild`] found and did.
#[derive(Debug)]
pub struct RebuildOutcome {
    /// Bindings that the ledger has.
    pub bindings: u64,
    /// Bindings that the old index knows and the ledger lacks. Without consent to drop them, nothing was changed.
    pub lacking: Vec<(LicenseId, Binding)>,
    /// Whether the old index could be read, so that `lacking` says all.
    pub compared: bool,
    /// Whether the index was made anew.
    pub done: bool,
}

/// Makes the index anew from the ledger.
///
/// Where the old index knows of bindings that the ledger lacks, as after the restore of an old backup, nothing is changed
/// unless `discard` says that they may be dropped.
pub fn rebuild(path: &Path, discard: bool) -> Result<RebuildOutcome, StoreError> {
    let _lock = take(path)?;
    let loaded = recovery::load(path, None)?;
    let bindings = BindingsChecksum::of(&loaded.by_license).count;
    let lacking = lacking(&disk::index_in(path), &loaded.by_license);
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

/// What an index knows and the ledger lacks; `None` where the index cannot be read.
fn lacking(index: &Path, ledger: &BindingsByLicense) -> Option<Vec<(LicenseId, Binding)>> {
    let index = match open_index(index) {
        Ok(index) => index,
        Err(state) => return (state == IndexState::Missing).then(Vec::new),
    };
    let mut lacking = Vec::new();
    let read = index.each(|license, host, bound_at| {
        let mut of_license = ledger.of(&license).into_iter().flat_map(|bindings| bindings.iter());
        // A site that was bound again stands in the ledger with a later time.
        if !of_license.any(|binding| binding.host == host && binding.bound_at >= bound_at) {
            lacking.push((license, Binding { host, bound_at }));
        }
    });
    read.is_ok().then_some(lacking)
}

/// What [`compact`] did.
#[derive(Debug)]
pub struct CompactionOutcome {
    /// Bindings that were kept.
    pub kept: u64,
    /// Where the old ledger is now.
    pub aside: PathBuf,
}

/// Begins a new ledger without what is superseded; the old one stays aside under a name that says until when it is.
pub fn compact(path: &Path, now: DateTime<Utc>) -> Result<CompactionOutcome, StoreError> {
    require_own(path)?;
    // Opened as for serving, so that a ledger that lost something is not taken for one that never had it.
    let (disk, _) = StoreDisk::open(path)?;
    let until = now.to_rfc3339_opts(SecondsFormat::Secs, true).replace(':', "");
    let ledger = recovery::ledger_in(path);
    let aside = path.join(format!("ledger-until-{until}.jsonl"));
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
    // On a full disk, what is left of it would keep the next start from making its index.
    let (kept, end) = begin().inspect_err(|_| drop(fs::remove_file(&new)))?;
    let renamed = || -> io::Result<()> {
        // At every moment there is a ledger.
        fs::hard_link(&ledger, &aside)?;
        fs::rename(&new, &ledger)?;
        regular_file::open_folder(path)?.sync_all()?;
        disk.was_compacted(end)
    };
    renamed().inspect_err(|_| drop(fs::remove_file(&new))).map_err(failed)?;
    Ok(CompactionOutcome { kept, aside })
}

impl StoreReader {
    /// Whether a server has the store: what sites reported is then in its hands.
    pub fn is_in_use(&self) -> bool {
        self.lock.is_none()
    }

    /// The bindings of a license in the order of binding, void ones included, each with what its site reported.
    pub fn of(&self, license: &LicenseId) -> Result<Vec<(Binding, SiteReport)>, StoreError> {
        let report = |binding: &Binding| {
            let index = self.index.as_ref().ok();
            index
                .and_then(|index| index.report(license, &binding.host).ok().flatten())
                .unwrap_or_default()
        };
        let bindings = bindings_of(&self.path, license)?;
        Ok(bindings
            .into_iter()
            .map(|binding| (binding.clone(), report(&binding)))
            .collect())
    }

    /// Proves the ledger, then hands over every binding that is not superseded, void ones included, in the order of binding.
    pub fn export(self, mut each: impl FnMut(LicenseId, Binding)) -> Result<(), StoreError> {
        // What its last line says, the index alone can tell.
        self.verify()?;
        // Whoever takes the lines may take long; a server can start meanwhile.
        let path = self.path.clone();
        drop(self);
        compaction::current(|| recovery::open(&path), |entry| each(entry.license, entry.binding))
            .map_err(|fault| recovery::fault_in(&path, fault))
    }

    /// Proves the chain and compares the index; the first fault of the ledger is the error.
    pub fn verify(&self) -> Result<VerifiedLedger, StoreError> {
        let position = self
            .index
            .as_ref()
            .ok()
            .and_then(|index| index.position().ok().flatten());
        let loaded = recovery::load(&self.path, position)?;
        let checksum = BindingsChecksum::of(&loaded.by_license);
        let index = match (&self.index, &loaded.lacking) {
            (Err(state), _) => *state,
            (Ok(_), Some(lacking)) if !lacking.is_empty() => IndexState::Behind(lacking.len()),
            (Ok(index), Some(_)) if index.checksum().is_ok_and(|found| found == checksum) => IndexState::Agrees,
            _ => IndexState::Differs,
        };
        Ok(VerifiedLedger {
            lines: loaded.found.lines(),
            sequence: loaded.found.end.sequence,
            torn: loaded.found.torn,
            digest: loaded.found.end.digest,
            bindings: checksum.count,
            licenses: loaded.by_license.len(),
            latest: loaded
                .by_license
                .iter()
                .flat_map(|bindings| bindings.iter())
                .map(|binding| binding.bound_at)
                .max(),
            index,
        })
    }
}

fn require(path: &Path) -> Result<(), StoreError> {
    if disk::has_ledger(path)? {
        Ok(())
    } else {
        Err(StoreError::Missing(path.to_owned()))
    }
}

/// What is made in a store is its maker's, and a server that is somebody else could not start with it.
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
