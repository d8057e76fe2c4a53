//! The picture in memory: all durable bindings, and those under way to the disk.
//!
//! Asked on every request, so it is sharded, and an answer is a clone of an `Arc`. Seats are given here, under one lock
//! for a license, and count what is under way; the syncer then says here what became durable and what did not.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock};

use chrono::{DateTime, Utc};
use tokio::sync::watch;

use crate::model::binding::{Binding, Sighting};
use crate::model::license::{License, Seat};
use crate::model::license_key::LicenseId;
use crate::model::site_host::SiteHost;

use super::ledger::Entry;
use super::picture::{Bindings, Bound, Picture};
use super::syncer::Job;
use super::{Outcome, StoreError};

/// A license id is a digest, so its first byte spreads licenses evenly.
const SHARDS: usize = 64;

/// How long a site says nothing new by saying the same, in seconds: it asks twice a day.
const SAID_FOR: i64 = 600;

/// All bindings in memory.
pub(super) struct Held {
    shards: [RwLock<Shard>; SHARDS],
}

#[derive(Default)]
struct Shard {
    durable: Picture,
    pending: HashMap<LicenseId, Vec<Pending>>,
}

struct Pending {
    binding: Binding,
    ticket: Ticket,
}

/// What a site says that its license's sites did not say last.
pub(super) struct News {
    bindings: Option<Bindings>,
    said: u64,
}

impl News {
    /// It was noted: saying it again is no news.
    pub(super) fn was_noted(self) {
        if let Some(bindings) = self.bindings {
            bindings.said().store(self.said, Ordering::Relaxed);
        }
    }
}

/// What somebody who wants to bind has to do.
pub(super) enum Decision {
    /// Nothing: this is the answer.
    Answer(Outcome),
    /// Wait until the host's own binding is durable or failed.
    UnderWay(Ticket),
    /// Wait until others' bindings, which take every seat, are durable or failed, and ask again.
    AfterOthers(Ticket),
}

/// Tells any number of waiters how a binding ended.
#[derive(Clone)]
pub(super) struct Ticket(watch::Receiver<Option<Result<(), Arc<str>>>>);

/// The syncer's end of a [`Ticket`].
pub(super) type Resolve = watch::Sender<Option<Result<(), Arc<str>>>>;

impl Ticket {
    pub(super) async fn wait(mut self) -> Result<(), StoreError> {
        match self.0.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(Err(reason))) => Err(StoreError::NotDurable(reason.clone())),
            Ok(_) => Ok(()),
            Err(_) => Err(StoreError::Closed),
        }
    }
}

impl Held {
    /// Takes over what was read from disk.
    pub(super) fn new(picture: Picture) -> Self {
        let mut shards: [Shard; SHARDS] = std::array::from_fn(|_| Shard::default());
        for bindings in picture.into_iter() {
            shards[shard_of(bindings.license())].durable.put(bindings);
        }
        Self { shards: shards.map(RwLock::new) }
    }

    /// The durable bindings of a license in the order of binding.
    pub(super) fn of(&self, license: &LicenseId) -> Bound {
        let shard = self.shards[shard_of(license)].read().unwrap_or_else(PoisonError::into_inner);
        Bound(shard.durable.get(license).cloned())
    }

    /// What a site says, unless the license's sites said just that last, and less than ten minutes ago. Two sites in turn
    /// always tell news, and so does one that nothing is stored of, as it is bound ahead in the registry.
    pub(super) fn news(&self, license: &LicenseId, host: &SiteHost, sighting: &Sighting<'_>) -> Option<News> {
        let Sighting { time, build_id, plugin_version, current_version } = sighting;
        let mut said = DefaultHasher::new();
        (host, time.timestamp().div_euclid(SAID_FOR), build_id, plugin_version, current_version).hash(&mut said);
        let shard = self.shards[shard_of(license)].read().unwrap_or_else(PoisonError::into_inner);
        let (said, bindings) = (said.finish(), shard.durable.get(license));
        let is_news = bindings.is_none_or(|bindings| bindings.said().load(Ordering::Relaxed) != said);
        is_news.then(|| News { bindings: bindings.cloned(), said })
    }

    /// How many bindings are durable, void ones included. Looks at every license.
    pub(super) fn count(&self) -> usize {
        let count = |shard: &RwLock<Shard>| {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            shard.durable.iter().map(|bindings| bindings.len()).sum::<usize>()
        };
        self.shards.iter().map(count).sum()
    }

    /// Finds `host` a seat. Where there is a free one, it is taken and its binding given to `enqueue`, which must not
    /// block; where `enqueue` refuses, the seat stays free.
    pub(super) fn decide(
        &self,
        license: &License,
        host: &SiteHost,
        now: DateTime<Utc>,
        enqueue: impl FnOnce(Job) -> Result<(), StoreError>,
    ) -> Result<Decision, StoreError> {
        if let Some(outcome) = settled(license, &self.of(&license.id), host) {
            return Ok(Decision::Answer(outcome));
        }
        // From here to the reservation under one lock: two hosts must not find the same seat free.
        let mut shard = self.shards[shard_of(&license.id)].write().unwrap_or_else(PoisonError::into_inner);
        let Shard { durable, pending } = &mut *shard;
        let durable = Bound(durable.get(&license.id).cloned());
        if let Some(outcome) = settled(license, &durable, host) {
            return Ok(Decision::Answer(outcome));
        }
        if let Some(under_way) = pending.get(&license.id) {
            if let Some(own) = under_way.iter().find(|pending| pending.binding.host == *host) {
                return Ok(Decision::UnderWay(own.ticket.clone()));
            }
            if let (false, Some(last)) = (license.has_room(&durable, under_way.len()), under_way.last()) {
                return Ok(Decision::AfterOthers(last.ticket.clone()));
            }
        }
        // Every release the license knows came before this binding, whatever the clocks say.
        let bound_at = license.particulars.released.time_of(host).map_or(now, |released_at| released_at.max(now));
        let binding = Binding { host: host.clone(), bound_at };
        let (resolve, ticket) = watch::channel(None);
        let ticket = Ticket(ticket);
        enqueue(Job { entry: Entry { license: license.id, binding: binding.clone() }, resolve })?;
        pending.entry(license.id).or_default().push(Pending { binding, ticket: ticket.clone() });
        Ok(Decision::UnderWay(ticket))
    }

    /// A binding ended: it is in force if it became durable, else its seat is free again. Then wakes who waits for it.
    pub(super) fn settle(&self, job: Job, result: Result<(), Arc<str>>) {
        let Job { entry: Entry { license, binding }, resolve } = job;
        let mut shard = self.shards[shard_of(&license)].write().unwrap_or_else(PoisonError::into_inner);
        if let Some(under_way) = shard.pending.get_mut(&license) {
            under_way.retain(|pending| pending.binding.host != binding.host);
            if under_way.is_empty() {
                shard.pending.remove(&license);
            }
        }
        if result.is_ok() {
            shard.durable.add(license, binding);
        }
        drop(shard);
        resolve.send_replace(Some(result));
    }
}

/// The answer, where the durable bindings alone decide it.
fn settled(license: &License, durable: &Bound, host: &SiteHost) -> Option<Outcome> {
    match license.seat(durable, host) {
        Seat::Held => Some(Outcome::Bound),
        Seat::Taken { first } => Some(Outcome::Elsewhere { first: first.clone() }),
        Seat::Free => None,
    }
}

fn shard_of(license: &LicenseId) -> usize {
    usize::from(license.as_bytes()[0]) % SHARDS
}
