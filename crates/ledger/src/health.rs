//! The health and the counters of the store.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use crate::error::StoreError;
use crate::ledger_state::LedgerState;
use countersign_files::histogram::Durations;

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
