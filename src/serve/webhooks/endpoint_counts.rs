//! The numbers of an endpoint.

use std::sync::atomic::AtomicU64;

use countersign_model::slug::Slug;

/// Numbers of an endpoint, for the metrics.
#[derive(Debug)]
pub(crate) struct EndpointCounts {
    /// The endpoint.
    pub name: Slug,
    /// Messages that it took.
    pub sent: AtomicU64,
    /// Messages that it refused, each time.
    pub refused: AtomicU64,
    /// Attempts that failed because of the endpoint.
    pub failures: AtomicU64,
    /// Messages in files that will be sent.
    pub waiting: AtomicU64,
    /// Messages that a person has to decide.
    pub parked: AtomicU64,
    /// The last line of the ledger that was sent to it.
    pub sequence: AtomicU64,
    /// Since when nothing can be sent, in seconds since 1970; 0 if all is well.
    pub failing_since: AtomicU64,
}

impl EndpointCounts {
    pub(super) fn new(name: Slug) -> Self {
        Self {
            name,
            sent: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            parked: AtomicU64::new(0),
            sequence: AtomicU64::new(0),
            failing_since: AtomicU64::new(0),
        }
    }
}
