//! Histograms of durations, which many threads fill at once without a lock.
//!
//! Leaf module: the server and the store fill them, and the server's metrics show them. `prometheus-client` has one, too, but
//! behind a mutex, for which all threads that answer requests would wait.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of a histogram's buckets in nanoseconds: from an update (some 10 µs) to a request that meets its deadline.
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

/// Durations by size.
#[derive(Debug, Default)]
pub struct Histogram {
    /// How many there are up to each bound, and behind them how many are beyond.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    /// In nanoseconds.
    sum: AtomicU64,
}

/// What a histogram held at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Durations {
    /// How many there are in each bucket, by its upper bound in seconds; the last bound is infinite.
    pub buckets: Vec<(f64, u64)>,
    /// All of them together, in seconds.
    pub sum: f64,
}

impl Histogram {
    /// Adds one.
    pub fn observe(&self, duration: Duration) {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let place = BOUNDS.partition_point(|bound| *bound < nanoseconds);
        self.buckets[place].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// What it holds now.
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
    /// How many there are.
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
