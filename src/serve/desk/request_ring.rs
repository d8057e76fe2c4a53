//! How many requests the server answered in each quarter of an hour of the last day. In memory: a restart begins again.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, TimeDelta, Utc};
use strum::IntoEnumIterator as _;

use crate::serve::metrics::{Operation, Requests};
use crate::serve::reply::outcome::Code;

/// The quarters of a day.
const QUARTERS: usize = 96;

/// The length of a quarter in seconds.
const QUARTER: i64 = 15 * 60;

/// Counts of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestTotals {
    pub(super) all: u64,
    /// Those that the server could not answer.
    pub(super) failed: u64,
}

impl From<&Requests> for RequestTotals {
    fn from(requests: &Requests) -> Self {
        let mut totals = Self::default();
        for (code, count) in Operation::iter().flat_map(|operation| requests.of(operation).outcomes.iter()) {
            totals.all += count.get();
            if matches!(code, Code::Internal | Code::StoreUnavailable | Code::PackageUnavailable) {
                totals.failed += count.get();
            }
        }
        totals
    }
}

/// The quarters of the last day that had requests or a look, the oldest first.
#[derive(Debug, Default)]
pub(super) struct RequestRing(Mutex<RingState>);

#[derive(Debug, Default)]
struct RingState {
    last: RequestTotals,
    quarters: VecDeque<(DateTime<Utc>, RequestTotals)>,
}

impl RequestRing {
    /// Adds what was counted since the last look to the quarter of `now`.
    pub(super) fn note(&self, totals: RequestTotals, now: DateTime<Utc>) {
        let Some(quarter) = DateTime::from_timestamp(now.timestamp().div_euclid(QUARTER) * QUARTER, 0) else {
            return;
        };
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = totals.all.saturating_sub(state.last.all);
        let failed = totals.failed.saturating_sub(state.last.failed);
        state.last = totals;
        match state.quarters.back_mut() {
            // Also where the clock was set back.
            Some((last, counts)) if *last >= quarter => {
                counts.all += all;
                counts.failed += failed;
            }
            _ => state.quarters.push_back((quarter, RequestTotals { all, failed })),
        }
        let oldest = quarter - TimeDelta::days(1);
        while state.quarters.len() > QUARTERS || state.quarters.front().is_some_and(|(from, _)| *from <= oldest) {
            state.quarters.pop_front();
        }
    }

    /// The quarters, each with its beginning, the newest first.
    pub(super) fn quarters(&self) -> Vec<(DateTime<Utc>, RequestTotals)> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.quarters.iter().rev().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_has_96_quarters_and_each_request_is_in_one() {
        let ring = RequestRing::default();
        let at = |minutes: i64| DateTime::from_timestamp(1_800_000_000 + minutes * 60, 0).unwrap();
        let totals = |all, failed| RequestTotals { all, failed };
        ring.note(totals(5, 0), at(1));
        ring.note(totals(7, 1), at(14));
        ring.note(totals(7, 1), at(16));
        ring.note(totals(10, 1), at(29));
        assert_eq!(ring.quarters(), [(at(15), totals(3, 0)), (at(0), totals(7, 1))]);
        // The clock is set back.
        ring.note(totals(11, 1), at(3));
        assert_eq!(ring.quarters()[0], (at(15), totals(4, 0)));
        for quarter in 2..200 {
            ring.note(totals(11, 1), at(quarter * 15));
        }
        assert_eq!((ring.quarters().len(), ring.quarters()[0].0), (QUARTERS, at(199 * 15)));
        // A pause longer than a day.
        ring.note(totals(12, 1), at(1_000 * 15));
        assert_eq!(ring.quarters(), [(at(1_000 * 15), totals(1, 0))]);
    }
}
