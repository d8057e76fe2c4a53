//! One clock for the questions and answers of a history: nanoseconds, and no two of its times are the same.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A clock that begins with 1.
pub struct Clock {
    begun: Instant,
    last: AtomicU64,
}

impl Clock {
    pub fn start() -> Self {
        Self {
            begun: Instant::now(),
            last: AtomicU64::new(0),
        }
    }

    /// The time, later than all before.
    pub fn now(&self) -> u64 {
        let elapsed = self.begun.elapsed().as_nanos() as u64;
        let later = |last: u64| Some(elapsed.max(last + 1));
        let before = self.last.fetch_update(Ordering::SeqCst, Ordering::SeqCst, later);
        elapsed.max(before.unwrap_or_default() + 1)
    }
}
