//! Lock-free histograms of durations for many threads.
//!
//! The server and the store fill them; the server's metrics show them. The histogram of `prometheus-client` is behind a
//! mutex, for which all threads that answer requests would wait.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets in nanoseconds: from an update (about 10 µs) to the deadline of a request.
const BOUNDS: [u64; 17] = [
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    10_000_000_000,
];

/// A histogram of durations.
#[derive(Debug, Default)]
pub struct Histogram {
    /// The count of each bucket; the last one has no upper bound.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    /// The sum, in nanoseconds.
    sum: AtomicU64,
}

/// The values of a histogram at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Durations {
    /// The upper bound of each bucket in seconds, and its count; the last bound is infinite.
    pub buckets: Vec<(f64, u64)>,
    /// The sum, in seconds.
    pub sum: f64,
}

impl Histogram {
    /// Adds one duration.
    pub fn observe(&self, duration: Duration) {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let place = BOUNDS.partition_point(|bound| *bound < nanoseconds);
        self.buckets[place].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// The current values.
    pub fn read(&self) -> Durations {
        let bounds = BOUNDS
            .into_iter()
            .map(|nanoseconds| nanoseconds as f64 / 1e9)
            .chain([f64::INFINITY]);
        Durations {
            buckets: bounds
                .zip(&self.buckets)
                .map(|(bound, count)| (bound, count.load(Ordering::Relaxed)))
                .collect(),
            sum: self.sum.load(Ordering::Relaxed) as f64 / 1e9,
        }
    }
}

impl Durations {
    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_in_the_first_bucket_that_is_not_below_it() {
        let histogram = Histogram::default();
        for milliseconds in [0, 1, 2, 10_000, 10_001] {
            histogram.observe(Duration::from_millis(milliseconds));
        }
        let read = histogram.read();
        let filled: Vec<_> = read.buckets.iter().filter(|(_, count)| *count > 0).copied().collect();
        assert_eq!(
            filled,
            [(0.000_025, 1), (0.001, 1), (0.002_5, 1), (10.0, 1), (f64::INFINITY, 1)]
        );
        assert_eq!((read.count(), read.sum), (5, 20.004));
    }

    #[test]
    fn what_many_threads_observe_is_all_there() {
        let histogram = Histogram::default();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..1_000).for_each(|_| histogram.observe(Duration::from_millis(1))));
            }
        });
        assert_eq!((histogram.read().count(), histogram.read().sum), (8_000, 8.0));
    }
}
