//! Reports of sites that wait to be written: coalesced by site, bounded, emptied by the syncer one shard at a time.
//!
//! Nothing is decided from a report, so a full shard drops reports of further sites instead of making anybody wait.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::model::binding::Report;

use super::syncer::Key;

/// So that requests seldom meet at a lock; also how many writes it takes to write everything.
pub(super) const SHARDS: usize = 64;

/// Sites whose reports may wait in one shard; 65,536 in all.
const SHARD_CAPACITY: usize = 1_024;

/// Reports by site.
pub(super) type Batch = HashMap<Key, Report>;

/// All reports that wait.
pub(super) struct Reports {
    shards: [Mutex<Batch>; SHARDS],
    dropped: AtomicU64,
}

impl Default for Reports {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()), dropped: AtomicU64::new(0) }
    }
}

impl Reports {
    /// Takes over a report.
    pub(super) fn add(&self, key: Key, report: Report) {
        let mut waiting = self.lock(shard_of(&key));
        if let Some(earlier) = waiting.get_mut(&key) {
            earlier.merge(report);
        } else if waiting.len() < SHARD_CAPACITY {
            waiting.insert(key, report);
        } else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Empties a shard.
    pub(super) fn take(&self, shard: usize) -> Batch {
        std::mem::take(&mut *self.lock(shard))
    }

    /// Puts back what could not be written, under what came in since.
    pub(super) fn put_back(&self, batch: Batch) {
        for (key, mut earlier) in batch {
            let mut waiting = self.lock(shard_of(&key));
            if let Some(newer) = waiting.remove(&key) {
                earlier.merge(newer);
            }
            drop(waiting);
            self.add(key, earlier);
        }
    }

    /// How many reports were dropped since this was last asked.
    pub(super) fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }

    fn lock(&self, shard: usize) -> MutexGuard<'_, Batch> {
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A license id is a digest, so its first byte spreads licenses evenly.
fn shard_of(key: &Key) -> usize {
    usize::from(key.license.as_bytes()[0]) % SHARDS
}
