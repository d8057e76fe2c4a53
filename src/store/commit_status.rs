//! The status of the group commit: what fails since when, and its counters.
//!
//! The thread of `group_commit` writes it. [`StoreHealth`] and [`Figures`](crate::store::Figures) are read from it, and
//! `serve::ops::openmetrics` shows them.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use chrono::{DateTime, Utc};

use crate::histogram::Histogram;

use crate::store::error::StoreError;
use crate::store::health::StoreHealth;

/// Counters of the group commit.
#[derive(Default)]
pub(crate) struct CommitCounts {
    /// Duration of each group commit, failures included: `countersign_ledger_sync_seconds`.
    pub syncs: Histogram,
    /// Bindings that could not be written to disk.
    pub failures: AtomicU64,
    /// Failed writes of the index or reports.
    pub index_failures: AtomicU64,
}

/// Whether the log and the index can be written.
pub(crate) struct CommitStatus {
    pub ledger: FailureState<LedgerFailure>,
    pub index: FailureState<Arc<str>>,
}

/// Why the log cannot be written.
#[derive(Clone, PartialEq)]
pub(crate) enum LedgerFailure {
    /// The backend failed.
    NotDurable(Arc<str>),
    /// The thread has ended.
    Closed,
}

/// What fails, if anything, and since when.
pub(crate) struct FailureState<F> {
    pub failure: Option<F>,
    since: DateTime<Utc>,
}

impl CommitStatus {
    /// Nothing fails.
    pub(super) fn new() -> Self {
        Self {
            ledger: FailureState::new(None),
            index: FailureState::new(None),
        }
    }

    /// The health to report: a failing log is worse than a failing index.
    pub(super) fn health(&self) -> StoreHealth {
        let Self { ledger, index } = self;
        match (&ledger.failure, &index.failure) {
            (Some(LedgerFailure::Closed), _) => StoreHealth {
                state: Err(StoreError::Closed),
                since: ledger.since,
            },
            (Some(LedgerFailure::NotDurable(reason)), _) => StoreHealth {
                state: Err(StoreError::NotDurable(reason.clone())),
                since: ledger.since,
            },
            (None, Some(reason)) => StoreHealth {
                state: Err(StoreError::NotIndexed(reason.clone())),
                since: index.since,
            },
            (None, None) => StoreHealth {
                state: Ok(()),
                since: ledger.since.max(index.since),
            },
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
