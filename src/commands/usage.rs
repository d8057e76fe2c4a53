//! `countersign usage`: which versions of a plugin sites run, how many of them, and how old those versions are.
//!
//! What a site reports is what it says. A site that has been silent for long is counted apart.

use chrono::Utc;
use clap_complete::engine::ArgValueCompleter;

use crate::commands::output::Table;
use crate::commands::{Exit, Failure, candidates, output, stored_sites};
use crate::config::Config;
use crate::model::slug::Slug;
use crate::serve::plugin_usage::{PluginUsage, UsageCount};

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

/// Counts, and prints.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let now = Utc::now();
    let mut count = UsageCount::new(args.plugin.clone());
    for (_, host, report) in &stored_sites::reports(config)?? {
        count.add(host, report);
    }
    let usage = count.finish(args.days, now);
    let usage = usage
        .with_releases(&config.paths.releases, now)
        .map_err(Failure::input)?;
    let usage = usage.ok_or_else(|| {
        Failure::input(UnknownPlugin(args.plugin.clone()))
            .hint("give the name of a file in registry/plugins/, without .toml")
    })?;
    output::print(&if args.json { output::json(&usage)? } else { text(&usage) })
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
    use crate::serve::plugin_usage::UsedVersion;

    #[test]
    fn versions_are_shown_with_their_shares() {
        let used = UsedVersion {
            version: "1.1".to_owned(),
            sites: 2,
            share: 0.6667,
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
            text.contains("acme: 3 sites in the last 30 days\n1 more sites"),
            "{text}"
        );
        assert!(text.contains("66.7 %"), "{text}");
    }
}
