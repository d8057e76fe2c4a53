//! `countersign usage`: which versions of a plugin sites run, how many of them, and how old those versions are.
//!
//! What a site reports is what it says. A site that has been silent for long is counted apart.

use chrono::Utc;
use clap_complete::engine::ArgValueCompleter;

use crate::build::counted;
use crate::commands::output::Table;
use crate::commands::{Exit, Failure, candidates, output, stored_sites};
use crate::config::Config;
use crate::model::slug::Slug;
use crate::registry::{RegistryFiles, plugins};
use crate::serve::plugin_usage::{PluginUsage, UsageCount};

/// Show which versions of a plugin sites run
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  countersign usage acme-forms
  countersign usage acme-forms --days 7 --json

Sites say which version they run when they ask for updates, twice a day. A site counts if it asked \
within the last 30 days. While a server runs, it is asked for what sites reported.")]
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
enum UsageError {
    #[error("there is no plugin {0}")]
    Unknown(Slug),
    #[error("no release of {0} is published, and no site reports it")]
    NothingPublished(Slug),
}

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
    let usage = usage.ok_or_else(|| nothing(&args.plugin, config))?;
    output::print(&if args.json { output::json(&usage)? } else { text(&usage) })
}

/// Why there is nothing to show of this plugin.
fn nothing(plugin: &Slug, config: &Config) -> Failure {
    let entries = plugins::load(&RegistryFiles::folder(&config.paths.registry)).unwrap_or_default();
    match entries.iter().any(|entry| entry.slug.as_ref() == Some(plugin)) {
        true => Failure::input(UsageError::NothingPublished(plugin.clone()))
            .hint("`countersign build` publishes what its repository has; it says why if it publishes nothing"),
        false => Failure::input(UsageError::Unknown(plugin.clone()))
            .hint("give the name of a file in registry/plugins/, without .toml"),
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
            text.contains("acme: 3 sites in the last 30 days\n1 more site ran it and has been"),
            "{text}"
        );
        assert!(text.contains("66.7 %"), "{text}");
    }
}
