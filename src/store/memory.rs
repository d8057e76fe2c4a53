//! Bindings in memory: committed ones, and those queued for the next group commit.
//!
//! Every request reads them: bindings of the start are read without a lock, changed ones are sharded. Seats are given
//! out here, under one lock for each license, and queued bindings count. The group commit reports which bindings
//! became durable.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use chrono::{DateTime, Utc};

use crate::model::binding::Binding;
use crate::model::license::{License, Seat};
use crate::model::license_key::LicenseId;
use crate::model::site_host::SiteHost;

use crate::store::bindings::{BindingsRef, BoundSites, LicenseBindings};
use crate::store::checksum::BindingsByLicense;
use crate::store::error::StoreError;
use crate::store::log::LedgerEntry;
use crate::store::pending::{BindOutcome, PendingWrite, Ticket};

/// A license id is a digest, so its first byte spreads licenses evenly.
const SHARDS: usize = 64;

/// All bindings in memory.
pub(crate) struct BindingMemory {
    /// Those loaded at the start; some are superseded.
    settled: BindingsByLicense,
    shards: [RwLock<Shard>; SHARDS],
}

#[derive(Default)]
struct Shard {
    /// The bindings of licenses that changed since the start.
    changed: HashMap<LicenseId, Arc<LicenseBindings>>,
    pending: HashMap<LicenseId, Vec<Pending>>,
}

struct Pending {
    binding: Binding,
    ticket: Ticket,
}

/// What a request to bind must do next.
pub(crate) enum BindDecision {
    /// Nothing: this is the answer.
    Answer(BindOutcome),
    /// Wait until the host's own queued binding is durable or has failed.
    UnderWay(Ticket),
    /// Wait until other hosts' queued bindings, which take every seat, are durable or have failed, then ask again.
    AfterOthers(Ticket),
}

impl BindingMemory {
    /// Starts with the bindings from disk.
    pub(crate) fn new(settled: BindingsByLicense) -> Self {
        Self {
            settled,
            shards: std::array::from_fn(|_| RwLock::default()),
        }
    }

    /// The durable bindings of a license in the order of binding.
    pub(crate) fn of(&self, license: &LicenseId) -> BoundSites<'_> {
        if let Some(bindings) = self.settled(license) {
            return BoundSites(Some(BindingsRef::Settled(bindings)));
        }
        let shard = self.shards[shard_of(license)]
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        BoundSites(shard.changed.get(license).cloned().map(BindingsRef::Changed))
    }

    /// The bindings of a license that has not changed since the start.
    fn settled(&self, license: &LicenseId) -> Option<&LicenseBindings> {
        self.settled.of(license).filter(|bindings| !bindings.is_superseded())
    }

    /// The same as [`Self::of`], for a caller that has locked the license's shard.
    fn in_shard(&self, shard: &Shard, license: &LicenseId) -> BoundSites<'_> {
        let changed = || shard.changed.get(license).cloned().map(BindingsRef::Changed);
        BoundSites(self.settled(license).map(BindingsRef::Settled).or_else(changed))
    }

    /// The number of durable bindings, void ones included. Looks at every license.
    pub(crate) fn count(&self) -> usize {
        let count = |shard: &RwLock<Shard>| {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            shard.changed.values().map(|bindings| bindings.len()).sum::<usize>()
        };
        let settled = self.settled.iter().filter(|bindings| !bindings.is_superseded());
        settled.map(|bindings| bindings.len()).sum::<usize>() + self.shards.iter().map(count).sum::<usize>()
    }

    /// Finds a seat for `host`. If one is free, it is reserved and its binding given to `enqueue`, which must not
    /// block. If `enqueue` refuses, the seat stays free.
    pub(crate) fn decide(
        &self,
        license: &License,
        host: &SiteHost,
        now: DateTime<Utc>,
        enqueue: impl FnOnce(PendingWrite) -> Result<(), StoreError>,
    ) -> Result<BindDecision, StoreError> {
        if let Some(outcome) = settled(license, &self.of(&license.id), host) {
            return Ok(BindDecision::Answer(outcome));
        }
        // From here to the reservation under one lock: two hosts must not get the same seat.
        let mut shard = self.shards[shard_of(&license.id)]
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let durable = self.in_shard(&shard, &license.id);
        if let Some(outcome) = settled(license, &durable, host) {
            return Ok(BindDecision::Answer(outcome));
        }
        if let Some(under_way) = shard.pending.get(&license.id) {
            if let Some(own) = under_way.iter().find(|pending| pending.binding.host == *host) {
                return Ok(BindDecision::UnderWay(own.ticket.clone()));
            }
            if let (false, Some(last)) = (license.has_room(&durable, under_way.len()), under_way.last()) {
                return Ok(BindDecision::AfterOthers(last.ticket.clone()));
            }
        }
        // Every known release of the license is older than this binding, whatever the clocks say.
        let bound_at = license
            .details
            .released
            .time_of(host)
            .map_or(now, |released_at| released_at.max(now));
        let binding = Binding {
            host: host.clone(),
            bound_at,
        };
        let (job, ticket) = PendingWrite::new(LedgerEntry {
            license: license.id,
            binding: binding.clone(),
        });
        enqueue(job)?;
        shard.pending.entry(license.id).or_default().push(Pending {
            binding,
            ticket: ticket.clone(),
        });
        Ok(BindDecision::UnderWay(ticket))
    }

    /// Completes a binding: it is in force if it became durable, else its seat is free again. Then wakes the waiters.
    pub(crate) fn complete(&self, job: PendingWrite, result: Result<(), Arc<str>>) {
        let PendingWrite {
            entry: LedgerEntry { license, binding },
            resolve,
        } = job;
        let mut shard = self.shards[shard_of(&license)]
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(under_way) = shard.pending.get_mut(&license) {
            under_way.retain(|pending| pending.binding.host != binding.host);
            if under_way.is_empty() {
                shard.pending.remove(&license);
            }
        }
        if result.is_ok() {
            self.add(&mut shard, license, binding);
        }
        drop(shard);
        resolve.send_replace(Some(result));
    }

    /// Adds a durable binding; a void one of the same host is removed.
    fn add(&self, shard: &mut Shard, license: LicenseId, binding: Binding) {
        if let Some(bindings) = shard.changed.get_mut(&license) {
            // Copies only if somebody is reading this license's bindings.
            Arc::make_mut(bindings).add(binding);
            return;
        }
        let settled = self.settled.of(&license);
        let bindings = match settled {
            None => LicenseBindings::new(license, vec![binding]),
            Some(settled) => {
                let mut bindings = settled.clone();
                bindings.add(binding);
                bindings
            }
        };
        shard.changed.insert(license, Arc::new(bindings));
        // A reader that sees the mark waits for the shard's lock, and finds the new bindings.
        if let Some(settled) = settled {
            settled.supersede();
        }
    }
}

/// The answer, if the durable bindings alone decide it.
fn settled(license: &License, durable: &BoundSites<'_>, host: &SiteHost) -> Option<BindOutcome> {
    match license.seat(durable, host) {
        Seat::Held => Some(BindOutcome::Bound),
        Seat::Taken { first } => Some(BindOutcome::Elsewhere { first: first.clone() }),
        Seat::Free => None,
    }
}

fn shard_of(license: &LicenseId) -> usize {
    usize::from(license.as_bytes()[0]) % SHARDS
}
