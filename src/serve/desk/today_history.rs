//! What Today shows of the history: yesterday in a line, the licenses of each week, and the sites of the plugin that has the most.

use std::collections::BTreeMap;

use chrono::{Datelike as _, Days, NaiveDate};

use crate::serve::desk::asked::Asked;
use crate::serve::desk::charts::{Chart, ChartSeries};
use crate::serve::desk::figures::LicenseFigures;
use crate::serve::desk::plugin_history;
use countersign_model::day_counts::{DayCounts, DayLine, add_counts};
use countersign_model::slug::Slug;
use countersign_model::text::outside_text::OutsideText;

/// The weeks of the charts, with the one that runs.
const WEEKS: u64 = 13;

/// What the page shows.
#[derive(Default)]
pub(super) struct TodayHistory {
    pub(super) yesterday: Option<String>,
    pub(super) licenses: Option<Chart>,
    pub(super) sites: Option<SitesOfPlugin>,
}

/// The versions that the sites of a plugin ran.
pub(super) struct SitesOfPlugin {
    pub(super) slug: Slug,
    pub(super) name: OutsideText,
    pub(super) chart: Chart,
}

impl TodayHistory {
    /// Nothing where the history cannot be read: the page says all the same what does not work.
    pub(super) async fn of(asked: &Asked<'_>, figures: &LicenseFigures) -> Self {
        let weeks = weeks(asked.today());
        let days = weeks.first().map_or(0, |first| (asked.today() - *first).num_days() + 1);
        let days = u16::try_from(days).unwrap_or(u16::MAX);
        let own = asked.state.service.tally.lines();
        let Ok(report) = asked.state.service.history.report(None, days, own, asked.now).await else {
            return Self::default();
        };
        let lines = &report.history;
        let yesterday = asked.today().pred_opt();
        Self {
            yesterday: yesterday.and_then(|day| all_plugins(lines, day)),
            licenses: licenses(lines, &weeks, figures),
            sites: sites(asked, lines),
        }
    }
}

/// The Mondays of the last weeks.
fn weeks(today: NaiveDate) -> Vec<NaiveDate> {
    let monday = today - Days::new(u64::from(today.weekday().num_days_from_monday()));
    (0..WEEKS).rev().map(|ago| monday - Days::new(7 * ago)).collect()
}

/// What happened on a day with all plugins.
fn all_plugins(lines: &[DayLine], day: NaiveDate) -> Option<String> {
    let mut counts = DayCounts::default();
    for line in lines.iter().filter(|line| line.day == day) {
        add_counts(&mut counts.updates, &line.counts.updates);
        counts.downloads += line.counts.downloads;
        // That of no plugin has each license once.
        if line.plugin.is_none() {
            counts.sold = line.counts.sold;
            counts.renewed = line.counts.renewed;
            counts.ended = line.counts.ended;
        }
    }
    (!counts.is_empty()).then(|| plugin_history::said(&counts))
}

/// The licenses that were sold and renewed in these weeks.
fn licenses(lines: &[DayLine], weeks: &[NaiveDate], figures: &LicenseFigures) -> Option<Chart> {
    let first = weeks.first()?;
    let counted = |name: &str, today: u64, count: fn(&DayCounts) -> u64| {
        let mut values = vec![0; weeks.len()];
        for line in lines.iter().filter(|line| line.plugin.is_none()) {
            let week = usize::try_from((line.day - *first).num_days().div_euclid(7));
            if let Some(value) = week.ok().and_then(|week| values.get_mut(week)) {
                *value += count(&line.counts);
            }
        }
        if let Some(running) = values.last_mut() {
            *running += today;
        }
        ChartSeries {
            name: name.to_owned(),
            values,
        }
    };
    let bars = [
        counted("sold", figures.sold_today, |counts| counts.sold),
        counted("renewed", figures.renewed_today, |counts| counts.renewed),
    ];
    let ended = counted("ended", 0, |counts| counts.ended);
    Chart::weeks("Licenses sold and renewed each week", weeks, &bars, ended)
}

/// The sites of the plugin that has the most of them.
fn sites(asked: &Asked<'_>, lines: &[DayLine]) -> Option<SitesOfPlugin> {
    let mut newest: BTreeMap<&Slug, u64> = BTreeMap::new();
    for line in lines.iter().filter(|line| !line.counts.sites.is_empty()) {
        if let Some(plugin) = &line.plugin {
            newest.insert(plugin, line.counts.sites.values().sum());
        }
    }
    let of_registry = newest
        .into_iter()
        .filter_map(|(slug, count)| Some((asked.snapshot.registry.plugin(slug.as_str())?, count)));
    let (plugin, _) = of_registry.max_by_key(|(_, count)| *count)?;
    let name = asked.plugin_name(plugin);
    let lines = lines.iter().filter(|line| line.plugin.as_ref() == Some(&plugin.slug));
    let chart = plugin_history::sites(&format!("{name}, sites by version"), lines)?;
    Some(SitesOfPlugin {
        slug: plugin.slug.clone(),
        name,
        chart: Chart { is_low: true, ..chart },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_week_begins_on_monday_and_today_counts_for_the_one_that_runs() {
        let today: NaiveDate = "2026-11-25".parse().unwrap();
        let weeks = weeks(today);
        assert_eq!(weeks[0].to_string(), "2026-08-31");
        assert_eq!(weeks[12].to_string(), "2026-11-23");
        let line = |day: &str, plugin: Option<&str>, sold| DayLine {
            day: day.parse().unwrap(),
            plugin: plugin.map(|slug| slug.parse().unwrap()),
            counts: DayCounts {
                sold,
                renewed: 1,
                ..DayCounts::default()
            },
        };
        let lines = [
            line("2026-08-30", None, 900),
            line("2026-11-22", None, 2),
            line("2026-11-22", Some("acme-forms"), 2),
            line("2026-11-23", None, 3),
            line("2026-11-24", None, 4),
        ];
        let figures = LicenseFigures {
            sold_today: 5,
            ..LicenseFigures::default()
        };
        let chart = licenses(&lines, &weeks, &figures).unwrap();
        assert_eq!(
            chart.label,
            "Licenses sold and renewed each week. This week 12 sold and 2 renewed so far."
        );
        let before = chart.rows[1].clone();
        assert_eq!(
            (before.0.as_str(), before.1.join(" ").as_str()),
            ("16 Nov 2026", "2 1 0")
        );
        assert_eq!(chart.rows.len(), 2);
    }
}
