//! What the page of a plugin shows of its history: sites by version over time, the newest release of this week, and platforms.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use chrono::{Days, NaiveDate};

use crate::serve::desk::charts::{Chart, ChartSeries, MOST_AREAS};
use crate::serve::history_report::HistoryReport;
use crate::serve::pages::shown::{counted, grouped, percent};
use countersign_model::day_counts::{DayCounts, DayLine, NamedCounts, QUARTERS, REST};
use countersign_model::text::outside_text::OutsideText;
use countersign_model::version::Version;

/// The days that a visitor may choose.
pub(super) const PERIODS: [(u16, &str); 3] = [(30, "30 days"), (90, "90 days"), (365, "1 year")];

/// Days of the newest release and of platforms.
const WEEK: u64 = 7;

/// How many versions of a platform are shown.
const MOST_SERIES: usize = 6;

/// What the page shows.
#[derive(Default)]
pub(super) struct PluginHistory {
    pub(super) sites: Option<Chart>,
    pub(super) newest: Option<Chart>,
    pub(super) yesterday: Option<String>,
    pub(super) platforms: Vec<ShownPlatform>,
}

/// WordPress or PHP.
pub(super) struct ShownPlatform {
    pub(super) name: &'static str,
    /// Version, validations, and their share in percent.
    pub(super) rows: Vec<(OutsideText, String, usize)>,
}

/// The days that were asked for; 90 where none of the choices is.
pub(super) fn period(asked: &str) -> u16 {
    let chosen = PERIODS.iter().map(|(days, _)| *days);
    chosen.into_iter().find(|days| days.to_string() == asked).unwrap_or(90)
}

impl PluginHistory {
    /// Of the lines of one plugin.
    pub(super) fn of(report: &HistoryReport, latest: Option<&Version>, today: NaiveDate) -> Self {
        let of_week: Vec<_> = (0..WEEK)
            .rev()
            .filter_map(|ago| today.checked_sub_days(Days::new(ago)))
            .collect();
        let recent = report.history.iter().filter(|line| of_week.contains(&line.day));
        let mut week = DayCounts::default();
        recent.clone().for_each(|line| week.add(&line.counts));
        let newest = latest.and_then(|latest| {
            let mut values = Vec::new();
            for day in &of_week {
                let counted = recent.clone().find(|line| line.day == *day);
                let counted = counted.and_then(|line| line.counts.quarters.get(latest.as_str()));
                values.extend(
                    (0..QUARTERS).map(|quarter| counted.and_then(|day| day.get(&quarter)).copied().unwrap_or(0)),
                );
            }
            let name = latest.as_str().to_owned();
            Chart::line(
                &format!("Packages of {name} sent"),
                &of_week,
                &ChartSeries { name, values },
            )
        });
        let yesterday = today
            .pred_opt()
            .and_then(|day| report.history.iter().find(|line| line.day == day));
        let platforms = [("WordPress", &week.wordpress), ("PHP", &week.php)];
        Self {
            sites: sites("Sites by version", &report.history),
            newest,
            yesterday: yesterday.map(|line| said(&line.counts)),
            platforms: platforms
                .into_iter()
                .filter(|(_, counts)| !counts.is_empty())
                .map(|(name, counts)| platform(name, counts))
                .collect(),
        }
    }
}

/// What happened on a day, in one line.
pub(super) fn said(counts: &DayCounts) -> String {
    let number = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    let updates = counts.updates.get("update").copied().unwrap_or_default();
    format!(
        "{} offered, {} sent; licenses: {} sold, {} renewed, {} ended",
        counted(number(updates), "update"),
        counted(number(counts.downloads), "package"),
        grouped(number(counts.sold)),
        grouped(number(counts.renewed)),
        grouped(number(counts.ended)),
    )
}

fn platform(name: &'static str, counts: &NamedCounts) -> ShownPlatform {
    let number = |count: u64| usize::try_from(count).unwrap_or(usize::MAX / 400);
    let all = number(counts.values().sum());
    let mut sorted: Vec<_> = counts.iter().collect();
    sorted.sort_by_key(|(_, count)| Reverse(**count));
    let rows = sorted.into_iter().take(MOST_SERIES);
    let rows = rows.map(|(version, count)| {
        let count = number(*count);
        (OutsideText::of(version), grouped(count), percent(count, all))
    });
    ShownPlatform {
        name,
        rows: rows.collect(),
    }
}

/// The sites of each series of versions, on the days that know them.
pub(super) fn sites<'l>(title: &str, lines: impl IntoIterator<Item = &'l DayLine>) -> Option<Chart> {
    let known: Vec<_> = lines.into_iter().filter(|line| !line.counts.sites.is_empty()).collect();
    let days: Vec<_> = known.iter().map(|line| line.day).collect();
    let by_series: Vec<BTreeMap<Option<(u32, u32)>, u64>> = known
        .iter()
        .map(|line| {
            let mut counts = BTreeMap::new();
            for (version, count) in &line.counts.sites {
                *counts.entry(series_of(version)).or_default() += count;
            }
            counts
        })
        .collect();
    let all: BTreeSet<(u32, u32)> = by_series
        .iter()
        .flat_map(|counts| counts.keys().copied().flatten())
        .collect();
    let shown: Vec<_> = all.into_iter().rev().take(MOST_AREAS - 1).collect();
    let of = |series: (u32, u32)| ChartSeries {
        name: format!("{}.{}", series.0, series.1),
        values: by_series
            .iter()
            .map(|counts| counts.get(&Some(series)).copied().unwrap_or_default())
            .collect(),
    };
    let is_shown = |series: &Option<(u32, u32)>| series.is_some_and(|series| shown.contains(&series));
    let older = by_series.iter().map(|counts| {
        let older = counts.iter().filter(|(series, _)| !is_shown(series));
        older.map(|(_, count)| count).sum()
    });
    let older = ChartSeries {
        name: "older or other".to_owned(),
        values: older.collect(),
    };
    let has_older = older.values.iter().any(|count| *count > 0);
    let series: Vec<_> = shown
        .iter()
        .copied()
        .map(of)
        .chain(has_older.then_some(older))
        .collect();
    Chart::stacked(title, &days, &series)
}

/// The first two numbers of a version; `None` where it has none.
fn series_of(version: &str) -> Option<(u32, u32)> {
    let number = |part: &str| {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        part[..digits].parse().ok()
    };
    let mut parts = version.split('.');
    let major = number(parts.next().filter(|_| version != REST)?)?;
    Some((major, parts.next().and_then(number).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_shown_by_series_and_the_rest_together() {
        assert_eq!(
            ["2.6.0", "2.6-beta.1", "10", "other", "x", "2.x"].map(series_of),
            [Some((2, 6)), Some((2, 6)), Some((10, 0)), None, None, Some((2, 0))]
        );
        let day = |number: u32| NaiveDate::from_ymd_opt(2026, 11, number).unwrap();
        let line = |number| DayLine {
            day: day(number),
            plugin: None,
            counts: DayCounts {
                sites: (0..9).map(|minor| (format!("2.{minor}.0").into(), 1)).collect(),
                downloads: 1,
                wordpress: [("6.9".into(), 3), ("6.8".into(), 1)].into(),
                quarters: [("2.8.0".into(), [(4, 2)].into())].into(),
                ..DayCounts::default()
            },
        };
        let report = HistoryReport {
            days: 30,
            since: day(1),
            history: vec![line(8), line(9)],
        };
        let history = PluginHistory::of(&report, Some(&"2.8.0".parse().unwrap()), day(10));
        let sites = history.sites.unwrap();
        let keys: Vec<_> = sites
            .keys
            .iter()
            .map(|key| format!("{} {}", key.name, key.said))
            .collect();
        assert_eq!(keys[0], "2.8 1 · 11 %");
        assert_eq!(keys[5], "older or other 4 · 44 %");
        assert_eq!(history.newest.unwrap().label, "Packages of 2.8.0 sent in 7 days: 4.");
        assert_eq!(
            history.yesterday.as_deref(),
            Some("0 updates offered, 1 package sent; licenses: 0 sold, 0 renewed, 0 ended")
        );
        assert_eq!((history.platforms.len(), history.platforms[0].rows[0].2), (1, 75));
        assert_eq!([period("365"), period("31"), period("")], [365, 90, 90]);
    }
}
