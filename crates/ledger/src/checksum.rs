//! All bindings of a ledger, collected while it is read, and a checksum to compare the index with.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use chrono::{DateTime, Utc};

use countersign_model::binding::Binding;
use countersign_model::license_key::LicenseId;
use countersign_model::license_table::{LicenseTable, OfLicense};
use countersign_model::site_release::SiteRelease;

use crate::bindings::LicenseBindings;
use crate::log::record::LedgerEvent;
use crate::log::{LedgerEntry, ReleaseEntry};

/// Bindings by license.
pub(crate) type BindingsByLicense = LicenseTable<LicenseBindings>;

/// Collects bindings by license.
#[derive(Default)]
pub(crate) struct BindingsBuilder {
    /// In ledger order.
    entries: Vec<LedgerEntry>,
    /// The releases of each license that has some, in the order of the ledger, with the number of entries before each.
    releases: HashMap<LicenseId, Vec<(usize, SiteRelease)>>,
}

impl BindingsBuilder {
    pub(crate) fn add(&mut self, entry: LedgerEntry) {
        self.entries.push(entry);
    }

    pub(crate) fn release(&mut self, entry: ReleaseEntry) {
        let place = self.entries.len();
        let releases = self.releases.entry(entry.license).or_default();
        releases.push((place, entry.release));
        let license = entry.license;
        self.entries
            .extend(entry.successor.map(|binding| LedgerEntry { license, binding }));
    }

    /// Takes the event of a line, if it changes a binding.
    pub(crate) fn take(&mut self, change: LedgerEvent) {
        match change {
            LedgerEvent::Bound(entry) => self.add(entry),
            LedgerEvent::Released(entry) => self.release(entry),
            _ => {}
        }
    }

    /// Drops superseded bindings.
    pub(crate) fn finish(mut self) -> BindingsByLicense {
        self.apply_releases();
        // Stable: within a license they stay in the order of binding.
        self.entries.sort_by_cached_key(|entry| entry.license);
        let licenses = self.entries.chunk_by(|a, b| a.license == b.license).count();
        let mut held = Vec::with_capacity(licenses);
        let mut entries = self.entries.into_iter().peekable();
        while let Some(LedgerEntry { license, binding }) = entries.next() {
            let mut bindings = vec![binding];
            while let Some(entry) = entries.next_if(|entry| entry.license == license) {
                bindings.push(entry.binding);
            }
            let releases = self.releases.remove(&license).unwrap_or_default();
            let moves = releases.into_iter().map(|(_, release)| release).collect();
            held.push(LicenseBindings::new(license, in_force(bindings), moves));
        }
        LicenseTable::new(held)
    }

    /// Marks each binding that has a later release of its host. Those that were bound again are dropped anyway.
    fn apply_releases(&mut self) {
        if self.releases.is_empty() {
            return;
        }
        for (place, entry) in self.entries.iter_mut().enumerate() {
            let releases = self.releases.get(&entry.license).into_iter().flatten();
            let mut later = releases.filter(|(at, release)| *at > place && release.host == entry.binding.host);
            if let Some((_, release)) = later.next() {
                entry.binding.end(release);
            }
        }
    }
}

/// A site that was bound again counts where it was bound last.
fn in_force(mut bindings: Vec<Binding>) -> Vec<Binding> {
    if bindings.len() == 1 {
        return bindings;
    }
    let mut hosts = HashSet::new();
    bindings.reverse();
    bindings.retain(|binding| hosts.insert(binding.host.clone()));
    bindings.reverse();
    bindings
}

/// A checksum that tells whether two sets of bindings, in any order, are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BindingsChecksum {
    pub count: u64,
    sum: u64,
}

impl BindingsChecksum {
    pub(crate) fn of(by_license: &BindingsByLicense) -> Self {
        let mut checksum = Self::default();
        for bindings in by_license.iter() {
            for Binding { host, bound_at, .. } in &**bindings {
                checksum.add(bindings.license_id().as_bytes(), host.as_str().as_bytes(), *bound_at);
            }
        }
        checksum
    }

    pub(crate) fn add(&mut self, license: &[u8], host: &[u8], bound_at: DateTime<Utc>) {
        let mut hasher = DefaultHasher::new();
        (license, host, bound_at).hash(&mut hasher);
        self.count += 1;
        self.sum = self.sum.wrapping_add(hasher.finish());
    }
}
