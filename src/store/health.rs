//! What a store tells of itself: whether it is well, and what it counts.

use chrono::{DateTime, Utc};

use crate::histogram::Durations;
use crate::store::error::StoreError;

/// How the store is.
#[derive(Debug)]
pub struct StoreHealth {
    /// What failed, where something did; the store keeps trying, and binds all the same after
    /// [`StoreError::NotIndexed`].
    pub state: Result<(), StoreError>,
    /// Since when it is so.
    pub since: DateTime<Utc>,
}

/// What a store counts of itself; a store that counts nothing has none.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Durable bindings, void ones included.
    pub bindings: usize,
    /// How long it took to make bindings durable, each time for all who waited.
    pub syncs: Durations,
    /// Bindings that did not become durable.
    pub failures: u64,
    /// How often the index and reports could not be written.
    pub index_failures: u64,
    /// Reports of sites that were dropped.
    pub reports_dropped: u64,
}
