//! The index in sled: what the ledger says, by license and site, and what sites reported.
//!
//! The only file that knows sled. Nothing is decided from the index: it is the second opinion that a ledger is whole, and
//! where it is missing, behind or wrong it is made anew. sled's own flush only asks the kernel to start writing
//! (`sync_file_range`), so a sync ends with an fdatasync of its file.

use std::fs::{self, File};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ::sled::{Batch, Config, Db, Mode, Tree};
use chrono::{DateTime, Utc};

use crate::model::binding::SiteReport;
use crate::model::license_key::LicenseId;
use crate::model::site_host::SiteHost;
use crate::regular_file;

use crate::store::checksum::BindingsChecksum;
use crate::store::log::{LedgerEntry, Position};
use crate::store::telemetry;

/// The length of a license id in a key.
const LICENSE_ID: usize = 32;

/// What the place in the ledger is filed under, among the bindings so that both are written at once; shorter than their keys.
const POSITION: &[u8] = b"position";

/// Small, in bytes: what is asked often is held elsewhere.
const CACHE: u64 = 16 << 20;

/// After so many records sled is closed at the next sync and opened anew at the next use: it keeps some 10 kB for each,
/// whatever its cache may hold.
const REST: usize = 16_384;

/// sled's threads outlive a closed `Db`, and hold its files, by a moment.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// The index, open for writing.
pub(crate) struct Index {
    path: PathBuf,
    /// `None` after a failure: sled writes nothing after one, so it is opened anew.
    files: Mutex<Option<OpenIndex>>,
    unsynced: AtomicBool,
    /// Records written since sled was opened.
    written: AtomicUsize,
}

impl Index {
    /// Opens or makes the index in the folder `path`.
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

    /// Up to where in the ledger it knows the bindings; `None` where it is not whole yet.
    pub(crate) fn position(&self) -> io::Result<Option<Position>> {
        let position = self.with(|files| files.bindings.get(POSITION))?;
        Ok(position.map(|json| serde_json::from_slice(&json)).transpose()?)
    }

    /// Files the next bindings of the ledger, and that they end at `position`, all or none.
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

    /// Hands over every binding: license, host and time, as they are filed.
    pub(crate) fn each(&self, mut each: impl FnMut(LicenseId, SiteHost, DateTime<Utc>)) -> io::Result<()> {
        self.with(|files| {
            for entry in &files.bindings {
                let (key, value) = entry?;
                let Some((license, host)) = key.split_first_chunk::<LICENSE_ID>() else {
                    continue;
                };
                let host = std::str::from_utf8(host).ok().and_then(|host| host.parse().ok());
                let host = host.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
                each(
                    LicenseId::from_bytes(*license),
                    host,
                    serde_json::from_slice(&value).map_err(io::Error::from)?,
                );
            }
            Ok(())
        })
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

    /// Merges reports into those stored.
    pub(crate) fn write_reports(&self, reports: &telemetry::Batch) -> io::Result<()> {
        self.change(reports.values().map(Vec::len).sum(), |files| {
            let mut batch = Batch::default();
            for (license, sites) in reports {
                for (host, report) in sites {
                    let key = to_key(license, host);
                    let mut merged = read_report(files, &key)?.unwrap_or_default();
                    merged.merge(report.clone());
                    batch.insert(key, to_json(&merged)?);
                }
            }
            files.reports.apply_batch(batch)
        })
    }

    /// Returns once everything written is safe from a loss of power.
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

    /// Closes sled until it is used again, which gives back what it holds in memory.
    pub(crate) fn rest(&self) {
        self.written.store(0, Ordering::Relaxed);
        drop(self.files.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    fn change(&self, records: usize, work: impl FnOnce(&OpenIndex) -> ::sled::Result<()>) -> io::Result<()> {
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
    /// sled's one file of data.
    data: File,
}

impl OpenIndex {
    fn open(path: &Path) -> io::Result<Self> {
        require_regular_files(path)?;
        let deadline = Instant::now() + LOCK_PATIENCE;
        // sled's background flush would sync behind the group commit's back.
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
            Ok(Self {
                db,
                bindings,
                reports,
                data: regular_file::open(&path.join("db"), regular_file::UNLIMITED)?,
            })
        })?
    }
}

/// sled opens its files itself, and would wait for the other end of a pipe.
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

/// sled panics on some damaged files; that is an error like another.
fn no_panic<T>(work: impl FnOnce() -> T) -> io::Result<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| io::Error::other("sled panicked"))
}

/// sled tells of a lock it does not get in words only.
fn is_locked(error: &::sled::Error) -> bool {
    matches!(error, ::sled::Error::Io(error) if error.to_string().starts_with("could not acquire lock"))
}

fn to_key(license: &LicenseId, host: &SiteHost) -> Vec<u8> {
    [license.as_bytes(), host.as_str().as_bytes()].concat()
}

/// A report that cannot be read counts as none: a newer one takes its place.
fn read_report(files: &OpenIndex, key: &[u8]) -> ::sled::Result<Option<SiteReport>> {
    Ok(files
        .reports
        .get(key)?
        .and_then(|json| serde_json::from_slice(&json).ok()))
}

fn to_json(value: &impl serde::Serialize) -> ::sled::Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| io::Error::from(error).into())
}
