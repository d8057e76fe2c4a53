//! The store: which sites are bound to which licenses, kept over restarts, and what those sites reported.
//!
//! Questions are answered from memory (`memory`). What changes goes through one queue to one thread (`group_commit`), which makes
//! it durable in the `log` before anybody is told; the `index` (sled) and `telemetry` wait until that thread has time.
//! `disk` has the files for a server, which `lock` keeps for one process; `maintenance` has them for a command.

mod accepted;
mod bindings;
mod checksum;
mod disk;
mod group_commit;
mod index;
mod lock;
pub mod log;
pub mod maintenance;
mod memory;
mod recovery;
mod telemetry;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::counting::Durations;
use crate::model::binding::Sighting;
use crate::model::license::License;
use crate::model::license_key::LicenseId;
use crate::model::site_host::SiteHost;

use crate::store::index::Index;
use checksum::Picture;
use group_commit::{Disk, Syncer};
use memory::{Decision, Held};
use telemetry::Reports;

pub use accepted::Accepted;
pub use bindings::Bound;
pub use maintenance::{Reader, has_bindings, read_only};

/// The answer to [`Bindings::bind`], once it is known.
pub type BindFuture<'a> = Pin<Box<dyn Future<Output = Result<Outcome, StoreError>> + Send + 'a>>;

/// The bindings of all licenses.
pub trait Bindings: Send + Sync {
    /// The durable bindings of a license. Costs a look-up in memory.
    fn of(&self, license: &LicenseId) -> Bound<'_>;

    /// Prefetches where the look-up of a license's bindings begins, for those who can make use of it.
    fn prefetch_start(&self, _license: &LicenseId) {}

    /// Prefetches what the look-up reads from there.
    fn prefetch(&self, _license: &LicenseId) {}

    /// Binds `host` where it is not bound yet and there is room ([`License::seat`]).
    ///
    /// [`Outcome::Bound`] means that the binding is durable. Dropping the future early does no harm: a binding under way
    /// is finished, and the next call finds it. Errors: [`StoreError::Busy`], [`StoreError::NotDurable`],
    /// [`StoreError::Closed`]; after each the host may try again.
    fn bind<'a>(&'a self, license: &'a License, host: &'a SiteHost, now: DateTime<Utc>) -> BindFuture<'a>;

    /// Takes over what a site reported whose license has these bindings: never blocks on a disk, never fails, written a few seconds later.
    ///
    /// What a license's site says again within ten minutes is nothing new. That is known only of the site that asked last,
    /// and not of hosts that are bound ahead in the registry alone: these are noted each time. At most 16,384 reports wait
    /// and some 250 a second are written; where more come in, reports of further sites are dropped, and counted in
    /// [`Figures::reports_dropped`].
    fn report(&self, license: &LicenseId, bound: &Bound<'_>, host: &SiteHost, sighting: &Sighting<'_>);

    /// Whether bindings become durable, and whether what can wait is written.
    fn health(&self) -> Health;

    /// What the store counts of itself. Looks at every binding, so it takes some milliseconds for a million.
    fn figures(&self) -> Figures {
        Figures::default()
    }

    /// Writes what waits and lets go of the files; whoever binds afterwards gets [`StoreError::Closed`]. Blocks.
    fn close(&self) -> Result<(), StoreError>;
}

/// How a binding ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The host is bound, and it is durable.
    Bound,
    /// Every site of the license is another one.
    Elsewhere {
        /// The host that was bound first.
        first: SiteHost,
    },
}

/// How the store is.
#[derive(Debug)]
pub struct Health {
    /// What failed, where something did; the store keeps trying, and binds all the same after
    /// [`StoreError::NotIndexed`].
    pub state: Result<(), StoreError>,
    /// Since when it is so.
    pub since: DateTime<Utc>,
}

/// What a store counts of itself; a store that counts nothing has none.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Durable bindings, void ones included.
    pub bindings: usize,
    /// How long it took to make bindings durable, each time for all who waited.
    pub syncs: Durations,
    /// Bindings that did not become durable.
    pub failures: u64,
    /// How often the index and reports could not be written.
    pub index_failures: u64,
    /// Reports of sites that were dropped.
    pub reports_dropped: u64,
}

/// Why the store did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has the store open.
    #[error("{}: in use by another process; is another `countersign serve` running?", .0.display())]
    InUse(PathBuf),
    /// The ledger belongs to somebody else, who could not read what this process makes.
    #[error("{}: belongs to another user, of uid {owner}", path.display())]
    NotOurs {
        /// The ledger.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
    },
    /// There is no store yet: no server has run on this instance.
    #[error("{}: there is no store", .0.display())]
    Missing(PathBuf),
    /// The store cannot be opened or read.
    #[error("{}: the store cannot be read", path.display())]
    Read {
        /// Its folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The store was written by another version of this program.
    #[error("{}: the store has format {found}, this version reads {}", path.display(), disk::FORMAT)]
    Format {
        /// Its folder.
        path: PathBuf,
        /// What stands in it.
        found: String,
    },
    /// The ledger is not what this program wrote, or not all of it.
    #[error("{}: the ledger is damaged: {what}", path.display())]
    Damaged {
        /// The ledger.
        path: PathBuf,
        /// Which line, and what is wrong with it.
        what: String,
    },
    /// More bindings are waiting than the disk can take; try again in a moment.
    #[error("too many bindings are waiting to be written")]
    Busy,
    /// What was to be written did not become durable, and is not in force.
    #[error("what was to be written did not become durable: {0}")]
    NotDurable(Arc<str>),
    /// Bindings become durable, but the index and reports do not; the next start makes up for the index.
    #[error("the index and reports of sites are not written: {0}")]
    NotIndexed(Arc<str>),
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

/// Opens the store in the folder `path`, or makes one there, and reads all bindings.
///
/// Waits a second for another process to let go of it, as at a restart.
pub fn open(path: &Path) -> Result<Arc<dyn Bindings>, StoreError> {
    let (disk, picture) = disk::StoreDisk::open(path)?;
    Ok(Arc::new(Store::new(disk, picture, group_commit::WRITE_BEHIND)))
}

struct Store {
    held: Arc<Held>,
    reports: Arc<Reports>,
    syncer: Syncer,
}

impl Store {
    fn new(disk: impl Disk, picture: Picture, write_behind: Duration) -> Self {
        let (held, reports) = (Arc::new(Held::new(picture)), Arc::new(Reports::default()));
        let syncer = Syncer::start(disk, held.clone(), reports.clone(), write_behind);
        Self { held, reports, syncer }
    }

    async fn bind(&self, license: &License, host: &SiteHost, now: DateTime<Utc>) -> Result<Outcome, StoreError> {
        loop {
            match self.held.decide(license, host, now, |job| self.syncer.enqueue(job))? {
                Decision::Answer(outcome) => return Ok(outcome),
                Decision::UnderWay(ticket) => return ticket.wait().await.map(|()| Outcome::Bound),
                // Only what is durable may turn somebody away: if the others fail, there is room after all.
                Decision::AfterOthers(ticket) => match ticket.wait().await {
                    Ok(()) | Err(StoreError::NotDurable(_)) => {}
                    Err(closed) => return Err(closed),
                },
            }
        }
    }
}

impl Bindings for Store {
    fn of(&self, license: &LicenseId) -> Bound<'_> {
        self.held.of(license)
    }

    fn prefetch_start(&self, license: &LicenseId) {
        self.held.prefetch_start(license);
    }

    fn prefetch(&self, license: &LicenseId) {
        self.held.prefetch(license);
    }

    fn bind<'a>(&'a self, license: &'a License, host: &'a SiteHost, now: DateTime<Utc>) -> BindFuture<'a> {
        Box::pin(self.bind(license, host, now))
    }

    fn report(&self, license: &LicenseId, bound: &Bound<'_>, host: &SiteHost, sighting: &Sighting<'_>) {
        if let Some(news) = bound.news(host, sighting)
            && self.reports.add(license, host, sighting)
        {
            news.was_noted();
        }
    }

    fn health(&self) -> Health {
        self.syncer.health()
    }

    fn figures(&self) -> Figures {
        let ledger = self.syncer.counts();
        Figures {
            bindings: self.held.count(),
            syncs: ledger.syncs.read(),
            failures: ledger.failures.load(Ordering::Relaxed),
            index_failures: ledger.index_failures.load(Ordering::Relaxed),
            reports_dropped: self.reports.dropped(),
        }
    }

    fn close(&self) -> Result<(), StoreError> {
        self.syncer.close()
    }
}
