//! `countersign usage`: which versions of a plugin sites run, how many of them, and how old those versions are.
//!
//! What a site reports is what it says. A site that has been silent for long is counted apart. `history` has what was counted day by
//! day.

pub(super) mod history;

use chrono::{DateTime, Utc};
use clap_complete::engine::ArgValueCompleter;
use serde::Serialize;

use crate::build::counted;
use crate::commands::known_licenses::KnownLicenses;
use crate::commands::output::Table;
use crate::commands::store::KeptTexts;
use crate::commands::{Exit, Failure, candidates, output, stored_sites};
use crate::serve::plugin_usage::{PluginUsage, UsageCount};
use countersign_model::license_key::LicenseId;
use countersign_model::slug::Slug;
use countersign_model::version::Version;
use countersign_registry::{Registry, RegistryFiles, plugins};
use countersign_settings::config::Config;

/// Show which versions of a plugin sites run
#[derive(clap::Args, Debug)]
#[command(
    disable_version_flag = true,
    after_help = "\
Examples:
  countersign usage acme-forms
  countersign usage acme-forms --days 7 --json
  countersign usage acme-forms --version 1.2.0 --sites
                                          who runs this version
  countersign usage --history acme-forms --days 90
                                          what happened day by day

Sites say which version they run when they ask for updates, twice a day. A site counts if it asked \
within the last 30 days. While a server runs, it is asked for what sites reported."
)]
pub struct Args {
    /// The plugin's name in the registry
    #[arg(value_name = "PLUGIN", required_unless_present = "history", add = ArgValueCompleter::new(candidates::slugs))]
    plugin: Option<Slug>,
    /// Show what was counted day by day, of the plugin or of each
    #[arg(long, conflicts_with_all = ["version", "sites"])]
    history: bool,
    /// Count sites that asked for updates within this many days, or show this many days of the history
    #[arg(long, value_name = "DAYS", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..))]
    days: u16,
    /// Count only sites that run this version
    #[arg(long, value_name = "VERSION")]
    version: Option<Version>,
    /// List the sites, with their licenses
    #[arg(long)]
    sites: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// There is nothing to look for.
#[derive(Debug, thiserror::Error)]
enum UsageError {
    #[error("there is no plugin {0}")]
    Unknown(Slug),
    #[error("no release of {0} is published, and no site reports it")]
    NothingPublished(Slug),
}

/// Counts, and prints.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let now = Utc::now();
    let plugin = match &args.plugin {
        Some(plugin) if !args.history => plugin,
        plugin => {
            let report = history::read(plugin.as_ref(), args.days, config, now)?;
            if let Some(plugin) = plugin.as_ref().filter(|_| report.history.is_empty()) {
                require_entry(plugin, config)?;
            }
            return history::print(plugin.as_ref(), &report, args.json);
        }
    };
    let mut count = UsageCount::new(plugin.clone());
    for (license, host, report) in &stored_sites::reports(config)?? {
        let version = report.current_versions.get(plugin);
        let is_other = |wanted: &Version| version.is_none_or(|version| !is_version(version, wanted));
        if !args.version.as_ref().is_some_and(is_other) {
            count.add(license, host, report);
        }
    }
    if args.sites {
        return sites(args, plugin, count, config, now);
    }
    let withheld = withheld(plugin, config);
    let usage = count.finish(args.days, now);
    let usage = usage
        .with_releases(&config.paths.releases, &withheld, now)
        .map_err(Failure::input)?;
    let usage = usage.ok_or_else(|| nothing(plugin, config))?;
    output::print(&if args.json { output::json(&usage)? } else { text(&usage) })
}

/// Whether a site means this version with what it wrote.
fn is_version(written: &str, version: &Version) -> bool {
    written == version.as_str()
        || written
            .parse::<Version>()
            .is_ok_and(|written| written.cmp_php(version).is_eq())
}

/// The versions that the plugin's entry withholds.
fn withheld(plugin: &Slug, config: &Config) -> Vec<Version> {
    let entries = plugins::load(&RegistryFiles::folder(&config.paths.registry)).unwrap_or_default();
    let entry = entries.into_iter().find(|entry| entry.slug.as_ref() == Some(plugin));
    entry
        .and_then(|entry| entry.plugin.ok())
        .map_or(Vec::new(), |plugin| plugin.withhold)
}

/// A site with its license, for `--json`.
#[derive(Serialize)]
struct SiteView<'a> {
    host: &'a str,
    version: &'a str,
    last_seen: DateTime<Utc>,
    license: LicenseId,
    #[serde(skip_serializing_if = "str::is_empty")]
    note: &'a str,
    /// The shop's order of a license that a program issued.
    #[serde(skip_serializing_if = "str::is_empty")]
    reference: &'a str,
}

/// Lists the sites, with what is known of their licenses.
fn sites(args: &Args, plugin: &Slug, count: UsageCount, config: &Config, now: DateTime<Utc>) -> Result<Exit, Failure> {
    let sites = count.sites(args.days, now);
    let registry = Registry::load_licenses(&config.paths.registry)?;
    let known = KnownLicenses::new(registry, stored_sites::issued_licenses(config)?);
    let issued: Vec<_> = sites.iter().map(|site| known.issued_with_id(&site.license)).collect();
    let orders = KeptTexts::of_orders(issued.iter().copied().flatten(), config);
    let views = sites.iter().zip(&issued).map(|(site, issued)| SiteView {
        host: site.host.as_str(),
        version: &site.version,
        last_seen: site.last_seen,
        license: site.license,
        note: known.with_id(&site.license).map_or("", |license| &license.details.note),
        reference: issued
            .and_then(|issued| orders.order(issued)?.text())
            .unwrap_or_default(),
    });
    let views: Vec<_> = views.collect();
    if args.json {
        return output::print(&output::json(&views)?);
    }
    let version = args
        .version
        .as_ref()
        .map_or(String::new(), |version| format!(" {version}"));
    let days = counted(args.days, "day");
    let mut text = format!(
        "{plugin}{version}: {} in the last {days}\n",
        counted(views.len(), "site")
    );
    if !views.is_empty() {
        let mut table = Table::new(["HOST", "VERSION", "LAST SEEN", "LICENSE", "ORDER", "NOTE"]);
        for view in &views {
            let order = if view.reference.is_empty() { "-" } else { view.reference };
            let day = view.last_seen.date_naive();
            table.row([
                &view.host,
                &view.version,
                &day,
                &view.license.log_tag(),
                &order,
                &view.note,
            ]);
        }
        text += &table.to_string();
    }
    output::print(&text)
}

/// Why there is nothing to show of this plugin.
pub(super) fn nothing(plugin: &Slug, config: &Config) -> Failure {
    match require_entry(plugin, config) {
        Ok(()) => Failure::input(UsageError::NothingPublished(plugin.clone()))
            .hint("`countersign build` publishes what its repository has; it says why if it publishes nothing"),
        Err(failure) => failure,
    }
}

/// Fails if the registry has no entry of this plugin.
fn require_entry(plugin: &Slug, config: &Config) -> Result<(), Failure> {
    let entries = plugins::load(&RegistryFiles::folder(&config.paths.registry)).unwrap_or_default();
    match entries.iter().any(|entry| entry.slug.as_ref() == Some(plugin)) {
        true => Ok(()),
        false => Err(Failure::input(UsageError::Unknown(plugin.clone()))
            .hint("give the name of a file in registry/plugins/, without .toml")),
    }
}

fn text(usage: &PluginUsage) -> String {
    let PluginUsage {
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
    let within = match days {
        1 => "day".to_owned(),
        days => format!("{days} days"),
    };
    let mut text = format!("{plugin}: {} in the last {within}{latest}\n", counted(*sites, "site"));
    if *silent > 0 {
        let sites = counted(*silent, "more site");
        let have = if *silent == 1 { "has" } else { "have" };
        text += &format!("{sites} ran it and {have} been silent for longer\n");
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
            &match used.withheld {
                true => "withheld".to_owned(),
                false => used.released.map_or_else(dash, |day| day.to_string()),
            },
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
    use crate::serve::plugin_usage::UsedVersion;

    #[test]
    fn versions_are_shown_with_their_shares() {
        let used = UsedVersion {
            version: "1.1".to_owned(),
            sites: 2,
            share: 0.6667,
            withheld: true,
            released: None,
            age_days: None,
            releases_behind: None,
            last_seen: Utc::now(),
        };
        let text = text(&PluginUsage {
            plugin: "acme".parse().unwrap(),
            latest: None,
            days: 30,
            sites: 3,
            silent: 1,
            versions: vec![used],
        });
        assert!(
            text.contains("acme: 3 sites in the last 30 days\n1 more site ran it and has been"),
            "{text}"
        );
        assert!(text.contains("66.7 %  withheld  -"), "{text}");
    }
}
