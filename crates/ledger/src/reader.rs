//! A store in a folder, for commands: reads the ledger beside a running server, and the index if no server runs.
//!
//! It changes nothing. [`source`](crate::source) chooses between a folder and a database, and
//! [`maintenance`](crate::maintenance) makes the changes.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use rustix::fs::{Access, access};
use rustix::process::geteuid;

use countersign_model::binding::{Binding, SiteReport};
use countersign_model::digest::Digest;
use countersign_model::issued_license::IssuedLicense;
use countersign_model::license_key::LicenseId;

use crate::checksum::{BindingsBuilder, BindingsChecksum};
use crate::error::StoreError;
use crate::index::{Index, SiteReports};
use crate::issued_table::IssuedBuilder;
use crate::lock::StoreLock;
use crate::log::compaction;
use crate::log::record::LedgerEvent;
use crate::telemetry::{FirstCopiesByLicense, RefusedByLicense};
use crate::texts::table;
use crate::{disk, lock, recovery};

/// A store in a folder, open for reading.
pub(super) struct FolderReader {
    path: PathBuf,
    /// `None` while a server has the store.
    lock: Option<StoreLock>,
    /// The index, or why it was not opened.
    index: Result<Index, IndexState>,
}

/// What [`StoreReader::verify`](crate::StoreReader::verify) found in an intact ledger.
#[derive(Debug)]
pub struct VerifiedLedger {
    /// The number of lines in the file.
    pub lines: u64,
    /// The last line's `sequence`, which counts through all compactions.
    pub sequence: u64,
    /// Whether the last line is followed by something that is not acknowledged.
    pub torn: bool,
    /// The SHA-256 of the last line. Who keeps it can later prove that nothing before it was changed.
    pub digest: Digest,
    /// Bindings that are not superseded.
    pub bindings: u64,
    /// Licenses with a binding.
    pub licenses: usize,
    /// Licenses that machines issued.
    pub issued: usize,
    /// Orders of which a text is kept, or that it was erased.
    pub texts: usize,
    /// The latest time of a binding. It is in the future if a clock was ahead.
    pub latest: Option<DateTime<Utc>>,
    /// The state of the index.
    pub index: IndexState,
}

/// The state of an index, compared with its ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexState {
    /// It matches the ledger.
    Agrees,
    /// A server uses it.
    Held,
    /// It is missing, as in a copy of the ledger; the next start rebuilds it.
    Missing,
    /// It was not opened, because that writes to it: it belongs to another user, or is read-only.
    NotCompared,
    /// It lacks this many of the latest bindings, as after a crash; the next start adds them.
    Behind(usize),
    /// It is unreadable or wrong; the next start rebuilds it.
    Differs,
    /// A database has none.
    Database,
}

/// Whether there is a ledger that is not empty.
pub(super) fn has_bindings(path: &Path) -> bool {
    fs::metadata(recovery::ledger_in(path)).is_ok_and(|ledger| ledger.len() > 0)
}

/// Opens an existing store for reading, also while a server runs on it.
pub(super) fn open(path: &Path) -> Result<FolderReader, StoreError> {
    require(path)?;
    let lock = lock::look(path).map_err(|source| StoreError::Read {
        path: path.to_owned(),
        source,
    })?;
    let index = match &lock {
        Some(_) => open_index(&disk::index_in(path)),
        None => Err(IndexState::Held),
    };
    Ok(FolderReader {
        path: path.to_owned(),
        lock,
        index,
    })
}

/// Opens an index if that does no harm: sled creates missing files, and writes to what it opens.
pub(super) fn open_index(path: &Path) -> Result<Index, IndexState> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(IndexState::Missing),
        // SECURITY: the server's user could not open what root writes there.
        Ok(found) if found.uid() != geteuid().as_raw() => return Err(IndexState::NotCompared),
        _ => {}
    }
    // Root may write anywhere, but what somebody made read-only should stay unchanged.
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

/// The ledger's bindings of a license in the order of binding, void ones included. Does not wait for a server, nor
/// keep one from starting.
pub(super) fn bindings_of(path: &Path, license: &LicenseId) -> Result<Vec<Binding>, StoreError> {
    require(path)?;
    let mut builder = BindingsBuilder::default();
    recovery::read(path, |_, change| match change {
        Some(LedgerEvent::Bound(entry)) if entry.license == *license => builder.add(entry),
        Some(LedgerEvent::Released(entry)) if entry.license == *license => builder.release(entry),
        _ => {}
    })?;
    let by_license = builder.finish();
    Ok(by_license
        .of(license)
        .map_or_else(Vec::new, |bindings| bindings.to_vec()))
}

/// The licenses of the ledger as they are now, sorted by id; none where there is no ledger.
pub(super) fn issued_licenses(path: &Path) -> Result<Vec<IssuedLicense>, StoreError> {
    if !disk::has_ledger(path)? {
        return Ok(Vec::new());
    }
    let mut builder = IssuedBuilder::default();
    recovery::read(path, |_, change| {
        if let Some(LedgerEvent::License(license)) = change {
            builder.add(license);
        }
    })?;
    Ok(builder.finish().into_licenses())
}

impl FolderReader {
    /// Whether a server has the store, and with it what sites reported.
    pub(super) fn is_in_use(&self) -> bool {
        self.lock.is_none()
    }

    /// The bindings of a license in the order of binding, void ones included, with their sites' reports.
    pub(super) fn of(&self, license: &LicenseId) -> Result<Vec<(Binding, SiteReport)>, StoreError> {
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

    /// What sites reported; `None` where a server has the store, or the index cannot be read.
    pub(super) fn reports(&self) -> Option<SiteReports> {
        let mut reports = SiteReports::default();
        let read =
            self.telemetry(|index| index.each_report(|license, host, report| reports.push((license, host, report))));
        read.then_some(reports)
    }

    /// The hosts that licenses were refused to; `None` as above.
    pub(super) fn refused(&self) -> Option<RefusedByLicense> {
        let mut refused = RefusedByLicense::default();
        let read = self.telemetry(|index| {
            refused = index.refused()?;
            Ok(())
        });
        read.then_some(refused)
    }

    /// The first copies that licenses gave; `None` as above.
    pub(super) fn first_copies(&self) -> Option<FirstCopiesByLicense> {
        let mut copies = FirstCopiesByLicense::default();
        let read = self.telemetry(|index| {
            copies = index.first_copies()?;
            Ok(())
        });
        read.then_some(copies)
    }

    /// Reads from the index; whether it could be read.
    fn telemetry(&self, read: impl FnOnce(&Index) -> io::Result<()>) -> bool {
        match &self.index {
            Ok(index) => read(index).is_ok(),
            // Nobody has reported anything yet, or it is lost with the index.
            Err(state) => *state == IndexState::Missing,
        }
    }

    /// Checks the ledger, then passes on every event that is not superseded, in their order.
    pub(super) fn current(self, each: impl FnMut(LedgerEvent)) -> Result<(), StoreError> {
        // Only the index can confirm the last line.
        self.verify()?;
        // The caller may take long to process the lines; a server may start meanwhile.
        let path = self.path.clone();
        drop(self);
        compaction::current(|| recovery::open(&path), each).map_err(|fault| recovery::fault_in(&path, fault))
    }

    /// Checks the chain and compares the index. The ledger's first fault is the error.
    pub(super) fn verify(&self) -> Result<VerifiedLedger, StoreError> {
        let position = self
            .index
            .as_ref()
            .ok()
            .and_then(|index| index.position().ok().flatten());
        let loaded = recovery::load(&self.path, position)?;
        let texts = table::read(&self.path)?.len();
        let checksum = BindingsChecksum::of(&loaded.tables.by_license);
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
            licenses: loaded.tables.by_license.len(),
            issued: loaded.tables.issued.len(),
            texts,
            latest: loaded
                .tables
                .by_license
                .iter()
                .flat_map(|bindings| bindings.iter())
                .map(|binding| binding.bound_at)
                .max(),
            index,
        })
    }
}

/// Fails if there is no ledger.
pub(super) fn require(path: &Path) -> Result<(), StoreError> {
    if disk::has_ledger(path)? {
        Ok(())
    } else {
        Err(StoreError::Missing(path.to_owned()))
    }
}
