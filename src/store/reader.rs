//! The store as commands see it: the ledger read beside a running server, the index where none runs. Nothing is changed.
//!
//! [`maintenance`](crate::store::maintenance) has what changes it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use rustix::fs::{Access, access};
use rustix::process::geteuid;

use crate::model::binding::{Binding, SiteReport};
use crate::model::digest::Digest;
use crate::model::license_key::LicenseId;

use crate::store::checksum::{BindingsBuilder, BindingsChecksum};
use crate::store::error::StoreError;
use crate::store::index::Index;
use crate::store::lock::StoreLock;
use crate::store::log::compaction;
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
pub(super) fn open_index(path: &Path) -> Result<Index, IndexState> {
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

/// Makes sure that there is a ledger.
pub(super) fn require(path: &Path) -> Result<(), StoreError> {
    if disk::has_ledger(path)? {
        Ok(())
    } else {
        Err(StoreError::Missing(path.to_owned()))
    }
}
