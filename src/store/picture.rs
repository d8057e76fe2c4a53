//! All bindings as the ledger tells them, gathered while it is read, and a tally to compare an index with.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::model::binding::Binding;
use crate::model::license_key::LicenseId;

use super::ledger::Entry;

/// The bindings of each license in the order of binding.
pub(super) type Picture = HashMap<LicenseId, Arc<[Binding]>>;

/// A picture in the making.
#[derive(Default)]
pub(super) struct Gathering(HashMap<LicenseId, Vec<Binding>>);

impl Gathering {
    pub(super) fn add(&mut self, Entry { license, binding }: Entry) {
        // Most licenses have one site.
        self.0.entry(license).or_insert_with(|| Vec::with_capacity(1)).push(binding);
    }

    /// Drops what was superseded.
    pub(super) fn finish(self) -> Picture {
        self.0.into_iter().map(|(license, bindings)| (license, in_force(bindings).into())).collect()
    }
}

/// A site that was bound again counts where it was bound last.
fn in_force(mut bindings: Vec<Binding>) -> Vec<Binding> {
    if bindings.len() > 1 {
        let mut hosts = HashSet::new();
        let latest: Vec<bool> = bindings.iter().rev().map(|binding| hosts.insert(binding.host.clone())).collect();
        let mut latest = latest.into_iter().rev();
        bindings.retain(|_| latest.next().unwrap_or(true));
    }
    bindings
}

/// Says whether two sets of bindings, met in any order, are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub count: u64,
    sum: u64,
}

impl Tally {
    pub(super) fn of(picture: &Picture) -> Self {
        let mut tally = Self::default();
        for (license, bindings) in picture {
            for Binding { host, bound_at } in &**bindings {
                tally.add(license.as_bytes(), host.as_str().as_bytes(), *bound_at);
            }
        }
        tally
    }

    pub(super) fn add(&mut self, license: &[u8], host: &[u8], bound_at: DateTime<Utc>) {
        let mut hasher = DefaultHasher::new();
        (license, host, bound_at).hash(&mut hasher);
        self.count += 1;
        self.sum = self.sum.wrapping_add(hasher.finish());
    }
}
