//! `countersign usage`: which versions of a plugin sites run, how many of them, and how old those versions are.
//!
//! What a site reports is what it says. A site that has been silent for long is counted apart.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, Days, NaiveDate, Utc};
use clap_complete::engine::ArgValueCompleter;
use serde::{Deserialize, Serialize};

use crate::catalog::{MAX_MANIFEST, ReleaseIndex, manifest_path};
use crate::commands::output::Table;
use crate::commands::{Exit, Failure, candidates, output, stored_sites};
use crate::config::Config;
use crate::model::site_host::SiteHost;
use crate::model::slug::Slug;
use crate::model::version::Version;
use crate::regular_file;
use crate::store::SiteReports;

/// Show which versions of a plugin sites run
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  countersign usage acme-forms
  countersign usage acme-forms --days 7 --json

Sites say which version they run when they ask for updates, twice a day. A site counts if it asked within the last 30 days. While a
server runs, it is asked for what sites reported.")]
pub struct Args {
    /// The plugin's name in the registry
    #[arg(value_name = "PLUGIN", add = ArgValueCompleter::new(candidates::slugs))]
    plugin: Slug,
    /// Count sites that asked for updates within this many days
    #[arg(long, value_name = "DAYS", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..))]
    days: u16,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// There is nothing to look for.
#[derive(Debug, thiserror::Error)]
#[error("no release of {0} is published, and no site reports it")]
struct UnknownPlugin(Slug);

/// The versions of one plugin in the field.
#[derive(Debug, PartialEq, Serialize)]
struct Usage {
    plugin: Slug,
    /// The newest published release that is not a pre-release.
    #[serde(skip_serializing_if = "Option::is_none")]
    latest: Option<Version>,
    days: u16,
    /// Sites that reported a version within these days.
    sites: usize,
    /// Sites that reported one, but not within these days.
    silent: usize,
    /// The most used first.
    versions: Vec<UsedVersion>,
}

/// A version that sites run.
#[derive(Debug, PartialEq, Serialize)]
struct UsedVersion {
    /// As the sites write it.
    version: String,
    sites: usize,
    /// Of all sites that count, from 0 to 1.
    share: f64,
    /// The day of the release; absent if it is not published here.
    #[serde(skip_serializing_if = "Option::is_none")]
    released: Option<NaiveDate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    age_days: Option<i64>,
    /// Published releases that are newer, pre-releases included; absent if it is not published here.
    #[serde(skip_serializing_if = "Option::is_none")]
    releases_behind: Option<usize>,
    /// When a site that runs it was seen last.
    last_seen: DateTime<Utc>,
}

/// The used field of a manifest.
#[derive(Deserialize)]
struct DatedManifest {
    last_updated: String,
}

/// A published release.
#[derive(Clone, Copy)]
struct PublishedRelease {
    /// From its manifest, if that can be read.
    day: Option<NaiveDate>,
    /// The number of newer ones.
    behind: usize,
}

/// Counts, and prints.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let index = ReleaseIndex::read(&config.paths.releases).map_err(Failure::input)?;
    let published = index.and_then(|mut index| index.plugins.remove(&args.plugin));
    let reports = stored_sites::reports(config)??;
    let now = Utc::now();
    let mut usage = count(args, &reports, now);
    if published.is_none() && usage.sites + usage.silent == 0 {
        return Err(Failure::input(UnknownPlugin(args.plugin.clone()))
            .hint("give the name of a file in registry/plugins/, without .toml"));
    }
    let Some(published) = published else {
        return print(args, &usage);
    };
    usage.latest = published.latest;
    for used in &mut usage.versions {
        let behind = published
            .releases
            .iter()
            .position(|release| release.version.as_str() == used.version);
        let Some(behind) = behind else { continue };
        let version = &published.releases[behind].version;
        used.add(
            PublishedRelease {
                day: release_day(config, &args.plugin, version),
                behind,
            },
            now.date_naive(),
        );
    }
    print(args, &usage)
}

impl UsedVersion {
    fn add(&mut self, release: PublishedRelease, today: NaiveDate) {
        self.released = release.day;
        self.age_days = release.day.map(|day| (today - day).num_days().max(0));
        self.releases_behind = Some(release.behind);
    }
}

/// The day that a manifest gives; `None` if it cannot be read.
fn release_day(config: &Config, plugin: &Slug, version: &Version) -> Option<NaiveDate> {
    let path = manifest_path(&config.paths.releases, plugin, version);
    day_in(&regular_file::read(&path, MAX_MANIFEST).ok()?)
}

fn day_in(manifest: &[u8]) -> Option<NaiveDate> {
    let manifest: DatedManifest = serde_json::from_slice(manifest).ok()?;
    // A day, or a day and a time.
    manifest.last_updated.get(..10)?.parse().ok()
}

/// Counts the sites by version.
fn count(args: &Args, reports: &SiteReports, now: DateTime<Utc>) -> Usage {
    let since = now.checked_sub_days(Days::new(args.days.into())).unwrap_or_default();
    let mut by_version: BTreeMap<&str, (usize, DateTime<Utc>)> = BTreeMap::new();
    let mut silent = 0;
    // A site counts once with what it said last, under whichever license.
    let mut last: HashMap<&SiteHost, (Option<DateTime<Utc>>, &str)> = HashMap::new();
    for (_, host, report) in reports {
        if let Some(version) = report.current_versions.get(&args.plugin) {
            let said = (report.last_seen, version.as_str());
            last.entry(host)
                .and_modify(|known| *known = (*known).max(said))
                .or_insert(said);
        }
    }
    for (seen, version) in last.into_values() {
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
        version: version.to_owned(),
        sites: count,
        share: share(count, sites),
        released: None,
        age_days: None,
        releases_behind: None,
        last_seen,
    });
    let mut versions: Vec<_> = used.collect();
    // Stable: equal ones stay in the order of their names.
    versions.sort_by_key(|used| std::cmp::Reverse(used.sites));
    Usage {
        plugin: args.plugin.clone(),
        latest: None,
        days: args.days,
        sites,
        silent,
        versions,
    }
}

/// Rounded to four digits.
fn share(count: usize, all: usize) -> f64 {
    let exact = count as f64 / all as f64;
    (exact * 10_000.0).round() / 10_000.0
}

fn print(args: &Args, usage: &Usage) -> Result<Exit, Failure> {
    output::print(&if args.json { output::json(usage)? } else { text(usage) })
}

fn text(usage: &Usage) -> String {
    let Usage {
        plugin,
        latest,
        days,
        sites,
        silent,
        versions,
    } = usage;
    let latest = latest
        .as_ref()
        .map_or(String::new(), |version| format!("; the latest release is {version}"));
    let mut text = format!("{plugin}: {sites} sites in the last {days} days{latest}\n");
    if *silent > 0 {
        text += &format!("{silent} more sites ran it and have been silent for longer\n");
    }
    if versions.is_empty() {
        return text;
    }
    let mut table = Table::new(["VERSION", "SITES", "SHARE", "RELEASED", "AGE", "BEHIND", "LAST SEEN"]);
    let dash = || "-".to_owned();
    for used in versions {
        table.row([
            &used.version,
            &used.sites,
            &format!("{:.1} %", used.share * 100.0),
            &used.released.map_or_else(dash, |day| day.to_string()),
            &used.age_days.map_or_else(dash, |days| format!("{days} d")),
            &used.releases_behind.map_or_else(dash, |behind| behind.to_string()),
            &used.last_seen.date_naive(),
        ]);
    }
    text + &table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::binding::SiteReport;
    use crate::model::license_key::LicenseId;

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
        let args = Args {
            plugin: "acme".parse().unwrap(),
            days: 30,
            json: false,
        };
        let mut reports = SiteReports::new();
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
            let host = format!("host{number}.com").parse().unwrap();
            reports.push((LicenseId::from_bytes([1; 32]), host, report));
        }
        let usage = count(&args, &reports, now);
        assert_eq!((usage.sites, usage.silent), (3, 1));
        let found: Vec<_> = usage
            .versions
            .iter()
            .map(|used| (used.version.as_str(), used.sites, used.share))
            .collect();
        assert_eq!(found, [("1.1", 2, 0.6667), ("1.0", 1, 0.3333)]);
        assert_eq!(usage.versions[0].last_seen, now);
        let text = text(&usage);
        assert!(
            text.contains("acme: 3 sites in the last 30 days\n1 more sites"),
            "{text}"
        );
        assert!(text.contains("66.7 %"), "{text}");
    }
}
