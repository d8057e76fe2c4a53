//! The index in sled: the ledger's bindings by license and site, what sites reported, and (`by_license`) refused hosts and first
//! copies.
//!
//! Nothing else uses sled. No decision depends on the index: it is a second copy to check the ledger with, and is
//! rebuilt when it is missing, outdated or wrong. sled's flush only asks the kernel to start writing
//! (`sync_file_range`), so a sync ends with an fdatasync of its file.

mod by_license;
mod pages;

use std::fs::{self, File};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ::sled::{Batch, Config, Db, Mode, Tree};
use chrono::{DateTime, Utc};
use serde::de::DeserializeOwned;

use countersign_files::regular_file;
use countersign_model::binding::SiteReport;
use countersign_model::first_copies::FirstCopies;
use countersign_model::license_key::LicenseId;
use countersign_model::refused_hosts::RefusedHosts;
use countersign_model::site_host::SiteHost;

use crate::checksum::BindingsChecksum;
use crate::log::{LedgerEntry, Position};
use crate::telemetry::{self, FirstCopiesByLicense, LicenseTelemetry as _, RefusedByLicense};

/// The length of a license id in a key.
const LICENSE_ID: usize = 32;

/// The key of the position in the ledger. It is in the tree of the bindings, to be written with them; shorter than
/// their keys.
const POSITION: &[u8] = b"position";

/// sled's cache in bytes. Small, because frequent data is in memory anyway.
const CACHE: u64 = 16 << 20;

/// After this many records, sled is closed at the next sync and opened again at the next use: it keeps about 10 kB
/// for each, whatever its cache size is.
const REST: usize = 16_384;

/// sled's threads keep its files open for a moment after a `Db` is closed.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// What sites reported: the license, the site, and what it said.
pub type SiteReports = Vec<(LicenseId, SiteHost, SiteReport)>;

/// The index, open for writing.
pub(crate) struct Index {
    path: PathBuf,
    /// `None` while sled is closed: after a failure, because sled writes nothing after one, or at rest. The next use opens it.
    files: Mutex<Option<OpenIndex>>,
    unsynced: AtomicBool,
    /// Records written since sled was opened.
    written: AtomicUsize,
}

impl Index {
    /// Opens or creates the index in the folder `path`.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let files = OpenIndex::open(path)?;
        let path = path.to_owned();
        let unsynced = AtomicBool::new(false);
        let written = AtomicUsize::new(0);
        Ok(Self {
            path,
            files: Mutex::new(Some(files)),
            unsynced,
            written,
        })
    }

    /// The position in the ledger up to which it has the bindings; `None` if it is incomplete.
    pub(crate) fn position(&self) -> io::Result<Option<Position>> {
        let position = self.with(|files| files.bindings.get(POSITION))?;
        Ok(position.map(|json| serde_json::from_slice(&json)).transpose()?)
    }

    /// Adds the next bindings of the ledger, which end at `position`: all or none.
    pub(crate) fn add(&self, entries: &[LedgerEntry], position: Option<Position>) -> io::Result<()> {
        self.change(entries.len(), |files| {
            let mut batch = Batch::default();
            for LedgerEntry { license, binding } in entries {
                batch.insert(to_key(license, &binding.host), to_json(&binding.bound_at)?);
            }
            if let Some(position) = position {
                batch.insert(POSITION, to_json(&position)?);
            }
            files.bindings.apply_batch(batch)
        })
    }

    /// Passes every binding to `each`: license, host and time, as stored.
    pub(crate) fn each(&self, each: impl FnMut(LicenseId, SiteHost, DateTime<Utc>)) -> io::Result<()> {
        self.with(|files| each_site(&files.bindings, each))
    }

    /// Reads every binding.
    pub(crate) fn checksum(&self) -> io::Result<BindingsChecksum> {
        self.with(|files| {
            let mut checksum = BindingsChecksum::default();
            for entry in &files.bindings {
                let (key, value) = entry?;
                if let Some((license, host)) = key.split_first_chunk::<LICENSE_ID>() {
                    checksum.add(license, host, serde_json::from_slice(&value).map_err(io::Error::from)?);
                }
            }
            Ok(checksum)
        })
    }

    /// What a site reported.
    pub(crate) fn report(&self, license: &LicenseId, host: &SiteHost) -> io::Result<Option<SiteReport>> {
        self.with(|files| read_report(files, &to_key(license, host)))
    }

    /// Passes every site's report to `each`.
    pub(crate) fn each_report(&self, each: impl FnMut(LicenseId, SiteHost, SiteReport)) -> io::Result<()> {
        self.with(|files| each_site(&files.reports, each))
    }

    /// The hosts that licenses were refused to.
    pub(crate) fn refused(&self) -> io::Result<RefusedByLicense> {
        self.with(|files| by_license::all(&files.refused))
    }

    /// The first copies that licenses gave.
    pub(crate) fn first_copies(&self) -> io::Result<FirstCopiesByLicense> {
        self.with(|files| by_license::all(&files.first_copies))
    }

    /// Merges reports, refused hosts and first copies into the stored ones.
    pub(crate) fn write_reports(&self, reports: &telemetry::Batch) -> io::Result<()> {
        self.change(reports.len(), |files| {
            let mut batch = Batch::default();
            for (license, sites) in &reports.sites {
                for (host, report) in sites {
                    let key = to_key(license, host);
                    let mut merged = read_report(files, &key)?.unwrap_or_default();
                    merged.merge(report.clone());
                    batch.insert(key, to_json(&merged)?);
                }
            }
            files.reports.apply_batch(batch)?;
            by_license::merge(&files.refused, &reports.refused, RefusedHosts::MOST_LICENSES)?;
            // Last, because these are added: what is put back after a failure would count twice.
            by_license::merge(&files.first_copies, &reports.first_copies, FirstCopies::MOST_LICENSES)
        })
    }

    /// Makes everything written survive a power failure.
    pub(crate) fn sync(&self) -> io::Result<()> {
        if !self.unsynced.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        // `flush_async` deadlocks with several callers.
        let synced = self.with(|files| {
            files.db.flush()?;
            Ok(files.data.sync_data()?)
        });
        synced.inspect_err(|_| self.unsynced.store(true, Ordering::Relaxed))?;
        if self.written.load(Ordering::Relaxed) >= REST {
            self.rest();
        }
        Ok(())
    }

    /// Closes sled until its next use, which frees its memory.
    pub(crate) fn rest(&self) {
        self.written.store(0, Ordering::Relaxed);
        drop(self.files.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    fn change<T>(&self, records: usize, work: impl FnOnce(&OpenIndex) -> ::sled::Result<T>) -> io::Result<T> {
        self.unsynced.store(true, Ordering::Relaxed);
        self.written.fetch_add(records, Ordering::Relaxed);
        self.with(work)
    }

    fn with<T>(&self, work: impl FnOnce(&OpenIndex) -> ::sled::Result<T>) -> io::Result<T> {
        let mut slot = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let files = match slot.take() {
            Some(files) => files,
            None => OpenIndex::open(&self.path)?,
        };
        let (files, result) = no_panic(|| work(&files).map(|result| (files, result)))??;
        *slot = Some(files);
        Ok(result)
    }
}

struct OpenIndex {
    db: Db,
    bindings: Tree,
    reports: Tree,
    refused: Tree,
    first_copies: Tree,
    /// sled's only data file.
    data: File,
}

impl OpenIndex {
    fn open(path: &Path) -> io::Result<Self> {
        require_regular_files(path)?;
        let deadline = Instant::now() + LOCK_PATIENCE;
        // sled's background flush would sync without the group commit.
        let config = Config::new()
            .path(path)
            .mode(Mode::LowSpace)
            .cache_capacity(CACHE)
            .flush_every_ms(None);
        let db = loop {
            match no_panic(|| config.open())? {
                Err(error) if is_locked(&error) && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                result => break result?,
            }
        };
        no_panic(|| {
            let bindings = db.open_tree("bindings")?;
            let reports = db.open_tree("reports")?;
            let refused = db.open_tree("refused")?;
            let first_copies = db.open_tree("first_copies")?;
            Ok(Self {
                db,
                bindings,
                reports,
                refused,
                first_copies,
                data: regular_file::open(&path.join("db"), regular_file::UNLIMITED)?,
            })
        })?
    }
}

/// sled opens its files itself, and would block on a pipe.
fn require_regular_files(path: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?.path();
        if !entry.is_dir() {
            regular_file::open(&entry, regular_file::UNLIMITED)?;
        }
    }
    Ok(())
}

/// sled panics on some damaged files; this makes an error of it.
fn no_panic<T>(work: impl FnOnce() -> T) -> io::Result<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| io::Error::other("sled panicked"))
}

/// sled reports that it cannot get a lock only in words.
fn is_locked(error: &::sled::Error) -> bool {
    matches!(error, ::sled::Error::Io(error) if error.to_string().starts_with("could not acquire lock"))
}

fn to_key(license: &LicenseId, host: &SiteHost) -> Vec<u8> {
    [license.as_bytes(), host.as_str().as_bytes()].concat()
}

/// Passes every record of a license and a site to `each`.
fn each_site<T: DeserializeOwned>(tree: &Tree, mut each: impl FnMut(LicenseId, SiteHost, T)) -> ::sled::Result<()> {
    for entry in tree {
        let (key, value) = entry?;
        if let Some((license, host)) = site_of(&key)? {
            let record = serde_json::from_slice(&value).map_err(io::Error::from)?;
            each(license, host, record);
        }
    }
    Ok(())
}

/// The license and the site of a key; `None` if it has no license.
fn site_of(key: &[u8]) -> ::sled::Result<Option<(LicenseId, SiteHost)>> {
    let Some((license, host)) = key.split_first_chunk::<LICENSE_ID>() else {
        return Ok(None);
    };
    let host = std::str::from_utf8(host).ok().and_then(|host| host.parse().ok());
    let host = host.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok(Some((LicenseId::from_bytes(*license), host)))
}

/// An unreadable report counts as none: a newer one replaces it.
fn read_report(files: &OpenIndex, key: &[u8]) -> ::sled::Result<Option<SiteReport>> {
    Ok(files
        .reports
        .get(key)?
        .and_then(|json| serde_json::from_slice(&json).ok()))
}

fn to_json(value: &impl serde::Serialize) -> ::sled::Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| io::Error::from(error).into())
}
