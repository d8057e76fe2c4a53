//! Everything that the ledger has, in memory: its bindings, licenses, and events of other kinds.
//!
//! Every request reads them: bindings of the start are read without a lock, changed ones are sharded. Only the thread of
//! `commit_writer` adds to them, after their lines are durable.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use chrono::{DateTime, Utc};

use countersign_model::binding::Stored;
use countersign_model::license_key::LicenseId;
use countersign_model::license_table::OfLicense;
use countersign_model::site_host::SiteHost;
use countersign_model::site_release::{self, SiteRelease};

use crate::bindings::{BindingsRef, BoundSites, LicenseBindings};
use crate::checksum::BindingsByLicense;
use crate::issued_licenses::IssuedLicenses;
use crate::ledger_tables::{EventTables, LedgerTables};
use crate::log::record::LedgerEvent;
use crate::log::{LedgerEntry, ReleaseEntry};

/// A license id is a digest, so its first byte spreads licenses evenly.
const SHARDS: usize = 64;

/// Everything that the ledger has, in memory.
pub(crate) struct BindingMemory {
    /// Those loaded at the start; some are superseded.
    settled: BindingsByLicense,
    shards: [RwLock<Shard>; SHARDS],
    /// The licenses that machines issued.
    pub(crate) issued: IssuedLicenses,
    events: RwLock<EventTables>,
}

/// The bindings of licenses that changed since the start.
type Shard = HashMap<LicenseId, Arc<LicenseBindings>>;

impl BindingMemory {
    /// Starts with what the ledger has.
    pub(crate) fn new(tables: LedgerTables) -> Self {
        Self {
            settled: tables.by_license,
            shards: std::array::from_fn(|_| RwLock::default()),
            issued: IssuedLicenses::new(tables.issued),
            events: RwLock::new(tables.events),
        }
    }

    /// The durable events of all other kinds.
    pub(crate) fn events(&self) -> RwLockReadGuard<'_, EventTables> {
        self.events.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The durable bindings of a license in the order of binding.
    pub(crate) fn of(&self, license: &LicenseId) -> BoundSites<'_> {
        if let Some(bindings) = self.settled(license) {
            return BoundSites(Some(BindingsRef::Settled(bindings)));
        }
        let shard = self.shards[shard_of(license)]
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        BoundSites(shard.get(license).cloned().map(BindingsRef::Changed))
    }

    /// The bindings of a license that has not changed since the start.
    fn settled(&self, license: &LicenseId) -> Option<&LicenseBindings> {
        self.settled.of(license).filter(|bindings| !bindings.is_superseded())
    }

    /// The number of durable bindings, void ones included. Looks at every license.
    pub(crate) fn count(&self) -> usize {
        let count = |shard: &RwLock<Shard>| {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            shard.values().map(|bindings| bindings.len()).sum::<usize>()
        };
        let settled = self.settled.iter().filter(|bindings| !bindings.is_superseded());
        settled.map(|bindings| bindings.len()).sum::<usize>() + self.shards.iter().map(count).sum::<usize>()
    }

    /// The licenses with a binding of this host, void ones included. Looks at every binding.
    pub(crate) fn licenses_of(&self, host: &SiteHost) -> Vec<LicenseId> {
        let mut found = Vec::new();
        self.each(|license, sites| {
            if sites.iter().any(|binding| binding.host == *host) {
                found.push(*license);
            }
        });
        found
    }

    /// The releases by clients that count as moves at `now`, of each license that has some.
    pub(crate) fn moves(&self, now: DateTime<Utc>) -> Vec<(LicenseId, Vec<SiteRelease>)> {
        let mut found = Vec::new();
        self.each(|license, sites| {
            let is_held = |host: &SiteHost| sites.find(host).is_some_and(|binding| !binding.is_released());
            let moves: Vec<_> = site_release::moves(sites.moves(), is_held, now).cloned().collect();
            if !moves.is_empty() {
                found.push((*license, moves));
            }
        });
        found
    }

    /// Passes on the bindings of every license, void ones included. Nobody waits for `each`: a shard is locked only while what
    /// it has is noted.
    pub(crate) fn each(&self, mut each: impl FnMut(&LicenseId, &BoundSites<'_>)) {
        for bindings in self.settled.iter().filter(|bindings| !bindings.is_superseded()) {
            each(bindings.license_id(), &BoundSites(Some(BindingsRef::Settled(bindings))));
        }
        for shard in &self.shards {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            let changed: Vec<_> = shard.iter().map(|(id, sites)| (*id, Arc::clone(sites))).collect();
            drop(shard);
            for (license, bindings) in changed {
                each(&license, &BoundSites(Some(BindingsRef::Changed(bindings))));
            }
        }
    }

    /// Puts durable events in force.
    pub(crate) fn add(&self, events: impl IntoIterator<Item = LedgerEvent>) {
        let mut licenses = Vec::new();
        let mut others = Vec::new();
        for event in events {
            let license = match &event {
                LedgerEvent::Bound(entry) => entry.license,
                LedgerEvent::Released(entry) => entry.license,
                LedgerEvent::License(license) => {
                    licenses.push(Arc::clone(license));
                    continue;
                }
                _ => {
                    others.push(event);
                    continue;
                }
            };
            let mut shard = self.shards[shard_of(&license)]
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            self.apply_to(&mut shard, license, event);
        }
        // Who sees a license sees all facts of its sale that its line follows.
        if !others.is_empty() {
            let mut tables = self.events.write().unwrap_or_else(PoisonError::into_inner);
            others.iter().for_each(|event| tables.take(event));
        }
        self.issued.add(licenses);
    }

    /// Replaces everything. The bindings of each license change as a whole.
    pub(crate) fn replace(&self, tables: LedgerTables) {
        *self.events.write().unwrap_or_else(PoisonError::into_inner) = tables.events;
        let mut changed: [Shard; SHARDS] = std::array::from_fn(|_| Shard::default());
        for bindings in tables.by_license.iter() {
            let license = *bindings.license_id();
            changed[shard_of(&license)].insert(license, Arc::new(bindings.clone()));
        }
        for (shard, changed) in self.shards.iter().zip(changed) {
            *shard.write().unwrap_or_else(PoisonError::into_inner) = changed;
        }
        for bindings in self.settled.iter() {
            bindings.supersede();
        }
        self.issued.replace(tables.issued);
    }

    /// Adds a durable binding, or ends one.
    fn apply_to(&self, shard: &mut Shard, license: LicenseId, change: LedgerEvent) {
        if let Some(bindings) = shard.get_mut(&license) {
            // Copies only if somebody is reading this license's bindings.
            apply(Arc::make_mut(bindings), change);
            return;
        }
        let settled = self.settled(&license);
        let Some(bindings) = changed(settled.cloned(), change) else {
            return;
        };
        shard.insert(license, Arc::new(bindings));
        // A reader that sees the mark waits for the shard's lock, and finds the new bindings.
        if let Some(settled) = settled {
            settled.supersede();
        }
    }
}

/// The bindings of a license after this change; `None` if it has none, and nothing is bound.
pub(crate) fn changed(bindings: Option<LicenseBindings>, change: LedgerEvent) -> Option<LicenseBindings> {
    match (bindings, change) {
        (Some(mut bindings), change) => {
            apply(&mut bindings, change);
            Some(bindings)
        }
        (None, LedgerEvent::Bound(LedgerEntry { license, binding })) => {
            Some(LicenseBindings::new(license, vec![binding], Vec::new()))
        }
        // A compaction dropped the binding of the old host, which was bound again later.
        (
            None,
            LedgerEvent::Released(ReleaseEntry {
                license,
                release,
                successor: Some(binding),
            }),
        ) => Some(LicenseBindings::new(license, vec![binding], vec![release])),
        (None, _) => None,
    }
}

/// Applies a change to the bindings of its license. A void binding of the same host is replaced.
pub(crate) fn apply(bindings: &mut LicenseBindings, change: LedgerEvent) {
    match change {
        LedgerEvent::Bound(LedgerEntry { binding, .. }) => bindings.add(binding),
        LedgerEvent::Released(ReleaseEntry { release, successor, .. }) => {
            bindings.release(release);
            if let Some(binding) = successor {
                bindings.add(binding);
            }
        }
        _ => {}
    }
}

fn shard_of(license: &LicenseId) -> usize {
    usize::from(license.as_bytes()[0]) % SHARDS
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use countersign_model::binding::Binding;

    fn bound(number: u8, host: &str) -> LedgerEvent {
        LedgerEvent::Bound(LedgerEntry {
            license: LicenseId::from_bytes([number; 32]),
            binding: Binding::new(host.parse().unwrap(), DateTime::UNIX_EPOCH),
        })
    }

    #[test]
    fn whoever_looks_at_every_binding_keeps_nobody_from_adding_one() {
        let memory = Arc::new(BindingMemory::new(LedgerTables::default()));
        memory.add([bound(1, "a.com"), bound(2, "b.com")]);
        let mut seen = 0;
        memory.each(|license, _| {
            seen += 1;
            let adding = Arc::clone(&memory);
            let added = bound(license.as_bytes()[0], "c.com");
            let (done, is_added) = mpsc::channel();
            thread::spawn(move || {
                adding.add([added]);
                done.send(())
            });
            assert!(is_added.recv_timeout(Duration::from_secs(60)).is_ok());
        });
        assert_eq!((seen, memory.count()), (2, 4));
        let mut found = memory.licenses_of(&"c.com".parse().unwrap());
        found.sort_unstable();
        assert_eq!(found, [1, 2].map(|number| LicenseId::from_bytes([number; 32])));
    }
}
