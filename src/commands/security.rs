//! `countersign security report`: how far security releases have reached sites, whose sites lack them, and what sites with an expired
//! license got.
//!
//! A site counts with the version that it reported last, as for `countersign usage`. The days are those of its history.

use std::collections::BTreeSet;

use chrono::{DateTime, NaiveDate, Utc};
use clap_complete::engine::ArgValueCompleter;
use serde::Serialize;

use crate::build::counted;
use crate::commands::output::Table;
use crate::commands::usage::history;
use crate::commands::{Exit, Failure, candidates, output, stored_sites, usage};
use crate::serve::history_report::MOST_DAYS;
use crate::serve::plugin_usage::{self, UsageCount, UsingSite};
use countersign_model::day_counts::DayLine;
use countersign_model::license_key::LicenseId;
use countersign_model::slug::Slug;
use countersign_model::version::Version;
use countersign_package::catalog::{Release, ReleaseIndex};
use countersign_settings::config::Config;

/// Show how far security releases have reached sites
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:
  countersign security report acme-forms")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand, Debug)]
enum Verb {
    /// Show when each security release became available, how many sites have it, whose sites lack it, and how often sites with an \
    /// expired license got it
    #[command(
        disable_version_flag = true,
        after_help = "Examples:
  countersign security report acme-forms
  countersign security report acme-forms 2.4.2 --json

A site has a security release if it runs that version or a newer one. Sites say which version they run \
when they ask for updates, twice a day. With a version, the report has a line for each day since then. \
docs/security-releases.md says what makes a release a security release."
    )]
    Report(ReportArgs),
}

#[derive(clap::Args, Debug)]
struct ReportArgs {
    /// The plugin's name in the registry
    #[arg(value_name = "SLUG", add = ArgValueCompleter::new(candidates::slugs))]
    slug: Slug,
    /// Only this security release
    #[arg(value_name = "VERSION")]
    version: Option<Version>,
    /// Count sites that asked for updates within this many days
    #[arg(long, value_name = "DAYS", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..))]
    days: u16,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// There is nothing to report.
#[derive(Debug, thiserror::Error)]
#[error("{0} {1} is not published, or is no security release")]
struct NotSecurity(Slug, Version);

/// How far the security releases of a plugin have come.
#[derive(Debug, Serialize)]
struct SecurityReport {
    plugin: Slug,
    days: u16,
    /// The sites that asked within these days.
    sites: usize,
    /// Newest first.
    releases: Vec<SecurityReach>,
}

/// How far one of them has come.
#[derive(Debug, Serialize)]
struct SecurityReach {
    version: Version,
    /// The day that its manifest gives.
    #[serde(skip_serializing_if = "Option::is_none")]
    available: Option<NaiveDate>,
    /// The sites with this version or a newer one.
    have: usize,
    /// `have` of all sites, from 0 to 1; absent if there is no site.
    #[serde(skip_serializing_if = "Option::is_none")]
    share: Option<f64>,
    /// The sites with an older version, or with one that cannot be read.
    lack: usize,
    /// The licenses of those, sorted.
    licenses: Vec<LicenseId>,
    /// How often the package went to sites whose license had expired.
    expired: u64,
    /// The days since it became available of which the history knows something, in their order.
    by_day: Vec<DayOfReach>,
}

/// How far a security release had come on a day.
#[derive(Debug, Serialize)]
struct DayOfReach {
    day: NaiveDate,
    /// The sites that are known at the end of the day; 0 of the day that runs.
    sites: u64,
    /// Those with this version or a newer one.
    have: u64,
    /// `have` of `sites`, from 0 to 1; absent if there is no site.
    #[serde(skip_serializing_if = "Option::is_none")]
    share: Option<f64>,
    /// How often the package went to sites whose license had expired.
    expired: u64,
}

impl DayOfReach {
    /// `None` if the line says nothing of the release.
    fn new(line: &DayLine, release: &Version) -> Option<Self> {
        let counts = &line.counts;
        let sites: u64 = counts.sites.values().sum();
        let having = counts.sites.iter().filter(|(version, _)| includes(version, release));
        let have: u64 = having.map(|(_, sites)| sites).sum();
        let expired = counts.security.get(release.as_str()).copied().unwrap_or_default();
        (sites + expired > 0).then(|| Self {
            day: line.day,
            sites,
            have,
            share: (sites > 0).then(|| plugin_usage::share(have as usize, sites as usize)),
            expired,
        })
    }
}

/// Whether a site that reports this version has the release.
fn includes(version: &str, release: &Version) -> bool {
    let version = version.parse::<Version>();
    version.is_ok_and(|version| version.cmp_php(release).is_ge())
}

impl SecurityReach {
    fn new(release: &Release, available: Option<NaiveDate>, sites: &[UsingSite], history: &[DayLine]) -> Self {
        let has_it = |site: &&UsingSite| includes(&site.version, &release.version);
        let (have, lack): (Vec<_>, Vec<_>) = sites.iter().partition(has_it);
        let days = history.iter().filter(|line| Some(line.day) >= available);
        let by_day: Vec<_> = days
            .filter_map(|line| DayOfReach::new(line, &release.version))
            .collect();
        let licenses: BTreeSet<_> = lack.iter().map(|site| site.license).collect();
        Self {
            version: release.version.clone(),
            available,
            have: have.len(),
            share: (!sites.is_empty()).then(|| plugin_usage::share(have.len(), sites.len())),
            lack: lack.len(),
            licenses: licenses.into_iter().collect(),
            expired: by_day.iter().map(|day| day.expired).sum(),
            by_day,
        }
    }
}

/// Counts, and prints.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let Verb::Report(args) = &args.verb;
    let report = report(args, config, Utc::now())?;
    output::print(&if args.json {
        output::json(&report)?
    } else {
        text(&report, args.version.is_some())
    })
}

fn report(args: &ReportArgs, config: &Config, now: DateTime<Utc>) -> Result<SecurityReport, Failure> {
    let slug = &args.slug;
    let folder = &config.paths.releases;
    let index = ReleaseIndex::read(folder).map_err(Failure::input)?;
    let published = index.and_then(|mut index| index.plugins.remove(slug));
    let published = published.ok_or_else(|| usage::nothing(slug, config))?;
    let is_wanted = |release: &&Release| {
        let wanted = args.version.as_ref();
        release.security && wanted.is_none_or(|wanted| wanted.cmp_php(&release.version).is_eq())
    };
    let releases: Vec<_> = published.releases.iter().filter(is_wanted).collect();
    if let Some(version) = args.version.as_ref().filter(|_| releases.is_empty()) {
        let failure = Failure::input(NotSecurity(slug.clone(), version.clone()));
        return Err(failure.hint("name the version in `security` of the plugin's entry, and build"));
    }
    let mut count = UsageCount::new(slug.clone());
    for (license, host, report) in &stored_sites::reports(config)?? {
        count.add(license, host, report);
    }
    let sites = count.sites(args.days, now);
    let history = history::read(Some(slug), MOST_DAYS, config, now)?.history;
    let reach = |release: &Release| {
        let available = plugin_usage::release_day(folder, slug, &release.version);
        SecurityReach::new(release, available, &sites, &history)
    };
    let mut releases: Vec<_> = releases.into_iter().map(reach).collect();
    releases.sort_by(|a, b| b.version.cmp_php(&a.version));
    Ok(SecurityReport {
        plugin: slug.clone(),
        days: args.days,
        sites: sites.len(),
        releases,
    })
}

fn text(report: &SecurityReport, has_days: bool) -> String {
    let SecurityReport {
        plugin,
        days,
        sites,
        releases,
    } = report;
    let sites = counted(*sites, "site");
    let days = counted(*days, "day");
    if releases.is_empty() {
        return format!("{plugin}: no security release is published; {sites} in the last {days}\n");
    }
    let mut table = Table::new(["VERSION", "AVAILABLE", "HAVE IT", "SHARE", "LACK IT", "SENT TO EXPIRED"]);
    let dash = || "-".to_owned();
    let percent = |share: Option<f64>| share.map_or_else(dash, |share| format!("{:.1} %", share * 100.0));
    for reach in releases {
        table.row([
            &reach.version,
            &reach.available.map_or_else(dash, |day| day.to_string()),
            &reach.have,
            &percent(reach.share),
            &reach.lack,
            &reach.expired,
        ]);
    }
    let mut text = format!("{plugin}: {sites} in the last {days}\n{table}");
    for reach in releases.iter().filter(|reach| !reach.licenses.is_empty()) {
        let ids: Vec<_> = reach.licenses.iter().map(|id| id.log_tag()).collect();
        text += &format!("licenses that lack {}: {}\n", reach.version, ids.join(", "));
    }
    for reach in releases.iter().filter(|reach| has_days && !reach.by_day.is_empty()) {
        let mut table = Table::new(["DAY", "SITES", "HAVE IT", "SHARE", "SENT TO EXPIRED"]);
        for day in reach.by_day.iter().rev() {
            table.row([&day.day, &day.sites, &day.have, &percent(day.share), &day.expired]);
        }
        text += &format!("{}, by UTC day:\n{table}", reach.version);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_model::license_key::LicenseKey;

    #[test]
    fn a_site_has_a_security_release_if_it_runs_it_or_a_newer_one() {
        let id = |number| LicenseKey::from_random([number; 20]).id();
        let sites: Vec<_> = [
            (1, "2.4.2"),
            (1, "2.4.1"),
            (2, "3.0"),
            (3, "2.4"),
            (3, "unknown"),
            (2, "2.10.0"),
        ]
        .into_iter()
        .map(|(number, version)| UsingSite {
            host: "a.com".parse().unwrap(),
            version: version.to_owned(),
            last_seen: Utc::now(),
            license: id(number),
        })
        .collect();
        let release: Release = serde_json::from_value(serde_json::json!({
            "version": "2.4.2", "tag": "v2.4.2", "security": true, "sha256": "00".repeat(32), "commit": "0".repeat(40),
        }))
        .unwrap();
        let reach = SecurityReach::new(&release, None, &sites, &[]);
        assert_eq!((reach.have, reach.lack, reach.share), (3, 3, Some(0.5)));
        let mut lacking = [id(1), id(3)];
        lacking.sort();
        assert_eq!(reach.licenses, lacking);
        assert_eq!(SecurityReach::new(&release, None, &[], &[]).share, None);

        let history = [
            // Before it was there.
            r#"{"day":"2026-11-19","plugin":"acme","counts":{"sites":{"2.4.1":9}}}"#,
            r#"{"day":"2026-11-20","plugin":"acme","counts":{"sites":{"2.4.1":6,"2.4.2":1,"3.0":1},"security":{"2.4.2":2,"2.3.5":7}}}"#,
            r#"{"day":"2026-11-21","plugin":"acme","counts":{"downloads":4}}"#,
            // The day that runs.
            r#"{"day":"2026-11-22","plugin":"acme","counts":{"security":{"2.4.2":3}}}"#,
        ];
        let history = history.map(|line| serde_json::from_str::<DayLine>(line).unwrap());
        let reach = SecurityReach::new(&release, "2026-11-20".parse().ok(), &sites, &history);
        let days = reach.by_day.iter();
        let days: Vec<_> = days
            .map(|day| (day.day.to_string(), day.sites, day.have, day.share, day.expired))
            .collect();
        let expected = [
            ("2026-11-20".to_owned(), 8, 2, Some(0.25), 2),
            ("2026-11-22".to_owned(), 0, 0, None, 3),
        ];
        assert_eq!((days, reach.expired), (expected.to_vec(), 5));
        let report = SecurityReport {
            plugin: "acme".parse().unwrap(),
            days: 30,
            sites: 6,
            releases: vec![reach],
        };
        let [short, long] = [false, true].map(|has_days| text(&report, has_days));
        assert!(
            short.contains("2.4.2    2026-11-20  3        50.0 %  3        5\n"),
            "{short}"
        );
        let lines = "\n2026-11-22  0      0        -       3\n2026-11-20  8      2        25.0 %  2\n";
        assert!(long.contains(lines) && !short.contains(lines), "{long}");
    }
}
