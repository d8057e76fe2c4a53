//! Bindings and reports in sled: the only file that knows sled, and the only one that knows what a record looks like.
//!
//! Two trees, `bindings` and `reports`, with the license id's 32 bytes and the host as key and JSON as value. sled's own
//! flush only asks the kernel to start writing (`sync_file_range`), so every sync ends with an fdatasync of its file.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ::sled::{Batch, Config, Db, IVec, Mode, Tree};
use serde::de::DeserializeOwned;

use crate::model::binding::{Binding, Report};
use crate::model::license_key::LicenseId;

use super::StoreError;
use super::reports;
use super::syncer::{Disk, Key, Record, Stored};

/// Stands under `format` in the store.
pub(super) const FORMAT: &str = "1";

/// The length of a license id in a key.
const LICENSE_ID: usize = 32;

/// Small, in bytes: what is asked often is held elsewhere.
const CACHE: u64 = 16 << 20;

/// How long another process gets to let go of the files; also sled's own threads, which outlive a closed `Db` by a moment.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// The store's folder, open for writing.
pub(super) struct SledDisk {
    path: PathBuf,
    /// `None` after a failure: sled writes nothing after one, so it is opened anew.
    files: Mutex<Option<Files>>,
}

impl SledDisk {
    /// Opens or makes the store and reads all bindings.
    pub(super) fn open(path: &Path) -> Result<(Self, Stored), StoreError> {
        let failed = |error: io::Error| open_error(path, error.into());
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        let files = Files::open(path, LOCK_PATIENCE).map_err(|error| open_error(path, error))?;
        let format = files.format().map_err(|error| open_error(path, error))?;
        if format.is_none() && files.bindings.is_empty() {
            files.initialize(path).map_err(failed)?;
        } else {
            check_format(path, format)?;
        }
        let stored = no_panic(|| files.load(path)).map_err(failed)??;
        Ok((Self { path: path.to_owned(), files: Mutex::new(Some(files)) }, stored))
    }

    fn with<T>(&self, work: impl FnOnce(&Files) -> ::sled::Result<T>) -> io::Result<T> {
        let mut slot = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let files = match slot.take() {
            Some(files) => files,
            None => Files::open(&self.path, LOCK_PATIENCE)?,
        };
        let (files, result) = no_panic(|| work(&files).map(|result| (files, result)))??;
        *slot = Some(files);
        Ok(result)
    }
}

impl Disk for SledDisk {
    fn binding(&self, key: &Key) -> io::Result<Option<Record>> {
        self.with(|files| read(&files.bindings, key))
    }

    fn write_bindings(&self, changes: &BTreeMap<Key, Option<Record>>) -> io::Result<()> {
        self.with(|files| {
            let mut batch = Batch::default();
            for (key, record) in changes {
                match record {
                    Some(record) => batch.insert(to_bytes(key), to_json(record)?),
                    None => batch.remove(to_bytes(key)),
                }
            }
            files.bindings.apply_batch(batch)
        })
    }

    fn write_reports(&self, reports: &reports::Batch) -> io::Result<()> {
        self.with(|files| {
            let mut batch = Batch::default();
            for (key, report) in reports {
                let mut merged: Report = read(&files.reports, key)?.unwrap_or_default();
                merged.merge(report.clone());
                batch.insert(to_bytes(key), to_json(&merged)?);
            }
            files.reports.apply_batch(batch)
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.with(Files::sync)
    }
}

/// A store that no server has open, for a look.
pub struct Reader {
    path: PathBuf,
    files: Files,
}

impl Reader {
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        // sled would make what is not there.
        if !path.join("db").exists() {
            return Err(StoreError::Missing(path.to_owned()));
        }
        let files = Files::open(path, Duration::ZERO).map_err(|error| open_error(path, error))?;
        check_format(path, files.format().map_err(|error| open_error(path, error))?)?;
        Ok(Self { path: path.to_owned(), files })
    }

    /// The bindings of a license in the order of binding, void ones included, each with what its site reported.
    pub fn of(&self, license: &LicenseId) -> Result<Vec<(Binding, Report)>, StoreError> {
        let mut found = Vec::new();
        for entry in self.files.bindings.scan_prefix(license.as_bytes()) {
            let (key, record) = binding_from(&self.path, entry)?;
            let report = read(&self.files.reports, &key).map_err(|error| open_error(&self.path, error))?;
            found.push((
                record.sequence,
                (Binding { host: key.host, bound_at: record.bound_at }, report.unwrap_or_default()),
            ));
        }
        found.sort_by_key(|&(sequence, _)| sequence);
        Ok(found.into_iter().map(|(_, found)| found).collect())
    }

    /// Reads every binding and counts them; the first damaged one is the error.
    pub fn count(&self) -> Result<usize, StoreError> {
        self.files.bindings.iter().map(|entry| binding_from(&self.path, entry).map(|_| 1)).sum()
    }
}

struct Files {
    db: Db,
    bindings: Tree,
    reports: Tree,
    /// sled's one file of data.
    data: File,
}

impl Files {
    fn open(path: &Path, patience: Duration) -> ::sled::Result<Self> {
        let deadline = Instant::now() + patience;
        // sled's background flush would sync behind the syncer's back.
        let config = Config::new().path(path).mode(Mode::LowSpace).cache_capacity(CACHE).flush_every_ms(None);
        let db = loop {
            match no_panic(|| config.open())? {
                Err(error) if is_locked(&error) && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                result => break result?,
            }
        };
        let (bindings, reports) = (db.open_tree("bindings")?, db.open_tree("reports")?);
        Ok(Self { db, bindings, reports, data: File::open(path.join("db"))? })
    }

    fn format(&self) -> ::sled::Result<Option<String>> {
        Ok(self.db.get("format")?.map(|found| String::from_utf8_lossy(&found).into_owned()))
    }

    /// Marks a new store, and makes its files' names as durable as what will stand in them.
    fn initialize(&self, path: &Path) -> io::Result<()> {
        self.db.insert("format", FORMAT)?;
        self.sync()?;
        File::open(path.join("conf"))?.sync_all()?;
        File::open(path)?.sync_all()?;
        File::open(path.canonicalize()?.parent().unwrap_or(path))?.sync_all()
    }

    fn load(&self, path: &Path) -> Result<Stored, StoreError> {
        let mut stored = Stored::default();
        let mut entries = self.bindings.iter().map(|entry| binding_from(path, entry)).peekable();
        // Keys begin with the license, so its bindings stand together.
        while let Some(first) = entries.next() {
            let (Key { license, host }, Record { sequence, bound_at }) = first?;
            let mut bindings = vec![(sequence, Binding { host, bound_at })];
            let same = |next: &Result<(Key, Record), _>| matches!(next, Ok((key, _)) if key.license == license);
            while let Some(next) = entries.next_if(same) {
                let (Key { host, .. }, Record { sequence, bound_at }) = next?;
                bindings.push((sequence, Binding { host, bound_at }));
            }
            bindings.sort_by_key(|&(sequence, _)| sequence);
            let last = bindings.last().map_or(0, |&(sequence, _)| sequence);
            stored.next_sequence = stored.next_sequence.max(last.saturating_add(1));
            stored.bindings.insert(license, bindings.into_iter().map(|(_, binding)| binding).collect());
        }
        Ok(stored)
    }

    // SECURITY: `flush` alone loses acknowledged bindings at a power loss; `flush_async` deadlocks with several callers.
    fn sync(&self) -> ::sled::Result<()> {
        self.db.flush()?;
        Ok(self.data.sync_data()?)
    }
}

/// sled panics on some damaged files; that is an error like another.
fn no_panic<T>(work: impl FnOnce() -> T) -> io::Result<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| io::Error::other("sled panicked"))
}

/// sled tells of a lock it does not get in words only.
fn is_locked(error: &::sled::Error) -> bool {
    matches!(error, ::sled::Error::Io(error) if error.to_string().starts_with("could not acquire lock"))
}

fn open_error(path: &Path, error: ::sled::Error) -> StoreError {
    let path = path.to_owned();
    match error {
        error if is_locked(&error) => StoreError::InUse(path),
        ::sled::Error::Io(source) => StoreError::Read { path, source },
        ::sled::Error::Corruption { at, .. } => {
            StoreError::Damaged { path, what: format!("sled finds damage at {at:?}") }
        }
        error => StoreError::Read { path, source: io::Error::other(error) },
    }
}

fn check_format(path: &Path, found: Option<String>) -> Result<(), StoreError> {
    match found {
        Some(found) if found == FORMAT => Ok(()),
        found => Err(StoreError::Format { path: path.to_owned(), found: found.unwrap_or_else(|| "unknown".into()) }),
    }
}

fn to_bytes(key: &Key) -> Vec<u8> {
    [key.license.as_bytes(), key.host.as_str().as_bytes()].concat()
}

fn from_bytes(bytes: &[u8]) -> Option<Key> {
    let (license, host) = bytes.split_first_chunk::<LICENSE_ID>()?;
    Some(Key { license: LicenseId::from_bytes(*license), host: std::str::from_utf8(host).ok()?.parse().ok()? })
}

fn binding_from(path: &Path, entry: ::sled::Result<(IVec, IVec)>) -> Result<(Key, Record), StoreError> {
    let (key, value) = entry.map_err(|error| open_error(path, error))?;
    let damaged = |what: String| StoreError::Damaged { path: path.to_owned(), what };
    let key = from_bytes(&key)
        .ok_or_else(|| damaged(format!("no binding has the key {:?}", key.escape_ascii().to_string())))?;
    let record = serde_json::from_slice(&value)
        .map_err(|error| damaged(format!("the binding of {} and {}: {error}", key.license.log_tag(), key.host)))?;
    Ok((key, record))
}

fn read<T: DeserializeOwned>(tree: &Tree, key: &Key) -> ::sled::Result<Option<T>> {
    let json = tree.get(to_bytes(key))?;
    json.map(|json| serde_json::from_slice(&json)).transpose().map_err(|error| io::Error::from(error).into())
}

fn to_json(value: &impl serde::Serialize) -> ::sled::Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| io::Error::from(error).into())
}
