//! The status of the group commit: what fails since when, and its counters.
//!
//! The thread of `commit_writer` writes it. [`StoreHealth`] and [`Figures`](crate::store::Figures) are read from it, and
//! `serve::ops::openmetrics` shows them.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use crate::histogram::Histogram;

use crate::store::backend_error::BackendError;
use crate::store::clock_lead::ClockLead;
use crate::store::error::StoreError;
use crate::store::health::StoreHealth;
use crate::store::ledger_state::LedgerState;
use crate::store::log::Position;
use crate::store::sleep_watch::since_boot;

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
    /// When a shared log was last read, by a clock that runs while the machine sleeps.
    read_at: Option<Duration>,
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
    /// Nothing fails.
    pub(super) fn new(is_shared: bool, end: Option<Position>) -> Self {
        Self {
            ledger: FailureState::new(None),
            index: FailureState::new(None),
            clock: FailureState::new(None),
            clock_lead: None,
            is_closed: false,
            end,
            read_at: is_shared.then(since_boot),
        }
    }

    /// Notes the result of a commit or a look at the log; whether it started or stopped failing.
    pub(super) fn note(&mut self, failure: Option<LedgerFailure>) -> bool {
        if failure.is_none() && self.read_at.is_some() {
            self.read_at = Some(since_boot());
        }
        self.ledger.set(failure)
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
            age: self.read_at.map(|at| since_boot().saturating_sub(at)),
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
