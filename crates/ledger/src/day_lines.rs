//! Lines of the history: which are asked for, and how those of several servers become one.

use std::collections::BTreeMap;

use chrono::NaiveDate;

use countersign_model::day_counts::{DayCounts, DayLine};
use countersign_model::slug::Slug;

/// For how many days the counts by the quarter of an hour are kept.
pub(crate) const QUARTERS_FOR: u64 = 7;

/// Which lines to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DayRange {
    /// Of this plugin only.
    pub plugin: Option<Slug>,
    /// The first day.
    pub since: NaiveDate,
}

impl DayRange {
    pub(crate) fn has(&self, line: &DayLine) -> bool {
        line.day >= self.since && (self.plugin.is_none() || line.plugin == self.plugin)
    }
}

/// One line for each day and plugin, in their order.
pub(crate) fn sums<'a>(lines: impl IntoIterator<Item = &'a DayLine>) -> Vec<DayLine> {
    let mut sums: BTreeMap<(NaiveDate, Option<&Slug>), DayCounts> = BTreeMap::new();
    for line in lines {
        sums.entry((line.day, line.plugin.as_ref()))
            .or_default()
            .add(&line.counts);
    }
    let sums = sums.into_iter().map(|((day, plugin), mut counts)| {
        counts.limit();
        DayLine {
            day,
            plugin: plugin.cloned(),
            counts,
        }
    });
    sums.collect()
}

/// The final lines of a day; at least one, so that the day is known to be over.
pub(crate) fn final_lines(day: NaiveDate, counted: &[DayLine], more: &[DayLine]) -> Vec<DayLine> {
    let mut lines = sums(counted.iter().chain(more).filter(|line| line.day == day));
    lines.retain(|line| !line.counts.is_empty());
    if lines.is_empty() {
        lines.push(DayLine {
            day,
            plugin: None,
            counts: DayCounts::default(),
        });
    }
    lines
}
