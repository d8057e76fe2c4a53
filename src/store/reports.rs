//! Reports of sites that wait to be written: coalesced by site, bounded, emptied by the syncer one shard at a time.
//!
//! Nothing is decided from a report, so a full shard drops reports of further sites instead of making anybody wait.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::model::binding::{Report, Sighting};
use crate::model::license_key::LicenseId;
use crate::model::site_host::SiteHost;

/// So that requests seldom meet at a lock; also how many writes it takes to write everything.
pub(super) const SHARDS: usize = 64;

/// Sites whose reports may wait in one shard; 16,384 in all, which take 12 MB.
const SHARD_CAPACITY: usize = 256;

/// Reports by license and site. A license has few sites, so they are looked through.
pub(super) type Batch = HashMap<LicenseId, Vec<(SiteHost, Report)>>;

/// All reports that wait.
pub(super) struct Reports {
    shards: [Mutex<Shard>; SHARDS],
    dropped: AtomicU64,
}

#[derive(Default)]
struct Shard {
    waiting: Batch,
    sites: usize,
}

impl Default for Reports {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()), dropped: AtomicU64::new(0) }
    }
}

impl Reports {
    /// Takes over what a site said; whether there was room for it.
    pub(super) fn add(&self, license: &LicenseId, host: &SiteHost, sighting: &Sighting<'_>) -> bool {
        self.change(license, host, |report| report.note(sighting))
    }

    /// Empties a shard.
    pub(super) fn take(&self, shard: usize) -> Batch {
        std::mem::take(&mut *self.lock(shard)).waiting
    }

    /// Puts back what could not be written, under what came in since.
    pub(super) fn put_back(&self, batch: Batch) {
        for (license, sites) in batch {
            for (host, mut earlier) in sites {
                self.change(&license, &host, |newer| {
                    earlier.merge(std::mem::take(newer));
                    *newer = earlier;
                });
            }
        }
    }

    /// Changes the report of a site; where none waits it is an empty one, if there is room. Whether there was.
    fn change(&self, license: &LicenseId, host: &SiteHost, change: impl FnOnce(&mut Report)) -> bool {
        let mut shard = self.lock(shard_of(license));
        let known = shard.waiting.get_mut(license).and_then(|sites| sites.iter_mut().find(|(site, _)| site == host));
        if let Some((_, report)) = known {
            change(report);
        } else if shard.sites < SHARD_CAPACITY {
            let mut report = Report::default();
            change(&mut report);
            shard.waiting.entry(*license).or_default().push((host.clone(), report));
            shard.sites += 1;
        } else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        true
    }

    /// How many reports were dropped.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// How many sites' reports wait.
    pub(super) fn waiting(&self) -> usize {
        (0..SHARDS).map(|shard| self.lock(shard).sites).sum()
    }

    fn lock(&self, shard: usize) -> MutexGuard<'_, Shard> {
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A license id is a digest, so its first byte spreads licenses evenly.
fn shard_of(license: &LicenseId) -> usize {
    usize::from(license.as_bytes()[0]) % SHARDS
}
