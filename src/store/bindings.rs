//! The bindings of one license as they are held in memory: 96 bytes, and the names of hosts of more than 24 letters.

use std::hash::BuildHasher;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use foldhash::fast::FixedState;

use crate::model::binding::{Binding, CheckIn, Stored};
use crate::model::license_key::LicenseId;
use crate::model::license_table::OfLicense;
use crate::model::site_host::SiteHost;

/// How long a site says nothing new by saying the same, in seconds: it asks twice a day.
const SAID_FOR: i64 = 600;

/// The bindings of one license in the order of binding: on two cache lines, wherever they lie.
#[derive(Debug)]
#[repr(C, align(32))]
pub(super) struct LicenseBindings {
    license: LicenseId,
    sites: HostList,
    /// What its sites said last, as a number, so that saying it again costs little.
    said: AtomicU64,
    superseded: AtomicBool,
}

const _: () = assert!(size_of::<LicenseBindings>() == 96);

/// Most licenses have one site.
#[derive(Clone, Debug)]
enum HostList {
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

impl LicenseBindings {
    /// The bindings of `license`, in the order of binding.
    pub(super) fn new(license: LicenseId, mut bindings: Vec<Binding>) -> Self {
        let sites = match bindings.len() {
            1 => HostList::One(bindings.remove(0)),
            _ => HostList::Several(Box::new(Several::new(bindings))),
        };
        Self {
            license,
            sites,
            said: AtomicU64::new(0),
            superseded: AtomicBool::new(false),
        }
    }

    /// Adds a binding; a void one of the same host makes way.
    pub(super) fn add(&mut self, binding: Binding) {
        match &mut self.sites {
            HostList::One(one) if one.host == binding.host => *one = binding,
            HostList::One(one) => self.sites = HostList::Several(Box::new(Several::new(vec![one.clone(), binding]))),
            HostList::Several(several) => several.add(binding),
        }
    }

    /// These are no longer all: others were put in their place before.
    pub(super) fn supersede(&self) {
        self.superseded.store(true, Ordering::Release);
    }

    /// Whether others are in their place.
    pub(super) fn is_superseded(&self) -> bool {
        self.superseded.load(Ordering::Acquire)
    }

    fn find(&self, host: &SiteHost) -> Option<&Binding> {
        match &self.sites {
            HostList::One(binding) => Some(binding).filter(|binding| binding.host == *host),
            HostList::Several(several) => several
                .rank(host)
                .ok()
                .map(|rank| &several.bindings[several.by_host[rank]]),
        }
    }
}

impl OfLicense for LicenseBindings {
    fn license_id(&self) -> &LicenseId {
        &self.license
    }
}

impl Clone for LicenseBindings {
    fn clone(&self) -> Self {
        let said = AtomicU64::new(self.said.load(Ordering::Relaxed));
        Self {
            license: self.license,
            sites: self.sites.clone(),
            said,
            superseded: AtomicBool::new(false),
        }
    }
}

impl Deref for LicenseBindings {
    type Target = [Binding];

    fn deref(&self) -> &[Binding] {
        match &self.sites {
            HostList::One(binding) => std::slice::from_ref(binding),
            HostList::Several(several) => &several.bindings,
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
        self.by_host
            .binary_search_by_key(&host, |&place| &self.bindings[place].host)
    }
}

/// The durable bindings of a license in the order of binding, void ones included; it may have none.
#[derive(Debug, Default)]
pub struct BoundSites<'a>(pub(super) Option<BindingsRef<'a>>);

/// Where they were found.
#[derive(Debug)]
pub(super) enum BindingsRef<'a> {
    /// Among those of the start.
    Settled(&'a LicenseBindings),
    /// Among those that changed since.
    Changed(Arc<LicenseBindings>),
}

/// What a site says that its license's sites did not say last.
pub(super) struct News<'a> {
    said: Option<(&'a AtomicU64, u64)>,
}

impl News<'_> {
    /// It was noted: saying it again is no news.
    pub(super) fn was_noted(self) {
        if let Some((last, said)) = self.said {
            last.store(said, Ordering::Relaxed);
        }
    }
}

impl BoundSites<'_> {
    /// What a site says, unless the license's sites said just that last, and less than ten minutes ago. Two sites in turn
    /// always tell news, and so does one that nothing is stored of, as it is bound ahead in the registry.
    pub(super) fn news(&self, host: &SiteHost, check_in: &CheckIn<'_>) -> Option<News<'_>> {
        let Some(bindings) = self.bindings() else {
            return Some(News { said: None });
        };
        let CheckIn {
            time,
            build_id,
            plugin_version,
            current_version,
        } = check_in;
        let said = (
            host,
            time.timestamp().div_euclid(SAID_FOR),
            build_id,
            plugin_version,
            current_version,
        );
        let said = FixedState::default().hash_one(said);
        (bindings.said.load(Ordering::Relaxed) != said).then_some(News {
            said: Some((&bindings.said, said)),
        })
    }

    fn bindings(&self) -> Option<&LicenseBindings> {
        match self.0.as_ref()? {
            BindingsRef::Settled(bindings) => Some(bindings),
            BindingsRef::Changed(bindings) => Some(bindings),
        }
    }
}

impl Deref for BoundSites<'_> {
    type Target = [Binding];

    fn deref(&self) -> &[Binding] {
        self.bindings().map_or(&[], |bindings| bindings)
    }
}

impl Stored for BoundSites<'_> {
    fn all(&self) -> &[Binding] {
        self
    }

    fn find(&self, host: &SiteHost) -> Option<&Binding> {
        self.bindings()?.find(host)
    }
}

impl PartialEq for BoundSites<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}
