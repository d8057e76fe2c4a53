//! Where commands read a store: in a folder, or in the database that several nodes share. Changes nothing.
//!
//! [`maintenance`](crate::maintenance) has the changes.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};

use countersign_model::binding::{Binding, SiteReport};
use countersign_model::customer::CustomerRow;
use countersign_model::issued_license::{Hex128, IssuedLicense};
use countersign_model::license_key::LicenseId;
use countersign_model::site_claim::ClaimStep;
use countersign_model::site_host::SiteHost;
use countersign_model::site_release::{self, SiteRelease};
use countersign_model::stored_text::StoredText;
use countersign_model::text::folded;

use crate::error::StoreError;
use crate::index::SiteReports;
use crate::latest_changes::{ChangesWanted, LatestChanges};
use crate::license_lines::LicenseLines;
use crate::log::record::LedgerEvent;
use crate::log::{ClaimEntry, LedgerEntry, ReleaseEntry};
use crate::postgres::shared_reader::SharedReader;
use crate::reader::{self, FolderReader, VerifiedLedger};
use crate::stored_sales::StoredSales;
use crate::telemetry::{FirstCopiesByLicense, RefusedByLicense};
use crate::texts::{FoundTexts, newest_first, table};

/// The place of a store.
#[derive(Clone, Copy, Debug)]
pub enum StoreSource<'a> {
    /// A folder.
    Folder(&'a Path),
    /// The address of a database.
    Database(&'a str),
}

/// The place of an open ledger.
pub(crate) enum LedgerPlace {
    Folder(PathBuf),
    /// The address has a password.
    Database(String),
}

impl LedgerPlace {
    pub(crate) fn source(&self) -> StoreSource<'_> {
        match self {
            Self::Folder(path) => StoreSource::Folder(path),
            Self::Database(address) => StoreSource::Database(address),
        }
    }
}

/// A store, open for reading.
pub struct StoreReader(Place);

enum Place {
    Folder(FolderReader),
    Database(SharedReader),
}

/// Whether there are bindings. A database that cannot be read counts as none.
pub fn has_bindings(source: StoreSource<'_>) -> bool {
    match source {
        StoreSource::Folder(path) => reader::has_bindings(path),
        StoreSource::Database(address) => {
            SharedReader::open(address).is_ok_and(|shared| shared.has_bindings().unwrap_or_default())
        }
    }
}

/// Opens an existing store for reading, also while servers run on it.
pub fn read_only(source: StoreSource<'_>) -> Result<StoreReader, StoreError> {
    Ok(StoreReader(match source {
        StoreSource::Folder(path) => Place::Folder(reader::open(path)?),
        StoreSource::Database(address) => Place::Database(SharedReader::open(address)?),
    }))
}

/// The ledger's bindings of a license in the order of binding, void ones included. Does not wait for a server, nor
/// keep one from starting.
pub fn bindings_of(source: StoreSource<'_>, license: &LicenseId) -> Result<Vec<Binding>, StoreError> {
    match source {
        StoreSource::Folder(path) => reader::bindings_of(path, license),
        StoreSource::Database(address) => SharedReader::open(address)?.bindings_of(license),
    }
}

/// The licenses of the ledger as they are now, sorted by id; none where there is no store. Reads every line, also while servers
/// run.
pub fn issued_licenses(source: StoreSource<'_>) -> Result<Vec<IssuedLicense>, StoreError> {
    match source {
        StoreSource::Folder(path) => reader::issued_licenses(path),
        StoreSource::Database(address) => SharedReader::open(address)?.issued_licenses(),
    }
}

/// The sales of shops and their licenses; none where there is no store. Reads every line, also while servers run.
pub fn stored_sales(source: StoreSource<'_>) -> Result<StoredSales, StoreError> {
    match source {
        StoreSource::Folder(path) => crate::stored_sales::in_folder(path),
        StoreSource::Database(address) => SharedReader::open(address)?.stored_sales(),
    }
}

/// The events of a license and of those that it replaced, the newest first; none where there is no store, or no such license.
/// Reads lines of these licenses alone, also while servers run, and does not check the chain.
pub fn history(source: StoreSource<'_>, license: &LicenseId) -> Result<Vec<LedgerEvent>, StoreError> {
    history_knowing(source, license, &mut LicenseLines::default())
}

/// As [`history`], and keeps in `known` which parts of a store's file it read.
pub(crate) fn history_knowing(
    source: StoreSource<'_>,
    license: &LicenseId,
    known: &mut LicenseLines,
) -> Result<Vec<LedgerEvent>, StoreError> {
    let mut events = match source {
        StoreSource::Folder(path) => crate::history::in_folder(path, license, known)?,
        StoreSource::Database(address) => SharedReader::open(address)?.history(license)?,
    };
    events.reverse();
    Ok(events)
}

/// The last changes that somebody wants to see; none where there is no store. Goes back 16 MiB of lines at most, also while servers run,
/// and does not check the chain.
pub fn latest_changes(source: StoreSource<'_>, wanted: ChangesWanted) -> Result<LatestChanges, StoreError> {
    match source {
        StoreSource::Folder(path) => crate::latest_changes::in_folder(path, wanted),
        StoreSource::Database(address) => SharedReader::open(address)?.latest_changes(wanted),
    }
}

/// What is kept of these texts, also while servers run; nothing where there is no store.
pub fn texts(source: StoreSource<'_>, names: &[Hex128]) -> Result<FoundTexts, StoreError> {
    match source {
        StoreSource::Folder(path) => {
            let mut stored = table::read(path)?;
            Ok(names.iter().filter_map(|name| stored.remove_entry(name)).collect())
        }
        StoreSource::Database(address) => SharedReader::open(address)?.texts(names),
    }
}

/// The rows of these customers, the newest first; none where there is no store. Works while servers run.
pub fn customers(source: StoreSource<'_>, numbers: &BTreeSet<Hex128>) -> Result<Vec<CustomerRow>, StoreError> {
    let found = match source {
        StoreSource::Folder(path) => rows_in(path, usize::MAX, |row| numbers.contains(&row.number))?,
        StoreSource::Database(address) => SharedReader::open(address)?.customers(numbers)?,
    };
    Ok(newest_first(found))
}

/// At most `most` rows of customers whose address or name contains a text, without regard to case and accents; also while servers run.
pub fn customers_with(source: StoreSource<'_>, text: &str, most: usize) -> Result<Vec<CustomerRow>, StoreError> {
    let text = folded(text);
    match source {
        StoreSource::Folder(path) => rows_in(path, most, |row| row.contains(&text)),
        StoreSource::Database(address) => SharedReader::open(address)?.customers_with(&text, most),
    }
}

fn rows_in(
    folder: &Path,
    most: usize,
    is_wanted: impl Fn(&CustomerRow) -> bool,
) -> Result<Vec<CustomerRow>, StoreError> {
    let stored = table::read(folder)?;
    let rows = stored.values().filter_map(StoredText::customer);
    Ok(rows.filter(|row| is_wanted(row)).take(most).cloned().collect())
}

impl StoreReader {
    /// Whether a server has the store, and with it what sites reported. Nobody has a database for himself.
    pub fn is_in_use(&self) -> bool {
        match &self.0 {
            Place::Folder(folder) => folder.is_in_use(),
            Place::Database(_) => false,
        }
    }

    /// The bindings of a license in the order of binding, void ones included, with their sites' reports.
    pub fn of(&self, license: &LicenseId) -> Result<Vec<(Binding, SiteReport)>, StoreError> {
        match &self.0 {
            Place::Folder(folder) => folder.of(license),
            Place::Database(shared) => shared.of(license),
        }
    }

    /// What sites reported; `None` where a server has the store, or the index cannot be read.
    pub fn reports(&self) -> Result<Option<SiteReports>, StoreError> {
        match &self.0 {
            Place::Folder(folder) => Ok(folder.reports()),
            Place::Database(shared) => shared.reports().map(Some),
        }
    }

    /// The hosts that licenses were refused to; `None` as above.
    pub fn refused(&self) -> Result<Option<RefusedByLicense>, StoreError> {
        match &self.0 {
            Place::Folder(folder) => Ok(folder.refused()),
            Place::Database(shared) => shared.refused().map(Some),
        }
    }

    /// The first copies that licenses gave; `None` as above.
    pub fn first_copies(&self) -> Result<Option<FirstCopiesByLicense>, StoreError> {
        match &self.0 {
            Place::Folder(folder) => Ok(folder.first_copies()),
            Place::Database(shared) => shared.first_copies().map(Some),
        }
    }

    /// Checks the ledger, and gives the claims of sites that were installed again: those that wait, and those that count as recent at `now`.
    pub fn claims(self, now: DateTime<Utc>) -> Result<Vec<ClaimEntry>, StoreError> {
        let mut claims = Vec::new();
        self.current(|change| {
            if let LedgerEvent::Claimed(entry) = change
                && (entry.claim.step == ClaimStep::Begun || entry.claim.is_recent(now))
            {
                claims.push(entry);
            }
        })?;
        Ok(claims)
    }

    /// Checks the ledger, then passes on every binding that is not superseded, void ones included, in the order of
    /// binding.
    pub fn export(self, mut each: impl FnMut(LicenseId, Binding)) -> Result<(), StoreError> {
        self.current(|change| {
            if let Some(LedgerEntry { license, binding }) = change.binding() {
                each(license, binding);
            }
        })
    }

    /// Checks the ledger, and gives the releases by sites that count as moves at `now`, in their order.
    pub fn moves(self, now: DateTime<Utc>) -> Result<HashMap<LicenseId, Vec<SiteRelease>>, StoreError> {
        let mut released: HashMap<LicenseId, Vec<SiteRelease>> = HashMap::new();
        let mut came_back = HashSet::new();
        self.current(|change| match change {
            LedgerEvent::Released(ReleaseEntry {
                license,
                release,
                successor,
            }) => {
                released.entry(license).or_default().push(release);
                let held = successor.filter(|binding| !binding.is_released());
                came_back.extend(held.map(|binding| (license, binding.host)));
            }
            LedgerEvent::Bound(LedgerEntry { license, binding })
                if !binding.is_released() && released.contains_key(&license) =>
            {
                came_back.insert((license, binding.host));
            }
            _ => {}
        })?;
        let mut moved = HashMap::new();
        for (license, releases) in released {
            let is_held = |host: &SiteHost| came_back.contains(&(license, host.clone()));
            let moves: Vec<_> = site_release::moves(&releases, is_held, now).cloned().collect();
            if !moves.is_empty() {
                moved.insert(license, moves);
            }
        }
        Ok(moved)
    }

    /// Checks the ledger, then passes on every event that a compaction would keep, in their order. Bindings are as they
    /// are now: a released one says so.
    pub(crate) fn current(self, each: impl FnMut(LedgerEvent)) -> Result<(), StoreError> {
        match self.0 {
            Place::Folder(folder) => folder.current(each),
            Place::Database(shared) => shared.current(each),
        }
    }

    /// Checks the chain and compares the index. The ledger's first fault is the error.
    pub fn verify(&self) -> Result<VerifiedLedger, StoreError> {
        match &self.0 {
            Place::Folder(folder) => folder.verify(),
            Place::Database(shared) => shared.verify(),
        }
    }
}
