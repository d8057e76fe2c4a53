//! How the group commit goes: what fails since when, and what is counted.
//!
//! The thread writes it; [`StoreHealth`] and the figures are read from it.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use chrono::{DateTime, Utc};

use crate::histogram::Histogram;

use crate::store::error::StoreError;
use crate::store::health::StoreHealth;

/// How writing went.
#[derive(Default)]
pub(crate) struct CommitCounts {
    /// How long the ledger took, failures included.
    pub syncs: Histogram,
    /// Bindings that did not become durable.
    pub failures: AtomicU64,
    /// Times that the index or reports could not be written.
    pub index_failures: AtomicU64,
}

/// Whether the log and the index can be written.
pub(crate) struct CommitStatus {
    pub ledger: FailureState<LedgerFailure>,
    pub index: FailureState<Arc<str>>,
}

/// Why the log is not written.
#[derive(Clone, PartialEq)]
pub(crate) enum LedgerFailure {
    /// The backend failed.
    NotDurable(Arc<str>),
    /// The thread ended.
    Closed,
}

/// What fails, if something does, and since when it is so.
pub(crate) struct FailureState<F> {
    pub failure: Option<F>,
    since: DateTime<Utc>,
}

impl CommitStatus {
    /// All is well.
    pub(super) fn new() -> Self {
        Self {
            ledger: FailureState::new(None),
            index: FailureState::new(None),
        }
    }

    /// As the store tells it: a log that is not written is worse than an index that is not.
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

    /// Whether it began or ceased to fail; what fails may be told in other words each time.
    pub(super) fn set(&mut self, failure: Option<F>) -> bool {
        let news = self.failure.is_some() != failure.is_some();
        *self = Self {
            failure,
            since: if news { Utc::now() } else { self.since },
        };
        news
    }
}
