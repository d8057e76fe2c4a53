//! The store: which sites are bound to which licenses, durably, and what those sites reported.
//!
//! Requests are answered from memory (`memory`). Changes go through one queue to one thread (`group_commit`), which
//! writes them to the `log` before the request is answered; the `index` (sled) and `telemetry` are written later. The
//! thread writes to a `backend`: `disk` has the server's files, which `lock` keeps for one process. Commands use
//! `reader` and `maintenance`.

mod accepted;
mod backend;
mod bindings;
mod checksum;
mod commit_status;
mod disk;
mod error;
mod group_commit;
mod health;
mod index;
mod lock;
pub mod log;
pub mod maintenance;
mod memory;
mod pending;
pub mod reader;
mod recovery;
pub mod stored_reports;
mod telemetry;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::model::binding::CheckIn;
use crate::model::license::License;
use crate::model::license_key::LicenseId;
use crate::model::site_host::SiteHost;

use backend::Backend;
use checksum::BindingsByLicense;
use group_commit::GroupCommit;
use memory::{BindDecision, BindingMemory};
use stored_reports::StoredReports;
use telemetry::Reports;

pub use accepted::Accepted;
pub use bindings::BoundSites;
pub use error::StoreError;
pub use health::{Figures, StoreHealth};
pub use index::SiteReports;
pub use pending::BindOutcome;
pub use reader::{StoreReader, bindings_of, has_bindings, read_only};
pub use telemetry::RefusedByLicense;

/// The future result of [`Bindings::bind`].
pub type BindFuture<'a> = Pin<Box<dyn Future<Output = Result<BindOutcome, StoreError>> + Send + 'a>>;

/// The bindings of all licenses.
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
    let (disk, by_license) = disk::StoreDisk::open(path)?;
    Ok(Arc::new(Store::new(disk, by_license, group_commit::WRITE_BEHIND)))
}

struct Store {
    held: Arc<BindingMemory>,
    reports: Arc<Reports>,
    /// Weak, so that the thread closes the files when it ends.
    stored_reports: Option<Weak<dyn StoredReports>>,
    group_commit: GroupCommit,
}

impl Store {
    fn new(disk: impl Backend, by_license: BindingsByLicense, write_behind: Duration) -> Self {
        let held = Arc::new(BindingMemory::new(by_license));
        let reports = Arc::new(Reports::default());
        let on_commit = {
            let held = held.clone();
            move |job, result| held.complete(job, result)
        };
        let stored_reports = disk.stored_reports();
        let group_commit = GroupCommit::start(disk, on_commit, reports.clone(), write_behind);
        Self {
            held,
            reports,
            stored_reports,
            group_commit,
        }
    }

    async fn bind(&self, license: &License, host: &SiteHost, now: DateTime<Utc>) -> Result<BindOutcome, StoreError> {
        loop {
            match self
                .held
                .decide(license, host, now, |job| self.group_commit.enqueue(job))?
            {
                BindDecision::Answer(outcome) => {
                    if matches!(outcome, BindOutcome::Elsewhere { .. }) {
                        self.reports.refuse(&license.id, host, now);
                    }
                    return Ok(outcome);
                }
                BindDecision::UnderWay(ticket) => return ticket.wait().await.map(|()| BindOutcome::Bound),
                // Only durable bindings may turn a site away: if the queued ones fail, there is a free seat after all.
                BindDecision::AfterOthers(ticket) => match ticket.wait().await {
                    Ok(()) | Err(StoreError::NotDurable(_)) => {}
                    Err(closed) => return Err(closed),
                },
            }
        }
    }
}

impl Bindings for Store {
    fn of(&self, license: &LicenseId) -> BoundSites<'_> {
        self.held.of(license)
    }

    fn bind<'a>(&'a self, license: &'a License, host: &'a SiteHost, now: DateTime<Utc>) -> BindFuture<'a> {
        Box::pin(self.bind(license, host, now))
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

    fn health(&self) -> StoreHealth {
        self.group_commit.health()
    }

    fn figures(&self) -> Figures {
        let ledger = self.group_commit.counts();
        Figures {
            bindings: self.held.count(),
            syncs: ledger.syncs.read(),
            failures: ledger.failures.load(Ordering::Relaxed),
            index_failures: ledger.index_failures.load(Ordering::Relaxed),
            reports_dropped: self.reports.dropped(),
        }
    }

    fn close(&self) -> Result<(), StoreError> {
        self.group_commit.close()
    }
}
