//! The store: which sites are bound to which licenses, durably, and what those sites reported.
//!
//! Requests are answered from memory (`memory`). Changes go through one queue (`group_commit`) to one thread
//! (`commit_writer`), which decides who gets a seat (`binding_batch`) and writes the `log` before it answers; the `index`
//! (sled) and `telemetry` are written later. It writes to a `backend`: `disk` has the server's files. Commands use
//! `source` to read, and `maintenance`.

mod accepted;
mod backend;
mod backend_error;
mod binding_batch;
mod bindings;
mod checksum;
mod commit_status;
mod commit_writer;
pub mod copying;
mod disk;
mod error;
mod group_commit;
mod health;
mod index;
mod issued_licenses;
mod ledger_state;
mod license_changes;
mod lock;
pub mod log;
pub mod maintenance;
mod memory;
mod pending;
mod postgres;
pub mod reader;
mod recovery;
mod source;
pub mod stored_reports;
mod telemetry;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::model::binding::CheckIn;
use crate::model::license::{License, Seat};
use crate::model::license_key::LicenseId;
use crate::model::site_host::SiteHost;

use backend::Backend;
use group_commit::GroupCommit;
use memory::BindingMemory;
use pending::{BindRequest, ChangeRequest, Message};
use postgres::settings::DatabaseSettings;
use stored_reports::StoredReports;
use telemetry::Reports;

pub use accepted::Accepted;
pub use bindings::BoundSites;
pub use error::StoreError;
pub use health::{Figures, StoreHealth};
pub use index::SiteReports;
pub use issued_licenses::LedgerLicense;
pub use ledger_state::LedgerState;
pub use license_changes::{ChangeBasis, ChangeOutcome, ChangeRefusal, LedgerChange};
pub use pending::BindOutcome;
pub use postgres::inspection;
pub use postgres::nodes::NodeSecrets;
pub use postgres::schema::script as shared_schema;
pub use postgres::settings::SettingsError;
pub use postgres::shared_compaction::compact_shared;
pub use source::{StoreReader, StoreSource, bindings_of, has_bindings, read_only};
pub use telemetry::RefusedByLicense;

/// The future result of [`Bindings::bind`].
pub type BindFuture<'a> = Pin<Box<dyn Future<Output = Result<BindOutcome, StoreError>> + Send + 'a>>;

/// The future result of [`Bindings::refresh`].
pub type RefreshFuture<'a> = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send + 'a>>;

/// The future result of [`Bindings::change_license`].
pub type ChangeFuture<'a> = Pin<Box<dyn Future<Output = Result<ChangeOutcome, StoreError>> + Send + 'a>>;

/// The bindings of all licenses, and the licenses that machines issued.
pub trait Bindings: Send + Sync {
    /// The durable bindings of a license. Costs one look-up in memory.
    fn of(&self, license: &LicenseId) -> BoundSites<'_>;

    /// Binds `host` unless it is bound already, if a site is free ([`License::seat`]). If none is, the host is noted as
    /// refused, as a report is.
    ///
    /// [`BindOutcome::Bound`] means that the binding is durable. The future may be dropped early: the binding is
    /// completed, and the next call finds it. Errors: [`StoreError::Busy`], [`StoreError::NotDurable`],
    /// [`StoreError::Closed`]; after each, the host may try again.
    fn bind<'a>(&'a self, license: &'a License, host: &'a SiteHost, now: DateTime<Utc>) -> BindFuture<'a>;

    /// The license of the ledger with this id. The registry comes first: ask it before.
    fn issued(&self, license: &LicenseId) -> Option<LedgerLicense>;

    /// The license of the ledger whose id begins so.
    fn issued_beginning_with(&self, beginning: &[u8; 16]) -> Option<LedgerLicense>;

    /// How many licenses the ledger has.
    fn issued_count(&self) -> usize;

    /// Issues or changes a license of the ledger. The caller has made sure that no file has it.
    ///
    /// [`ChangeOutcome::Recorded`] means that it is durable, and in force on this node. The future may be dropped early:
    /// the change is completed, and a retry finds it. Errors: as [`Bindings::bind`].
    fn change_license(&self, change: LedgerChange) -> ChangeFuture<'_>;

    /// Reads what other nodes appended before this call; `None` where no other node can. Before saying no because a site
    /// is not bound, refresh and ask again; a yes needs no second look.
    ///
    /// Errors: as [`Bindings::bind`]; then the answer is not known.
    fn refresh(&self) -> Option<RefreshFuture<'_>> {
        None
    }

    /// Stores a site's report for a license with these bindings. Never blocks on a disk, never fails; it is written
    /// seconds later.
    ///
    /// A repeated report within ten minutes is ignored. That is known only of the site that reported last, and not of
    /// hosts that only the registry binds, whose reports are stored each time. At most 16,384 reports wait, and about
    /// 250 a second are written. If more arrive, reports of further sites are dropped and counted in
    /// [`Figures::reports_dropped`].
    fn report(&self, license: &LicenseId, bound: &BoundSites<'_>, host: &SiteHost, check_in: &CheckIn<'_>);

    /// Reads what sites reported; `None` if the store is closed, or cannot read it.
    fn stored_reports(&self) -> Option<Arc<dyn StoredReports>> {
        None
    }

    /// Tells the other nodes of a shared ledger which secrets this one uses.
    fn announce(&self, _secrets: NodeSecrets) {}

    /// Whether this node may issue anything: its secrets are those of the other nodes.
    fn may_issue(&self) -> bool {
        true
    }

    /// Whether bindings, index and reports can be written.
    fn health(&self) -> StoreHealth;

    /// The store's counters. Looks at every binding, so it takes milliseconds for a million.
    fn figures(&self) -> Figures {
        Figures::default()
    }

    /// Writes what is waiting and closes the files. Binding then gives [`StoreError::Closed`]. Blocks.
    fn close(&self) -> Result<(), StoreError>;
}

/// Opens or creates the store in the folder `path`, and reads all bindings.
///
/// Waits a second for another process to close it, as at a restart.
pub fn open(path: &Path) -> Result<Arc<dyn Bindings>, StoreError> {
    let (disk, by_license, issued) = disk::StoreDisk::open(path)?;
    let memory = BindingMemory::new(by_license).with_issued(issued);
    Ok(Arc::new(Store::new(disk, memory, group_commit::WRITE_BEHIND)))
}

/// Opens the log that several nodes share in a database, and reads all bindings. `folder` is for what belongs to this
/// node alone; it is created. Without a synchronous standby it warns, unless its work is `assumed` to be done elsewhere.
pub fn open_shared(address: &str, folder: &Path, assumed: bool) -> Result<Arc<dyn Bindings>, StoreError> {
    lock::make_folder(folder).map_err(|source| StoreError::Read {
        path: folder.to_owned(),
        source,
    })?;
    let settings = DatabaseSettings::parse(address).map_err(StoreError::Address)?;
    let (log, by_license, issued) =
        postgres::PostgresLog::open(settings, folder, assumed).map_err(StoreError::shared)?;
    let memory = BindingMemory::new(by_license).with_issued(issued);
    Ok(Arc::new(Store::new(log, memory, group_commit::WRITE_BEHIND)))
}

struct Store {
    memory: Arc<BindingMemory>,
    reports: Arc<Reports>,
    /// Weak, so that the thread closes the files when it ends.
    stored_reports: Option<Weak<dyn StoredReports>>,
    group_commit: GroupCommit,
}

impl Store {
    fn new(backend: impl Backend, memory: BindingMemory, write_behind: Duration) -> Self {
        let memory = Arc::new(memory);
        let reports = Arc::new(Reports::default());
        let stored_reports = backend.stored_reports();
        let group_commit = GroupCommit::start(backend, memory.clone(), reports.clone(), write_behind);
        Self {
            memory,
            reports,
            stored_reports,
            group_commit,
        }
    }

    async fn bind(&self, license: &License, host: &SiteHost, now: DateTime<Utc>) -> Result<BindOutcome, StoreError> {
        let outcome = match license.seat(&self.memory.of(&license.id), host) {
            Seat::Held => return Ok(BindOutcome::Bound),
            // Only a log that nobody else writes to is known as a whole.
            Seat::Taken { first } if !self.group_commit.is_shared() => BindOutcome::Elsewhere { first: first.clone() },
            Seat::Taken { .. } | Seat::Free => {
                let (request, pending) = BindRequest::new(license, host, now);
                self.group_commit.enqueue(Message::Bind(request))?;
                pending.wait().await?
            }
        };
        if matches!(outcome, BindOutcome::Elsewhere { .. }) {
            self.reports.refuse(&license.id, host, now);
        }
        Ok(outcome)
    }

    async fn change_license(&self, change: LedgerChange) -> Result<ChangeOutcome, StoreError> {
        let (request, pending) = ChangeRequest::new(change);
        self.group_commit.enqueue(Message::Change(request))?;
        pending.wait().await
    }

    async fn refresh(&self) -> Result<(), StoreError> {
        let (answer, pending) = pending::pending();
        self.group_commit.enqueue(Message::Refresh(answer))?;
        pending.wait().await
    }
}

impl Bindings for Store {
    fn of(&self, license: &LicenseId) -> BoundSites<'_> {
        self.memory.of(license)
    }

    fn bind<'a>(&'a self, license: &'a License, host: &'a SiteHost, now: DateTime<Utc>) -> BindFuture<'a> {
        Box::pin(self.bind(license, host, now))
    }

    fn issued(&self, license: &LicenseId) -> Option<LedgerLicense> {
        self.memory.issued.of(license)
    }

    fn issued_beginning_with(&self, beginning: &[u8; 16]) -> Option<LedgerLicense> {
        self.memory.issued.beginning_with(beginning)
    }

    fn issued_count(&self) -> usize {
        self.memory.issued.len()
    }

    fn change_license(&self, change: LedgerChange) -> ChangeFuture<'_> {
        Box::pin(self.change_license(change))
    }

    fn refresh(&self) -> Option<RefreshFuture<'_>> {
        self.group_commit
            .is_shared()
            .then(|| -> RefreshFuture<'_> { Box::pin(self.refresh()) })
    }

    fn report(&self, license: &LicenseId, bound: &BoundSites<'_>, host: &SiteHost, check_in: &CheckIn<'_>) {
        if let Some(news) = bound.news(host, check_in)
            && self.reports.add(license, host, check_in)
        {
            news.was_noted();
        }
    }

    fn stored_reports(&self) -> Option<Arc<dyn StoredReports>> {
        self.stored_reports.as_ref()?.upgrade()
    }

    fn announce(&self, secrets: NodeSecrets) {
        self.group_commit.announce(secrets);
    }

    fn may_issue(&self) -> bool {
        !self.group_commit.is_shared() || self.group_commit.health().ledger != LedgerState::NodesDiffer
    }

    fn health(&self) -> StoreHealth {
        self.group_commit.health()
    }

    fn figures(&self) -> Figures {
        self.group_commit.figures(Figures {
            bindings: self.memory.count(),
            reports_dropped: self.reports.dropped(),
            ..Figures::default()
        })
    }

    fn close(&self) -> Result<(), StoreError> {
        self.group_commit.close()
    }
}
