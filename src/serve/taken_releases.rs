//! What a server knows of rollouts beside the ledger: that a look at them is due, and which sites took which release from it.
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

/// Sites that took a release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TakenCount {
    /// Those that said a day later or more what they run.
    pub(crate) known: usize,
    /// Those of them that ran an older version.
    pub(crate) failed: usize,
}

impl TakenCount {
    /// Adds other sites.
    pub(crate) fn add(&mut self, more: Self) {
        self.known += more.known;
        self.failed += more.failed;
    }
}

/// What a site said a day later or more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SiteOutcome {
    pub(super) license: LicenseId,
    pub(super) host: SiteHost,
    /// Whether it runs an older version than it took.
    pub(super) has_failed: bool,
}

/// Which sites took which release, and how that went.
#[derive(Debug, Default)]
pub(crate) struct TakenPackages(Mutex<HashMap<Slug, BTreeMap<String, TakenRelease>>>);

#[derive(Debug)]
struct TakenRelease {
    version: Version,
    sites: HashMap<(LicenseId, SiteHost), TakenSite>,
}

#[derive(Debug)]
struct TakenSite {
    time: DateTime<Utc>,
    /// Whether it runs an older version; `None` as long as it did not say.
    has_failed: Option<bool>,
}

impl TakenPackages {
    fn lock(&self) -> MutexGuard<'_, HashMap<Slug, BTreeMap<String, TakenRelease>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A site gets a package of a plugin whose releases come in steps.
    pub(crate) fn note(&self, permitted: &PermittedDownload, now: DateTime<Utc>) {
        let Some(host) = &permitted.host else { return };
        let mut known = self.lock();
        let releases = known.entry(permitted.slug.clone()).or_default();
        let release = releases
            .entry(permitted.version.as_str().to_owned())
            .or_insert_with(|| TakenRelease {
                version: permitted.version.clone(),
                sites: HashMap::new(),
            });
        if release.sites.len() < MOST_SITES {
            // A second download is a second try: the first counts.
            let site = release.sites.entry((permitted.license, host.clone()));
            site.or_insert(TakenSite {
                time: now,
                has_failed: None,
            });
        }
    }

    /// What sites took so long ago or more, by plugin and release, without sites that are known to have failed. Forgets what is too
    /// old.
    pub(super) fn due(&self, now: DateTime<Utc>, patience: TimeDelta) -> Vec<(Slug, Version, TakenSites)> {
        let mut known = self.lock();
        let mut due = Vec::new();
        for (slug, releases) in &mut *known {
            releases.retain(|_, release| {
                release.sites.retain(|_, site| now - site.time < REMEMBERED);
                !release.sites.is_empty()
            });
            for release in releases.values() {
                let is_due = |site: &TakenSite| now - site.time >= patience && site.has_failed != Some(true);
                let sites = release.sites.iter().filter(|(_, site)| is_due(site));
                let sites = sites.map(|((license, host), site)| (*license, host.clone(), site.time));
                due.push((slug.clone(), release.version.clone(), sites.collect()));
            }
        }
        due
    }

    /// Notes what sites said, and returns how many said it for the first time, or failed only now: each is counted once.
    pub(super) fn judge(&self, slug: &Slug, version: &Version, outcomes: Vec<SiteOutcome>) -> TakenCount {
        let mut news = TakenCount::default();
        let mut known = self.lock();
        let release = known
            .get_mut(slug)
            .and_then(|releases| releases.get_mut(version.as_str()));
        let Some(release) = release else { return news };
        for SiteOutcome {
            license,
            host,
            has_failed,
        } in outcomes
        {
            let Some(site) = release.sites.get_mut(&(license, host)) else {
                continue;
            };
            news.known += usize::from(site.has_failed.is_none());
            news.failed += usize::from(has_failed && site.has_failed != Some(true));
            site.has_failed = Some(has_failed || site.has_failed == Some(true));
        }
        news
    }
}
