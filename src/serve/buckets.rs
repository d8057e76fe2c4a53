//! Token buckets (GCRA) in rows that are made once, 8 bytes each, and are taken from without a lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::{InMemoryState, NotKeyed, StateStore};
use governor::{NotUntil, Quota, RateLimiter};
use prefetch_index::prefetch_index;

use super::problem::Problem;
use super::ticks;

/// Buckets of one size, by their places.
#[derive(Debug)]
pub struct Buckets {
    limiter: RateLimiter<usize, Row, Ticks, NoOpMiddleware<Duration>>,
    row: Row,
    refused: Arc<AtomicU64>,
}

impl Buckets {
    /// So many, all full; who finds one empty is counted in `refused`.
    pub fn new(quota: Quota, count: usize, refused: Arc<AtomicU64>) -> Self {
        let row = Row((0..count).map(|_| InMemoryState::default()).collect());
        Self { limiter: RateLimiter::new(quota, row.clone(), Ticks), row, refused }
    }

    /// Prefetches the bucket at this place, and mostly those beside it.
    pub fn prefetch(&self, place: usize) {
        prefetch_index(&self.row.0, place);
    }

    /// Takes one from the bucket at this place, or says in how many seconds there will be one. Where there is no bucket, one
    /// may always be taken.
    pub fn take(&self, place: usize) -> Result<(), Problem> {
        self.limiter.check_key(&place).map_err(|not_until| {
            self.refused.fetch_add(1, Ordering::Relaxed);
            come_back(&not_until)
        })
    }
}

fn come_back(not_until: &NotUntil<Duration>) -> Problem {
    Problem::TooManyRequests(not_until.wait_time_from(Ticks.now()).as_secs_f64().ceil().max(1.0) as u64)
}

/// Buckets side by side.
#[derive(Clone, Debug)]
struct Row(Arc<[InMemoryState]>);

impl StateStore for Row {
    type Key = usize;

    fn measure_and_replace<T, F, E>(&self, place: &usize, decide: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        match self.0.get(*place) {
            Some(bucket) => bucket.measure_and_replace(&NotKeyed::NonKey, decide),
            None => decide(None).map(|(taken, _)| taken),
        }
    }
}

/// The clock of [`ticks`].
#[derive(Clone, Copy, Debug)]
struct Ticks;

impl Clock for Ticks {
    type Instant = Duration;

    fn now(&self) -> Duration {
        ticks::now()
    }
}
