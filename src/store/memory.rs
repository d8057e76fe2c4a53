//! Bindings in memory: the durable ones, and those under way to the disk.
//!
//! Asked on every request: what was bound at the start stays where it is and is read without a lock, what changed since is
//! sharded. Seats are given here, under one lock for a license, and count what is under way; the group commit then says here what
//! became durable and what did not.

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
    /// Those of the start; some are superseded.
    settled: BindingsByLicense,
    shards: [RwLock<Shard>; SHARDS],
}

#[derive(Default)]
struct Shard {
    /// The bindings of licenses of which one changed.
    changed: HashMap<LicenseId, Arc<LicenseBindings>>,
    pending: HashMap<LicenseId, Vec<Pending>>,
}

struct Pending {
    binding: Binding,
    ticket: Ticket,
}

/// What somebody who wants to bind has to do.
pub(crate) enum BindDecision {
    /// Nothing: this is the answer.
    Answer(BindOutcome),
    /// Wait until the host's own binding is durable or failed.
    UnderWay(Ticket),
    /// Wait until others' bindings, which take every seat, are durable or failed, and ask again.
    AfterOthers(Ticket),
}

impl BindingMemory {
    /// Takes over what was read from disk.
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

    /// The bindings of a license that did not change since the start.
    fn settled(&self, license: &LicenseId) -> Option<&LicenseBindings> {
        self.settled.of(license).filter(|bindings| !bindings.is_superseded())
    }

    /// The same as [`Self::of`], where the license's shard is locked.
    fn in_shard(&self, shard: &Shard, license: &LicenseId) -> BoundSites<'_> {
        let changed = || shard.changed.get(license).cloned().map(BindingsRef::Changed);
        BoundSites(self.settled(license).map(BindingsRef::Settled).or_else(changed))
    }

    /// How many bindings are durable, void ones included. Looks at every license.
    pub(crate) fn count(&self) -> usize {
        let count = |shard: &RwLock<Shard>| {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            shard.changed.values().map(|bindings| bindings.len()).sum::<usize>()
        };
        let settled = self.settled.iter().filter(|bindings| !bindings.is_superseded());
        settled.map(|bindings| bindings.len()).sum::<usize>() + self.shards.iter().map(count).sum::<usize>()
    }

    /// Finds `host` a seat. Where there is a free one, it is taken and its binding given to `enqueue`, which must not
    /// block; where `enqueue` refuses, the seat stays free.
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
        // From here to the reservation under one lock: two hosts must not find the same seat free.
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
        // Every release the license knows came before this binding, whatever the clocks say.
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

    /// A binding ended: it is in force if it became durable, else its seat is free again. Then wakes who waits for it.
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

    /// Adds a durable binding; a void one of the same host makes way.
    fn add(&self, shard: &mut Shard, license: LicenseId, binding: Binding) {
        if let Some(bindings) = shard.changed.get_mut(&license) {
            // Copies only where somebody is reading this license's bindings just now.
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
        // Whoever sees it waits for the shard's lock, and finds the others.
        if let Some(settled) = settled {
            settled.supersede();
        }
    }
}

/// The answer, where the durable bindings alone decide it.
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
