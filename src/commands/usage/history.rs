//! `countersign usage --history`: what was counted day by day, of one plugin or of each.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use crate::build::counted;
use crate::commands::output::Table;
use crate::commands::store::{store_failure, store_source};
use crate::commands::{Exit, Failure, output};
use crate::serve::history_report::{HistoryReport, MOST_DAYS};
use countersign_ledger::DayHistory;
use countersign_model::day_counts::{DayCounts, NamedCounts};
use countersign_model::slug::Slug;
use countersign_settings::config::Config;

/// How many versions of WordPress or PHP are shown.
const MOST_SERIES: usize = 6;

/// What was counted on so many days.
pub(in crate::commands) fn read(
    plugin: Option<&Slug>,
    days: u16,
    config: &Config,
    now: DateTime<Utc>,
) -> Result<HistoryReport, Failure> {
    let days = days.min(MOST_DAYS);
    let range = HistoryReport::range(plugin.cloned(), days, now.date_naive());
    let read = DayHistory::reader(store_source(&config.paths)).read(&range, &[]);
    let lines = read.map_err(store_failure)?;
    Ok(HistoryReport::new(days, &range, lines))
}

/// Prints it.
pub(super) fn print(plugin: Option<&Slug>, report: &HistoryReport, json: bool) -> Result<Exit, Failure> {
    output::print(&if json {
        output::json(report)?
    } else {
        text(plugin, report)
    })
}

fn text(plugin: Option<&Slug>, report: &HistoryReport) -> String {
    let of = plugin.map_or_else(|| "all plugins".to_owned(), ToString::to_string);
    let days = counted(report.days, "day");
    if report.history.is_empty() {
        return format!("{of}: nothing was counted in {days}\n");
    }
    let mut rows: BTreeMap<String, DayCounts> = BTreeMap::new();
    let mut all = DayCounts::default();
    for line in &report.history {
        let name = match (plugin, &line.plugin) {
            (Some(_), _) => line.day.to_string(),
            (None, Some(plugin)) => plugin.to_string(),
            (None, None) => "-".to_owned(),
        };
        let row = rows.entry(name).or_default();
        // Of several days, the last that knows the sites counts.
        if !line.counts.sites.is_empty() {
            row.sites.clear();
        }
        row.add(&line.counts);
        all.add(&line.counts);
    }
    let first = if plugin.is_some() { "DAY" } else { "PLUGIN" };
    let mut table = Table::new([
        first,
        "SITES",
        "UPDATES",
        "SENT",
        "VALIDATIONS",
        "REFUSED",
        "SOLD",
        "RENEWED",
        "ENDED",
    ]);
    let sum = |counts: &NamedCounts| counts.values().sum::<u64>();
    let mut rows: Vec<_> = rows.into_iter().collect();
    if plugin.is_some() {
        rows.reverse();
    }
    for (name, counts) in &rows {
        let sites = match sum(&counts.sites) {
            0 => "-".to_owned(),
            sites => sites.to_string(),
        };
        let validations = sum(&counts.validations);
        let refused = validations - counts.validations.get("ok").copied().unwrap_or_default();
        table.row([
            name,
            &sites,
            &sum(&counts.updates),
            &counts.downloads,
            &validations,
            &refused,
            &counts.sold,
            &counts.renewed,
            &counts.ended,
        ]);
    }
    let mut text = format!("{of}: {days}, by UTC\n{table}");
    for (platform, counts) in [("WordPress", &all.wordpress), ("PHP", &all.php)] {
        if !counts.is_empty() {
            text += &format!("{platform}, by validations: {}\n", shares(counts));
        }
    }
    text
}

/// The most frequent first, in percent.
fn shares(counts: &NamedCounts) -> String {
    let all = counts.values().sum::<u64>().max(1);
    let mut sorted: Vec<_> = counts.iter().collect();
    sorted.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let most_used = sorted.iter().take(MOST_SERIES);
    let shares: Vec<_> = most_used
        .map(|(name, count)| format!("{name} {:.1} %", **count as f64 * 100.0 / all as f64))
        .collect();
    shares.join(", ")
}
