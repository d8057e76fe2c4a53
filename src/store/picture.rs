//! All bindings as the ledger tells them, gathered while it is read, and a tally to compare an index with.
//!
//! The same form serves in memory while the server runs: 96 bytes a license, and its hosts' names.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use chrono::{DateTime, Utc};

use crate::model::binding::{Binding, Stored};
use crate::model::license_key::LicenseId;
use crate::model::site_host::SiteHost;

use super::ledger::Entry;

/// Bindings by license.
#[derive(Debug, Default)]
pub(super) struct Picture(HashSet<Bindings, BuildHasherDefault<IdHasher>>);

/// The bindings of one license in the order of binding.
#[derive(Clone, Debug)]
pub(super) struct Bindings(Arc<Held>);

#[derive(Debug)]
struct Held {
    license: LicenseId,
    /// What its site said last, as a number, so that saying it again costs little.
    said: AtomicU64,
    sites: Sites,
}

/// Most licenses have one site.
#[derive(Clone, Debug)]
enum Sites {
    One(Binding),
    Several(Box<Several>),
}

#[derive(Clone, Debug)]
struct Several {
    /// In the order of binding.
    bindings: Vec<Binding>,
    /// Their places in the order of hosts, so that one of 50,000 is found at once.
    by_host: Vec<usize>,
}

impl Picture {
    /// The bindings of a license, if it has any.
    pub(super) fn get(&self, license: &LicenseId) -> Option<&Bindings> {
        self.0.get(license)
    }

    /// Puts these in the place of what there was of their license.
    pub(super) fn put(&mut self, bindings: Bindings) {
        self.0.replace(bindings);
    }

    /// Adds a binding; a void one of the same host makes way.
    pub(super) fn add(&mut self, license: LicenseId, binding: Binding) {
        let bindings = match self.0.take(&license) {
            None => Bindings::new(license, vec![binding]),
            Some(mut bindings) => {
                // Copies only where somebody is reading this license's bindings just now.
                Arc::make_mut(&mut bindings.0).sites.add(binding);
                bindings
            }
        };
        self.0.insert(bindings);
    }

    /// How many licenses have bindings.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// In no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Bindings> {
        self.0.iter()
    }

    /// The bindings of all licenses, in no order.
    pub(super) fn into_iter(self) -> impl Iterator<Item = Bindings> {
        self.0.into_iter()
    }
}

impl Bindings {
    /// The bindings of `license`, in the order of binding.
    pub(super) fn new(license: LicenseId, mut bindings: Vec<Binding>) -> Self {
        let sites = match bindings.len() {
            1 => Sites::One(bindings.remove(0)),
            _ => Sites::Several(Box::new(Several::new(bindings))),
        };
        Self(Arc::new(Held { license, said: AtomicU64::new(0), sites }))
    }

    /// The license they are of.
    pub(super) fn license(&self) -> &LicenseId {
        &self.0.license
    }

    /// What the license's sites said last.
    pub(super) fn said(&self) -> &AtomicU64 {
        &self.0.said
    }
}

impl Clone for Held {
    fn clone(&self) -> Self {
        let said = AtomicU64::new(self.said.load(Ordering::Relaxed));
        Self { license: self.license, said, sites: self.sites.clone() }
    }
}

impl Sites {
    fn add(&mut self, binding: Binding) {
        match self {
            Self::One(one) if one.host == binding.host => *one = binding,
            Self::One(one) => *self = Self::Several(Box::new(Several::new(vec![one.clone(), binding]))),
            Self::Several(several) => several.add(binding),
        }
    }
}

impl Several {
    fn new(mut bindings: Vec<Binding>) -> Self {
        bindings.shrink_to_fit();
        let mut by_host: Vec<_> = (0..bindings.len()).collect();
        by_host.sort_unstable_by_key(|&place| &bindings[place].host);
        Self { bindings, by_host }
    }

    fn add(&mut self, binding: Binding) {
        match self.rank(&binding.host) {
            Ok(rank) => {
                self.bindings.remove(self.by_host[rank]);
                self.bindings.push(binding);
                *self = Self::new(std::mem::take(&mut self.bindings));
            }
            Err(rank) => {
                self.by_host.insert(rank, self.bindings.len());
                self.bindings.push(binding);
            }
        }
    }

    /// Where in `by_host` the place of `host` stands, or would.
    fn rank(&self, host: &SiteHost) -> Result<usize, usize> {
        self.by_host.binary_search_by_key(&host, |&place| &self.bindings[place].host)
    }
}

impl Deref for Bindings {
    type Target = [Binding];

    fn deref(&self) -> &[Binding] {
        match &self.0.sites {
            Sites::One(binding) => std::slice::from_ref(binding),
            Sites::Several(several) => &several.bindings,
        }
    }
}

/// The durable bindings of a license in the order of binding, void ones included; it may have none.
#[derive(Debug, Default)]
pub struct Bound(pub(super) Option<Bindings>);

impl Deref for Bound {
    type Target = [Binding];

    fn deref(&self) -> &[Binding] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl Stored for Bound {
    fn all(&self) -> &[Binding] {
        self
    }

    fn find(&self, host: &SiteHost) -> Option<&Binding> {
        match &self.0.as_ref()?.0.sites {
            Sites::One(binding) => Some(binding).filter(|binding| binding.host == *host),
            Sites::Several(several) => several.rank(host).ok().map(|rank| &several.bindings[several.by_host[rank]]),
        }
    }
}

impl PartialEq for Bound {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

// By their license alone.
impl Borrow<LicenseId> for Bindings {
    fn borrow(&self) -> &LicenseId {
        self.license()
    }
}

impl Hash for Bindings {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.license().hash(hasher);
    }
}

impl PartialEq for Bindings {
    fn eq(&self, other: &Self) -> bool {
        self.license() == other.license()
    }
}

impl Eq for Bindings {}

/// An id is a digest, and only the vendor's own are put in: eight of its bytes spread as well as a hash of them all.
#[derive(Debug, Default)]
pub(super) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        // The first bytes name the shard.
        if let Some(chunk) = bytes.get(8..16).and_then(|bytes| bytes.try_into().ok()) {
            self.0 = u64::from_ne_bytes(chunk);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

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
        match self.picture.get(&license) {
            None => self.picture.put(Bindings::new(license, vec![binding])),
            Some(first) => {
                let bindings = [first, &[binding][..]].concat();
                self.several.insert(license, bindings);
            }
        }
    }

    /// Drops what was superseded.
    pub(super) fn finish(mut self) -> Picture {
        for (license, bindings) in self.several {
            self.picture.put(Bindings::new(license, in_force(bindings)));
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
        for bindings in picture.iter() {
            for Binding { host, bound_at } in &**bindings {
                tally.add(bindings.license().as_bytes(), host.as_str().as_bytes(), *bound_at);
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
