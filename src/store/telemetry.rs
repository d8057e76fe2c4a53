//! Reports of sites that wait to be written: merged by site, bounded, written by the group commit one shard at a time.
//!
//! No decision depends on a report, so a full shard drops reports of further sites instead of blocking.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::model::binding::{CheckIn, SiteReport};
use crate::model::license_key::LicenseId;
use crate::model::site_host::SiteHost;

/// Many, so that requests seldom share a lock. All reports take this many writes.
pub(crate) const SHARDS: usize = 64;

/// Sites whose reports may wait in one shard. 16,384 in all take 12 MB.
const SHARD_CAPACITY: usize = 256;

/// Reports by license and site. A license has few sites, so they are searched linearly.
pub(crate) type Batch = HashMap<LicenseId, Vec<(SiteHost, SiteReport)>>;

/// All waiting reports.
pub(crate) struct Reports {
    shards: [Shard; SHARDS],
    dropped: AtomicU64,
}

#[derive(Default)]
struct Shard {
    waiting: Mutex<Waiting>,
    /// A report was dropped: nothing more is taken until the waiting ones are written.
    is_full: AtomicBool,
}

#[derive(Default)]
struct Waiting {
    reports: Batch,
    sites: usize,
}

impl Default for Reports {
    fn default() -> Self {
        Self {
            shards: std::array::from_fn(|_| Shard::default()),
            dropped: AtomicU64::new(0),
        }
    }
}

impl Reports {
    /// Stores a report; whether there was space. If not, the caller does not wait for a lock.
    pub(crate) fn add(&self, license: &LicenseId, host: &SiteHost, check_in: &CheckIn<'_>) -> bool {
        let shard = &self.shards[shard_of(license)];
        let taken =
            !shard.is_full.load(Ordering::Relaxed) && shard.change(license, host, |report| report.note(check_in));
        if !taken {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    /// Empties a shard.
    pub(crate) fn take(&self, shard: usize) -> Batch {
        let shard = &self.shards[shard];
        let mut waiting = shard.lock();
        shard.is_full.store(false, Ordering::Relaxed);
        std::mem::take(&mut *waiting).reports
    }

    /// Puts back reports that could not be written; newer ones win.
    pub(crate) fn put_back(&self, batch: Batch) {
        for (license, sites) in batch {
            for (host, mut earlier) in sites {
                let put_back = self.shards[shard_of(&license)].change(&license, &host, |newer| {
                    earlier.merge(std::mem::take(newer));
                    *newer = earlier;
                });
                self.dropped.fetch_add(u64::from(!put_back), Ordering::Relaxed);
            }
        }
    }

    /// The number of dropped reports.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The number of sites with waiting reports.
    pub(crate) fn waiting(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().sites).sum()
    }
}

impl Shard {
    /// Changes a site's waiting report, or a new one if there is space. Whether there was.
    fn change(&self, license: &LicenseId, host: &SiteHost, change: impl FnOnce(&mut SiteReport)) -> bool {
        let mut waiting = self.lock();
        let known = waiting
            .reports
            .get_mut(license)
            .and_then(|sites| sites.iter_mut().find(|(site, _)| site == host));
        if let Some((_, report)) = known {
            change(report);
        } else if waiting.sites < SHARD_CAPACITY {
            let mut report = SiteReport::default();
            change(&mut report);
            waiting
                .reports
                .entry(*license)
                .or_default()
                .push((host.clone(), report));
            waiting.sites += 1;
        } else {
            self.is_full.store(true, Ordering::Relaxed);
            return false;
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A license id is a digest, so its first byte spreads licenses evenly. Neighbours share a shard, and in the index a
/// page.
fn shard_of(license: &LicenseId) -> usize {
    usize::from(license.as_bytes()[0]) * SHARDS / 256
}
