//! What a server knows of rollouts beside the ledger: that a look at them is due, and which sites took which release.
//!
//! [`rollouts`](crate::serve::rollouts) looks, and [`rollout_alarm`](crate::serve::rollout_alarm) asks what became of the sites.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, TimeDelta, Utc};
use tokio::sync::Notify;

use crate::serve::gate::PermittedDownload;
use countersign_model::license_key::LicenseId;
use countersign_model::site_host::SiteHost;
use countersign_model::slug::Slug;
use countersign_model::version::Version;

/// Wakes the look at releases.
#[derive(Debug, Default)]
pub(crate) struct RolloutWatch(Notify);

impl RolloutWatch {
    /// Other releases, or other entries, are in force.
    pub(crate) fn wake(&self) {
        self.0.notify_one();
    }

    /// Waits until it is woken.
    pub(super) async fn woken(&self) {
        self.0.notified().await;
    }
}

/// The most sites of a release that are remembered. More say nothing new.
const MOST_SITES: usize = 5_000;

/// So long, what a site took is looked at.
const REMEMBERED: TimeDelta = TimeDelta::days(7);

/// Sites that took a release, and when.
pub(super) type TakenSites = Vec<(LicenseId, SiteHost, DateTime<Utc>)>;

/// Which sites took which release, and how that went.
#[derive(Debug, Default)]
pub(crate) struct TakenPackages(Mutex<KnownPackages>);

#[derive(Debug, Default)]
struct KnownPackages {
    taken: HashMap<Slug, BTreeMap<String, TakenRelease>>,
    /// The share of the last release of a plugin that reached everybody.
    usual: HashMap<Slug, f64>,
}

#[derive(Debug)]
struct TakenRelease {
    version: Version,
    sites: HashMap<(LicenseId, SiteHost), DateTime<Utc>>,
}

impl TakenPackages {
    fn lock(&self) -> MutexGuard<'_, KnownPackages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A site gets a package of a plugin whose releases come in steps.
    pub(crate) fn note(&self, permitted: &PermittedDownload, now: DateTime<Utc>) {
        let Some(host) = &permitted.host else { return };
        let mut known = self.lock();
        let releases = known.taken.entry(permitted.slug.clone()).or_default();
        let release = releases
            .entry(permitted.version.as_str().to_owned())
            .or_insert_with(|| TakenRelease {
                version: permitted.version.clone(),
                sites: HashMap::new(),
            });
        if release.sites.len() < MOST_SITES {
            // A second download is a second try: the first counts.
            release.sites.entry((permitted.license, host.clone())).or_insert(now);
        }
    }

    /// What sites took so long ago or more, by plugin and release. Forgets what is too old.
    pub(super) fn due(&self, now: DateTime<Utc>, patience: TimeDelta) -> Vec<(Slug, Version, TakenSites)> {
        let mut known = self.lock();
        let mut due = Vec::new();
        for (slug, releases) in &mut known.taken {
            releases.retain(|_, release| {
                release.sites.retain(|_, time| now - *time < REMEMBERED);
                !release.sites.is_empty()
            });
            for release in releases.values() {
                let sites = release.sites.iter().filter(|(_, time)| now - **time >= patience);
                let sites = sites.map(|((license, host), time)| (*license, host.clone(), *time));
                due.push((slug.clone(), release.version.clone(), sites.collect()));
            }
        }
        due
    }

    /// The share of sites of a plugin that did not run the last release which everybody got.
    pub(super) fn usual(&self, slug: &Slug) -> Option<f64> {
        self.lock().usual.get(slug).copied()
    }

    /// Notes that share.
    pub(super) fn note_usual(&self, slug: Slug, share: f64) {
        self.lock().usual.insert(slug, share);
    }
}
