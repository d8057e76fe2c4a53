//! The bindings of one license in memory: 96 bytes, and host names longer than 24 letters.

use std::hash::BuildHasher;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use foldhash::fast::FixedState;

use crate::model::binding::{Binding, CheckIn, Stored};
use crate::model::license_key::LicenseId;
use crate::model::license_table::OfLicense;
use crate::model::site_host::SiteHost;

/// For this many seconds, a repeated report counts as nothing new. A site asks twice a day.
const SAID_FOR: i64 = 600;

/// The bindings of one license in the order of binding, on two cache lines.
#[derive(Debug)]
#[repr(C, align(32))]
pub(super) struct LicenseBindings {
    license: LicenseId,
    sites: HostList,
    /// A hash of the last report, so that a repeated one costs little.
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
    /// Their positions sorted by host, so that one of 50,000 is found at once.
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

    /// Adds a binding; a void one of the same host is removed.
    pub(super) fn add(&mut self, binding: Binding) {
        match &mut self.sites {
            HostList::One(one) if one.host == binding.host => *one = binding,
            HostList::One(one) => self.sites = HostList::Several(Box::new(Several::new(vec![one.clone(), binding]))),
            HostList::Several(several) => several.add(binding),
        }
    }

    /// Marks that newer bindings replace these.
    pub(super) fn supersede(&self) {
        self.superseded.store(true, Ordering::Release);
    }

    /// Whether newer bindings replace these.
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

    /// The position of `host` in `by_host`, or where to insert it.
    fn rank(&self, host: &SiteHost) -> Result<usize, usize> {
        self.by_host
            .binary_search_by_key(&host, |&place| &self.bindings[place].host)
    }
}

/// The durable bindings of a license in the order of binding, void ones included. There may be none.
#[derive(Debug, Default)]
pub struct BoundSites<'a>(pub(super) Option<BindingsRef<'a>>);

/// Where the bindings are held.
#[derive(Debug)]
pub(super) enum BindingsRef<'a> {
    /// Among those loaded at the start.
    Settled(&'a LicenseBindings),
    /// Among those that changed since.
    Changed(Arc<LicenseBindings>),
}

/// A new report of a license's site.
pub(super) struct News<'a> {
    said: Option<(&'a AtomicU64, u64)>,
}

impl News<'_> {
    /// Marks the report as stored, so that a repetition is not new.
    pub(super) fn was_noted(self) {
        if let Some((last, said)) = self.said {
            last.store(said, Ordering::Relaxed);
        }
    }
}

impl BoundSites<'_> {
    /// What a site reports, unless it was the license's last report, less than ten minutes ago. Two sites that
    /// alternate always report news, and so does a host that is bound by the registry alone, because nothing is
    /// stored for it.
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

    /// A copy with one more binding.
    pub(super) fn with(&self, license: LicenseId, binding: Binding) -> LicenseBindings {
        match self.bindings() {
            None => LicenseBindings::new(license, vec![binding]),
            Some(bindings) => {
                let mut bindings = bindings.clone();
                bindings.add(binding);
                bindings
            }
        }
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
