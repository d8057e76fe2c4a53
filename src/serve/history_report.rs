//! What was counted on the last days, for `countersign usage --history`, the management API and the desk.

use chrono::{DateTime, Days, NaiveDate, Utc};
use serde::Serialize;

use crate::serve::reply::problem::Problem;
use crate::serve::state::Service;
use countersign_ledger::DayRange;
use countersign_model::day_counts::DayLine;
use countersign_model::slug::Slug;

/// The most days of a report.
pub const MOST_DAYS: u16 = 3_660;

/// What was counted on the last days.
#[derive(Clone, Debug, Serialize)]
pub struct HistoryReport {
    /// How many days, with the one that runs.
    pub days: u16,
    /// The first.
    pub since: NaiveDate,
    /// Sorted by day and plugin.
    pub history: Vec<DayLine>,
}

impl HistoryReport {
    /// The lines to read for so many days.
    pub fn range(plugin: Option<Slug>, days: u16, today: NaiveDate) -> DayRange {
        let since = today
            .checked_sub_days(Days::new(u64::from(days.max(1)) - 1))
            .unwrap_or(today);
        DayRange { plugin, since }
    }

    /// The report of these lines.
    pub fn new(days: u16, range: &DayRange, history: Vec<DayLine>) -> Self {
        let since = range.since;
        Self { days, since, history }
    }

    /// The report of a running server.
    pub(crate) async fn of_server(
        service: &Service,
        plugin: Option<Slug>,
        days: u16,
        now: DateTime<Utc>,
    ) -> Result<Self, Problem> {
        let range = Self::range(plugin, days, now.date_naive());
        let history = service.history.read(range.clone(), service.tally.lines()).await?;
        Ok(Self::new(days, &range, history))
    }
}
