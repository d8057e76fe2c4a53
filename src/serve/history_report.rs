//! What was counted on the last days, for `countersign usage --history`, the management API and the desk; and the history that a
//! running server reads and writes.

use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, Days, NaiveDate, Utc};
use serde::Serialize;
use tokio::task::spawn_blocking;

use crate::serve::reply::problem::Problem;
use countersign_ledger::{DayHistory, DayRange, StoreError};
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
}

/// The history of a running server's store; nothing before it is kept, and after it ended.
#[derive(Clone, Default)]
pub(crate) struct KeptHistory(Arc<Mutex<Option<DayHistory>>>);

impl KeptHistory {
    /// Keeps the history of the server's store from now on.
    pub(crate) fn open(&self, history: DayHistory) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(history);
    }

    /// Lets go of it. Blocks: a connection to a database ends.
    pub(crate) fn close(&self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Does something with the history. Blocks.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut DayHistory) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.as_mut().map_or(Err(StoreError::Closed), work)
    }

    /// Reads the lines in a range, with `own`, what this server counted until now.
    pub(crate) async fn read(&self, range: DayRange, own: Vec<DayLine>) -> Result<Vec<DayLine>, Problem> {
        let kept = self.clone();
        let read = spawn_blocking(move || kept.with(|history| history.read(&range, &own))).await;
        let read = read.map_err(|error| Problem::internal(&error))?;
        read.map_err(|error| {
            tracing::error!(%error, "the history cannot be read");
            Problem::StoreUnavailable
        })
    }

    /// The report of the last days, with `own`, what this server counted until now.
    pub(crate) async fn report(
        &self,
        plugin: Option<Slug>,
        days: u16,
        own: Vec<DayLine>,
        now: DateTime<Utc>,
    ) -> Result<HistoryReport, Problem> {
        let range = HistoryReport::range(plugin, days, now.date_naive());
        let history = self.read(range.clone(), own).await?;
        Ok(HistoryReport::new(days, &range, history))
    }
}
