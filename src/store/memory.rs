//! The durable bindings in memory, and the licenses of the ledger.
//!
//! Every request reads them: bindings of the start are read without a lock, changed ones are sharded. Only the thread of
//! `commit_writer` adds to them, after their lines are durable.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::model::binding::Binding;
use crate::model::license_key::LicenseId;
use crate::model::license_table::OfLicense;

use crate::store::bindings::{BindingsRef, BoundSites, LicenseBindings};
use crate::store::checksum::BindingsByLicense;
use crate::store::issued_licenses::{IssuedLicenses, IssuedTable};
use crate::store::log::LedgerEntry;

/// A license id is a digest, so its first byte spreads licenses evenly.
const SHARDS: usize = 64;

/// Everything that the ledger has, in memory.
pub(crate) struct BindingMemory {
    /// Those loaded at the start; some are superseded.
    settled: BindingsByLicense,
    shards: [RwLock<Shard>; SHARDS],
    /// The licenses that machines issued.
    pub(crate) issued: IssuedLicenses,
}

/// The bindings of licenses that changed since the start.
type Shard = HashMap<LicenseId, Arc<LicenseBindings>>;

impl BindingMemory {
    /// Starts with the bindings from disk.
    pub(crate) fn new(settled: BindingsByLicense) -> Self {
        Self {
            settled,
            shards: std::array::from_fn(|_| RwLock::default()),
            issued: IssuedLicenses::default(),
        }
    }

    /// Also has these licenses.
    pub(crate) fn with_issued(self, issued: IssuedTable) -> Self {
        let issued = IssuedLicenses::new(issued);
        Self { issued, ..self }
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

    /// Puts durable bindings in force.
    pub(crate) fn add(&self, entries: impl IntoIterator<Item = LedgerEntry>) {
        for LedgerEntry { license, binding } in entries {
            let mut shard = self.shards[shard_of(&license)]
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            self.add_to(&mut shard, license, binding);
        }
    }

    /// Replaces all bindings. Each license changes as a whole.
    pub(crate) fn replace(&self, by_license: &BindingsByLicense) {
        let mut changed: [Shard; SHARDS] = std::array::from_fn(|_| Shard::default());
        for bindings in by_license.iter() {
            let license = *bindings.license_id();
            changed[shard_of(&license)].insert(license, Arc::new(bindings.clone()));
        }
        for (shard, changed) in self.shards.iter().zip(changed) {
            *shard.write().unwrap_or_else(PoisonError::into_inner) = changed;
        }
        for bindings in self.settled.iter() {
            bindings.supersede();
        }
    }

    /// Adds a durable binding; a void one of the same host is removed.
    fn add_to(&self, shard: &mut Shard, license: LicenseId, binding: Binding) {
        if let Some(bindings) = shard.get_mut(&license) {
            // Copies only if somebody is reading this license's bindings.
            Arc::make_mut(bindings).add(binding);
            return;
        }
        let settled = self.settled(&license);
        let bindings = match settled {
            None => LicenseBindings::new(license, vec![binding]),
            Some(settled) => {
                let mut bindings = settled.clone();
                bindings.add(binding);
                bindings
            }
        };
        shard.insert(license, Arc::new(bindings));
        // A reader that sees the mark waits for the shard's lock, and finds the new bindings.
        if let Some(settled) = settled {
            settled.supersede();
        }
    }
}

fn shard_of(license: &LicenseId) -> usize {
    usize::from(license.as_bytes()[0]) % SHARDS
}
