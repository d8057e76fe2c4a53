//! Which versions of a plugin sites run, how many of them, and how old those versions are: for `countersign usage` and the
//! management API.
//!
//! What a site reports is what it says. A site that has been silent for long is counted apart.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use chrono::{DateTime, Days, NaiveDate, Utc};
use serde::{Deserialize, Serialize};

use countersign_files::regular_file;
use countersign_model::binding::SiteReport;
use countersign_model::license_key::LicenseId;
use countersign_model::site_host::SiteHost;
use countersign_model::slug::Slug;
use countersign_model::version::Version;
use countersign_package::catalog::{CatalogError, MAX_MANIFEST, ReleaseIndex, manifest_path};

/// The versions of one plugin in the field.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PluginUsage {
    /// The plugin.
    pub plugin: Slug,
    /// The newest published release that is not a pre-release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest: Option<Version>,
    /// Sites count that were seen within this many days.
    pub days: u16,
    /// Sites that reported a version within these days.
    pub sites: usize,
    /// Sites that reported one, but not within these days.
    pub silent: usize,
    /// The most used first.
    pub versions: Vec<UsedVersion>,
}

/// A version that sites run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UsedVersion {
    /// As the sites write it.
    pub version: String,
    /// How many run it.
    pub sites: usize,
    /// Of all sites that count, from 0 to 1.
    pub share: f64,
    /// Whether the plugin's entry withholds it. `false` is left out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub withheld: bool,
    /// The day of the release; absent if it is not published here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub released: Option<NaiveDate>,
    /// Days since then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_days: Option<i64>,
    /// Published releases that are newer, without pre-releases; absent if it is neither published nor withheld here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub releases_behind: Option<usize>,
    /// When a site that runs it was seen last.
    pub last_seen: DateTime<Utc>,
}

/// The used field of a manifest.
#[derive(Deserialize)]
struct DatedManifest {
    last_updated: String,
}

/// What sites said last, while their reports are read.
#[derive(Clone, Debug)]
pub struct UsageCount {
    plugin: Slug,
    /// A site counts once with what it said last, under whichever license.
    last: HashMap<SiteHost, (Option<DateTime<Utc>>, String, LicenseId)>,
}

/// A site that runs a version.
#[derive(Debug)]
pub struct UsingSite {
    /// The site.
    pub host: SiteHost,
    /// The version, as the site writes it.
    pub version: String,
    /// When it said so.
    pub last_seen: DateTime<Utc>,
    /// The license that it gave with it.
    pub license: LicenseId,
}

impl UsageCount {
    /// Of this plugin.
    pub fn new(plugin: Slug) -> Self {
        let last = HashMap::new();
        Self { plugin, last }
    }

    /// Takes the report of a site with a license.
    pub fn add(&mut self, license: &LicenseId, host: &SiteHost, report: &SiteReport) {
        let Some(version) = report.current_versions.get(&self.plugin) else {
            return;
        };
        let said = (report.last_seen, version.clone(), *license);
        match self.last.get_mut(host) {
            Some(known) if said > *known => *known = said,
            Some(_) => {}
            None => drop(self.last.insert(host.clone(), said)),
        }
    }

    /// The sites that were seen within `days`, sorted by host.
    pub fn sites(self, days: u16, now: DateTime<Utc>) -> Vec<UsingSite> {
        let since = first_moment(days, now);
        let recent = self.last.into_iter().filter_map(|(host, (seen, version, license))| {
            Some(UsingSite {
                host,
                version,
                last_seen: seen.filter(|seen| *seen >= since)?,
                license,
            })
        });
        let mut sites: Vec<_> = recent.collect();
        sites.sort_by(|a, b| a.host.cmp(&b.host));
        sites
    }

    /// Counts the sites by version.
    pub fn finish(self, days: u16, now: DateTime<Utc>) -> PluginUsage {
        let since = first_moment(days, now);
        let mut by_version: BTreeMap<String, (usize, DateTime<Utc>)> = BTreeMap::new();
        let mut silent = 0;
        for (seen, version, _) in self.last.into_values() {
            match seen.filter(|seen| *seen >= since) {
                None => silent += 1,
                Some(seen) => {
                    let (sites, last) = by_version.entry(version).or_insert((0, seen));
                    *sites += 1;
                    *last = seen.max(*last);
                }
            }
        }
        let sites = by_version.values().map(|(sites, _)| sites).sum();
        let used = by_version.into_iter().map(|(version, (count, last_seen))| UsedVersion {
            version,
            sites: count,
            share: share(count, sites),
            withheld: false,
            released: None,
            age_days: None,
            releases_behind: None,
            last_seen,
        });
        let mut versions: Vec<_> = used.collect();
        // Stable: equal ones stay in the order of their names.
        versions.sort_by_key(|used| std::cmp::Reverse(used.sites));
        PluginUsage {
            plugin: self.plugin,
            latest: None,
            days,
            sites,
            silent,
            versions,
        }
    }
}

impl PluginUsage {
    /// Adds what the folder of releases says of the versions, and which ones the entry withholds; `None` if no release is
    /// published, and no site reports the plugin. Reads files.
    ///
    /// # Errors
    /// The index of the releases cannot be read.
    pub fn with_releases(
        mut self,
        releases: &Path,
        withheld: &[Version],
        now: DateTime<Utc>,
    ) -> Result<Option<Self>, CatalogError> {
        let index = ReleaseIndex::read(releases)?;
        let published = index.and_then(|mut index| index.plugins.remove(&self.plugin));
        if published.is_none() && self.sites + self.silent == 0 {
            return Ok(None);
        }
        let published = published.unwrap_or_default();
        for used in &mut self.versions {
            let Ok(version) = used.version.parse::<Version>() else {
                continue;
            };
            let is_published = published
                .releases
                .iter()
                .any(|release| release.version.as_str() == used.version);
            used.withheld = withheld.iter().any(|withheld| withheld.cmp_php(&version).is_eq());
            if is_published {
                used.released = release_day(releases, &self.plugin, &version);
                used.age_days = used.released.map(|day| (now.date_naive() - day).num_days().max(0));
            }
            if is_published || used.withheld {
                let stable = published
                    .releases
                    .iter()
                    .filter(|release| !release.version.is_prerelease());
                let newer = stable.filter(|release| release.version.cmp_php(&version).is_gt());
                used.releases_behind = Some(newer.count());
            }
        }
        self.latest = published.latest;
        Ok(Some(self))
    }
}

/// When the last `days` began.
fn first_moment(days: u16, now: DateTime<Utc>) -> DateTime<Utc> {
    now.checked_sub_days(Days::new(days.into())).unwrap_or_default()
}

/// The day that a manifest gives; `None` if it cannot be read.
pub fn release_day(releases: &Path, plugin: &Slug, version: &Version) -> Option<NaiveDate> {
    let path = manifest_path(releases, plugin, version);
    day_in(&regular_file::read(&path, MAX_MANIFEST).ok()?)
}

fn day_in(manifest: &[u8]) -> Option<NaiveDate> {
    let manifest: DatedManifest = serde_json::from_slice(manifest).ok()?;
    // A day, or a day and a time.
    manifest.last_updated.get(..10)?.parse().ok()
}

/// Rounded to four digits.
pub fn share(count: usize, all: usize) -> f64 {
    let exact = count as f64 / all as f64;
    (exact * 10_000.0).round() / 10_000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_model::license_key::LicenseKey;

    #[test]
    fn a_manifest_gives_the_day_of_its_release() {
        let day = NaiveDate::from_ymd_opt(2026, 1, 2);
        assert_eq!(
            day_in(br#"{"last_updated":"2026-01-02 10:00am GMT","slug":"acme"}"#),
            day
        );
        assert_eq!(day_in(br#"{"last_updated":"today"}"#), None);
        assert_eq!(day_in(b"{}"), None);
    }

    #[test]
    fn sites_are_counted_by_version_and_silent_ones_apart() {
        let now: DateTime<Utc> = "2026-11-20T10:00:00Z".parse().unwrap();
        let mut count = UsageCount::new("acme".parse().unwrap());
        for (number, plugin, version, days_ago) in [
            (0, "acme", "1.0", 3),
            (0, "acme", "1.1", 0),
            (0, "acme", "1.0", 2),
            (1, "acme", "1.0", 29),
            (2, "acme", "1.1", 30),
            (3, "acme", "1.1", 31),
            (4, "other", "9.9", 0),
        ] {
            let report = SiteReport {
                last_seen: now.checked_sub_days(Days::new(days_ago)),
                current_versions: [(plugin.parse().unwrap(), version.to_owned())].into(),
                ..SiteReport::default()
            };
            let license = LicenseKey::from_random([number; 20]).id();
            count.add(&license, &format!("host{number}.com").parse().unwrap(), &report);
        }
        let sites: Vec<_> = count.clone().sites(30, now);
        let listed = sites.iter().map(|site| (site.host.as_str(), &*site.version));
        assert_eq!(
            listed.collect::<Vec<_>>(),
            [("host0.com", "1.1"), ("host1.com", "1.0"), ("host2.com", "1.1")]
        );
        let usage = count.finish(30, now);
        assert_eq!((usage.sites, usage.silent), (3, 1));
        let found: Vec<_> = usage
            .versions
            .iter()
            .map(|used| (used.version.as_str(), used.sites, used.share))
            .collect();
        assert_eq!(found, [("1.1", 2, 0.6667), ("1.0", 1, 0.3333)]);
        assert_eq!(usage.versions[0].last_seen, now);
    }
}
