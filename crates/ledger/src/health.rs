//! The health and the counters of the store: what fails since when.
//!
//! The thread of `commit_writer` writes [`CommitStatus`]; [`StoreHealth`] and [`Figures`] are read from it, and
//! `serve::ops::openmetrics` shows them.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use crate::error::{BackendError, ClockLead, LedgerState, StoreError};
use crate::log::Position;
use crate::sleep_watch::since_boot;
use countersign_files::histogram::{Durations, Histogram};

/// The health of the store.
#[derive(Debug)]
pub struct StoreHealth {
    /// The current failure, if any. The store keeps trying. After [`StoreError::NotIndexed`] and
    /// [`StoreError::ClockDiffers`] it still binds.
    pub state: Result<(), StoreError>,
    /// Since when.
    pub since: DateTime<Utc>,
    /// The state of the log.
    pub ledger: LedgerState,
    /// How long ago this node last had every line of a log that it shares; `None` if it shares none.
    pub age: Option<Duration>,
    /// How far this machine's clock is ahead of that of a log that it shares.
    pub clock_lead: Option<TimeDelta>,
}

/// The store's counters; a store without counters has none.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Durable bindings, void ones included.
    pub bindings: usize,
    /// Time to write a group of bindings to disk.
    pub syncs: Durations,
    /// Requests to bind that failed, because the log could not be written.
    pub failures: u64,
    /// How often the index and reports could not be written.
    pub index_failures: u64,
    /// Reports of sites and refused hosts that were dropped.
    pub reports_dropped: u64,
}

/// Counters of the group commit.
#[derive(Default)]
pub(crate) struct CommitCounts {
    /// Duration of each group commit, failures included: `countersign_ledger_sync_seconds`.
    pub syncs: Histogram,
    /// Requests to bind that failed.
    pub failures: AtomicU64,
    /// Failed writes of the index or reports.
    pub index_failures: AtomicU64,
}

/// Whether the log and the index can be written.
pub(crate) struct CommitStatus {
    ledger: FailureState<LedgerFailure>,
    pub index: FailureState<Arc<str>>,
    clock: FailureState<ClockLead>,
    clock_lead: Option<TimeDelta>,
    is_closed: bool,
    /// The last durable line.
    pub end: Option<Position>,
    /// The last look at a log that other nodes write, too.
    last_look: Option<LastLook>,
}

/// When memory had every line of the log.
struct LastLook {
    /// By a clock that runs while the machine sleeps.
    at: Duration,
    /// How old memory was then: not 0 after a start without the log.
    age: Duration,
}

/// Why the log cannot be written.
#[derive(Clone)]
pub(crate) struct LedgerFailure {
    /// Which kind of failure.
    pub state: LedgerState,
    /// What failed.
    pub reason: Arc<str>,
}

impl From<BackendError> for LedgerFailure {
    fn from(error: BackendError) -> Self {
        Self {
            state: error.state,
            reason: error.message.into(),
        }
    }
}

/// What fails, if anything, and since when.
pub(crate) struct FailureState<F> {
    pub failure: Option<F>,
    since: DateTime<Utc>,
}

impl CommitStatus {
    /// Nothing fails. Of a log that other nodes write, too, memory is of this `age`.
    pub(super) fn new(age: Option<Duration>, end: Option<Position>) -> Self {
        Self {
            ledger: FailureState::new(None),
            index: FailureState::new(None),
            clock: FailureState::new(None),
            clock_lead: None,
            is_closed: false,
            end,
            last_look: age.map(|age| LastLook { at: since_boot(), age }),
        }
    }

    /// Notes the result of a commit or a look at the log; whether it started or stopped failing.
    pub(super) fn note(&mut self, failure: Option<LedgerFailure>) -> bool {
        self.ledger.set(failure)
    }

    /// Notes that memory has the log up to `end`: all that was there at `begun`, when the look began.
    pub(super) fn note_look(&mut self, begun: Duration, end: Option<Position>) {
        self.end = end;
        if let Some(look) = &mut self.last_look {
            *look = LastLook {
                at: begun,
                age: Duration::ZERO,
            };
        }
    }

    /// Notes how far this machine's clock is ahead of the log's; whether that became too much, or ceased to be.
    pub(super) fn note_clock(&mut self, lead: Option<TimeDelta>) -> bool {
        self.clock_lead = lead;
        self.clock.set(lead.map(ClockLead).filter(ClockLead::is_too_much))
    }

    /// How far the clocks differ, if that is too much.
    pub(super) fn clock_differs(&self) -> Option<ClockLead> {
        self.clock.failure
    }

    /// Why nothing can be appended to the log, if so.
    pub(super) fn refusal(&self) -> Option<StoreError> {
        let failure = self.ledger.failure.as_ref();
        let refused = failure.map(|failure| StoreError::NotDurable(failure.reason.clone()));
        self.is_closed.then_some(StoreError::Closed).or(refused)
    }

    /// Whether the log cannot be written.
    pub(super) fn is_failing(&self) -> bool {
        self.ledger.failure.is_some()
    }

    /// The thread has ended.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
        self.ledger = FailureState::new(None);
    }

    /// The health to report: a failing log is worse than a wrong clock, and that is worse than a failing index.
    pub(super) fn health(&self) -> StoreHealth {
        let Self {
            ledger, index, clock, ..
        } = self;
        let since = ledger.since;
        let (ledger_state, state, since) = match (&ledger.failure, &index.failure) {
            _ if self.is_closed => (LedgerState::Closed, Err(StoreError::Closed), since),
            (Some(failure), _) => (
                failure.state,
                Err(StoreError::NotDurable(failure.reason.clone())),
                since,
            ),
            (None, _) if let Some(lead) = clock.failure => (
                LedgerState::ClockDiffers,
                Err(StoreError::ClockDiffers(lead)),
                clock.since,
            ),
            (None, Some(reason)) => (
                LedgerState::Ok,
                Err(StoreError::NotIndexed(reason.clone())),
                index.since,
            ),
            (None, None) => (LedgerState::Ok, Ok(()), since.max(index.since).max(clock.since)),
        };
        StoreHealth {
            state,
            since,
            ledger: ledger_state,
            age: self
                .last_look
                .as_ref()
                .map(|look| since_boot().saturating_sub(look.at) + look.age),
            clock_lead: self.clock_lead,
        }
    }
}

impl<F> FailureState<F> {
    pub(super) fn new(failure: Option<F>) -> Self {
        Self {
            failure,
            since: Utc::now(),
        }
    }

    /// Whether it started or stopped failing. The error's text may change each time.
    pub(super) fn set(&mut self, failure: Option<F>) -> bool {
        let news = self.failure.is_some() != failure.is_some();
        *self = Self {
            failure,
            since: if news { Utc::now() } else { self.since },
        };
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_a_shared_log_is_as_old_as_the_last_look_at_it() {
        let minute = Duration::from_secs(60);
        let mut status = CommitStatus::new(Some(minute), None);
        let age = |status: &CommitStatus| status.health().age.unwrap();
        let failure = LedgerFailure {
            state: LedgerState::Unreachable,
            reason: "away".into(),
        };
        status.note(Some(failure));
        assert!(age(&status) >= minute);
        // The database answers again, and nothing was read yet.
        status.note(None);
        assert!(age(&status) >= minute);
        status.note_look(since_boot(), None);
        assert!(age(&status) < minute);

        let mut alone = CommitStatus::new(None, None);
        alone.note_look(since_boot(), None);
        assert_eq!(alone.health().age, None);
    }
}
