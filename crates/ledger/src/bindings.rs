//! The bindings of one license in memory: 96 bytes, and host names longer than 24 letters.

use std::hash::BuildHasher;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use foldhash::fast::FixedState;

use countersign_model::binding::{Binding, CheckIn, Stored};
use countersign_model::download_key::DownloadKey;
use countersign_model::host_index::{HostIndex, SeatCounts};
use countersign_model::license_key::LicenseId;
use countersign_model::license_table::OfLicense;
use countersign_model::site_host::SiteHost;
use countersign_model::site_release::SiteRelease;

use crate::host_list::HostList;

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

impl LicenseBindings {
    /// The bindings of `license`, in the order of binding, and the releases of its sites in the order of the ledger.
    pub(super) fn new(license: LicenseId, bindings: Vec<Binding>, moves: Vec<SiteRelease>) -> Self {
        let sites = HostList::new(bindings, moves);
        Self {
            license,
            sites,
            said: AtomicU64::new(0),
            superseded: AtomicBool::new(false),
        }
    }

    /// Adds a binding; a void one of the same host is removed.
    pub(super) fn add(&mut self, binding: Binding) {
        self.sites.add(binding);
    }

    /// Ends the binding of the release's host.
    pub(super) fn release(&mut self, release: SiteRelease) {
        self.sites.release(release);
    }

    /// Marks that newer bindings replace these.
    pub(super) fn supersede(&self) {
        self.superseded.store(true, Ordering::Release);
    }

    /// Whether newer bindings replace these.
    pub(super) fn is_superseded(&self) -> bool {
        self.superseded.load(Ordering::Acquire)
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
        self.sites.all()
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
    /// Those of a license that changed.
    pub(super) fn changed(bindings: LicenseBindings) -> Self {
        Self(Some(BindingsRef::Changed(Arc::new(bindings))))
    }

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

    /// A copy, to change it; `None` if there are none.
    pub(super) fn to_changed(&self) -> Option<LicenseBindings> {
        self.bindings().cloned()
    }

    /// The releases by clients in the last 30 days before the last of them, in the order of the ledger.
    pub fn moves(&self) -> &[SiteRelease] {
        self.bindings().map_or(&[], |bindings| bindings.sites.moves())
    }

    /// Where there are more than a few.
    fn index(&self) -> Option<&HostIndex> {
        self.bindings()?.sites.index()
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

    fn position(&self, host: &str) -> Option<usize> {
        match self.index() {
            Some(index) => index.position(self, host),
            None => (**self).position(host),
        }
    }

    fn under(&self, host: &SiteHost) -> Vec<&Binding> {
        match self.index() {
            Some(index) => {
                let under = index.under(self, host.as_str()).iter();
                under.map(|position| &self[*position]).collect()
            }
            None => (**self).under(host),
        }
    }

    fn tagged(&self, key: &DownloadKey, tag: [u8; 8]) -> Option<&Binding> {
        match self.index() {
            Some(index) => index.tagged(self, key, tag).map(|position| &self[position]),
            None => (**self).tagged(key, tag),
        }
    }

    fn counted(&self, key: u64, count: impl FnOnce() -> SeatCounts) -> SeatCounts {
        match self.index() {
            Some(index) => index.counted(key, count),
            None => count(),
        }
    }
}

impl PartialEq for BoundSites<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}
