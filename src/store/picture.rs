//! All bindings as the ledger tells them, gathered while it is read, and a tally to compare an index with.

use std::collections::hash_map::Entry as Slot;
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
pub(super) struct Gathering {
    /// Most licenses have one site, so they take no more room than they will.
    picture: Picture,
    several: HashMap<LicenseId, Vec<Binding>>,
}

impl Gathering {
    pub(super) fn add(&mut self, Entry { license, binding }: Entry) {
        if let Some(bindings) = self.several.get_mut(&license) {
            bindings.push(binding);
            return;
        }
        match self.picture.entry(license) {
            Slot::Vacant(free) => {
                free.insert(Arc::new([binding]));
            }
            Slot::Occupied(taken) => {
                self.several.insert(license, [&**taken.get(), &[binding]].concat());
            }
        }
    }

    /// Drops what was superseded.
    pub(super) fn finish(mut self) -> Picture {
        for (license, bindings) in self.several {
            self.picture.insert(license, in_force(bindings).into());
        }
        self.picture
    }
}

/// A site that was bound again counts where it was bound last.
fn in_force(mut bindings: Vec<Binding>) -> Vec<Binding> {
    let mut hosts = HashSet::new();
    bindings.reverse();
    bindings.retain(|binding| hosts.insert(binding.host.clone()));
    bindings.reverse();
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
