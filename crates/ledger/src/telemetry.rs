//! Reports of sites, refused hosts and first copies that wait to be written: merged, bounded, written by the group commit one
//! shard at a time.
//!
//! No decision depends on them, so a full shard drops what comes next instead of blocking.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde::de::DeserializeOwned;

use countersign_model::binding::{CheckIn, SiteReport};
use countersign_model::first_copies::FirstCopies;
use countersign_model::license_key::LicenseId;
use countersign_model::refused_hosts::RefusedHosts;
use countersign_model::site_host::SiteHost;

/// Many, so that requests seldom share a lock. All reports take this many writes.
pub(crate) const SHARDS: usize = 64;

/// Sites whose reports may wait in one shard. 16,384 in all take 12 MB.
const SHARD_CAPACITY: usize = 256;

/// Licenses whose refused hosts may wait in one shard. 1,024 in all take 2 MB, or 9 MB with the longest names.
const REFUSED_CAPACITY: usize = 16;

/// Licenses whose first copies may wait in one shard. 4,096 in all take 1 MB.
const FIRST_COPIES_CAPACITY: usize = 64;

/// What is written at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    /// Reports by license and site. A license has few sites, so they are searched linearly.
    pub sites: HashMap<LicenseId, Vec<(SiteHost, SiteReport)>>,
    /// Hosts that licenses were refused to.
    pub refused: RefusedByLicense,
    /// First copies that licenses gave.
    pub first_copies: FirstCopiesByLicense,
}

/// Hosts that licenses were refused to.
pub type RefusedByLicense = HashMap<LicenseId, RefusedHosts>;

/// First copies that licenses gave.
pub type FirstCopiesByLicense = HashMap<LicenseId, FirstCopies>;

/// What is kept of a license beside the reports of its sites.
pub(crate) trait LicenseTelemetry: Clone + Serialize + DeserializeOwned {
    /// The most licenses that are kept.
    const MOST_LICENSES: usize;

    /// Adds what happened after this.
    fn merge(&mut self, newer: Self);

    /// When something happened last. The licenses of which nothing happened for the longest time leave.
    fn last(&self) -> DateTime<Utc>;
}

impl LicenseTelemetry for RefusedHosts {
    /// With 32 hosts each, they take 4 MB, or 36 MB with the longest names.
    const MOST_LICENSES: usize = 4_096;

    fn merge(&mut self, newer: Self) {
        self.merge(newer);
    }

    fn last(&self) -> DateTime<Utc> {
        self.last
    }
}

impl LicenseTelemetry for FirstCopies {
    /// With copies on one day each, they take 10 MB.
    const MOST_LICENSES: usize = 65_536;

    fn merge(&mut self, newer: Self) {
        self.merge(newer);
    }

    fn last(&self) -> DateTime<Utc> {
        self.last
    }
}

/// All that waits.
pub(crate) struct Reports {
    shards: [TelemetryShard; SHARDS],
    dropped: AtomicU64,
}

#[derive(Default)]
struct TelemetryShard {
    waiting: Mutex<Waiting>,
    /// A report was dropped: nothing more is taken until the waiting ones are written.
    is_full: AtomicBool,
}

#[derive(Default)]
struct Waiting {
    batch: Batch,
    /// The number of sites in the batch.
    sites: usize,
}

impl Batch {
    /// The number of records.
    pub(crate) fn len(&self) -> usize {
        self.sites.values().map(Vec::len).sum::<usize>() + self.refused.len() + self.first_copies.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sites.is_empty() && self.refused.is_empty() && self.first_copies.is_empty()
    }
}

impl Default for Reports {
    fn default() -> Self {
        Self {
            shards: std::array::from_fn(|_| TelemetryShard::default()),
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

    /// Stores that a license was refused to a host, unless too many licenses wait.
    pub(crate) fn refuse(&self, license: &LicenseId, host: &SiteHost, time: DateTime<Utc>) {
        let refused = RefusedHosts::new(host.clone(), time);
        let mut waiting = self.shards[shard_of(license)].lock();
        self.note_taken(add(&mut waiting.batch.refused, license, refused, REFUSED_CAPACITY));
    }

    /// Stores that a license gave or refused first copies, unless too many licenses wait.
    pub(crate) fn add_first_copies(&self, license: &LicenseId, copies: FirstCopies) {
        let mut waiting = self.shards[shard_of(license)].lock();
        let known = &mut waiting.batch.first_copies;
        self.note_taken(add(known, license, copies, FIRST_COPIES_CAPACITY));
    }

    fn note_taken(&self, is_taken: bool) {
        self.dropped.fetch_add(u64::from(!is_taken), Ordering::Relaxed);
    }

    /// Empties a shard.
    pub(crate) fn take(&self, shard: usize) -> Batch {
        let shard = &self.shards[shard];
        let mut waiting = shard.lock();
        shard.is_full.store(false, Ordering::Relaxed);
        std::mem::take(&mut *waiting).batch
    }

    /// Puts back what could not be written; newer reports win.
    pub(crate) fn put_back(&self, batch: Batch) {
        for (license, earlier) in batch.refused {
            let mut waiting = self.shards[shard_of(&license)].lock();
            self.note_taken(put_back(&mut waiting.batch.refused, license, earlier, REFUSED_CAPACITY));
        }
        for (license, earlier) in batch.first_copies {
            let mut waiting = self.shards[shard_of(&license)].lock();
            let known = &mut waiting.batch.first_copies;
            self.note_taken(put_back(known, license, earlier, FIRST_COPIES_CAPACITY));
        }
        for (license, sites) in batch.sites {
            for (host, mut earlier) in sites {
                let put_back = self.shards[shard_of(&license)].change(&license, &host, |newer| {
                    earlier.merge(std::mem::take(newer));
                    *newer = earlier;
                });
                self.note_taken(put_back);
            }
        }
    }

    /// The number of dropped reports, refusals and first copies.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The number of sites with waiting reports, and of licenses with refused hosts or first copies.
    pub(crate) fn waiting(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().batch.len()).sum()
    }
}

impl TelemetryShard {
    /// Changes a site's waiting report, or a new one if there is space. Whether there was.
    fn change(&self, license: &LicenseId, host: &SiteHost, change: impl FnOnce(&mut SiteReport)) -> bool {
        let mut waiting = self.lock();
        let known = waiting
            .batch
            .sites
            .get_mut(license)
            .and_then(|sites| sites.iter_mut().find(|(site, _)| site == host));
        if let Some((_, report)) = known {
            change(report);
        } else if waiting.sites < SHARD_CAPACITY {
            let mut report = SiteReport::default();
            change(&mut report);
            waiting
                .batch
                .sites
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

/// Adds what happened with a license to what waits of it, if there is space. Whether there was.
fn add<T: LicenseTelemetry>(
    waiting: &mut HashMap<LicenseId, T>,
    license: &LicenseId,
    newer: T,
    capacity: usize,
) -> bool {
    if let Some(known) = waiting.get_mut(license) {
        known.merge(newer);
        return true;
    }
    let has_space = waiting.len() < capacity;
    if has_space {
        waiting.insert(*license, newer);
    }
    has_space
}

/// Puts what was taken of a license in front of what waits of it. Whether there was space.
fn put_back<T: LicenseTelemetry>(
    waiting: &mut HashMap<LicenseId, T>,
    license: LicenseId,
    mut earlier: T,
    capacity: usize,
) -> bool {
    match waiting.remove(&license) {
        Some(newer) => earlier.merge(newer),
        None if waiting.len() >= capacity => return false,
        None => {}
    }
    waiting.insert(license, earlier);
    true
}

/// A license id is a digest, so its first byte spreads licenses evenly. Neighbours share a shard, and in the index a
/// page.
fn shard_of(license: &LicenseId) -> usize {
    usize::from(license.as_bytes()[0]) * SHARDS / 256
}
