//! How long things take: a histogram of durations that anybody may add to at once, without a lock.
//!
//! Leaf module: the server and the store measure with it, and the server's metrics show it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets in seconds: from an update (some 10 µs) to a request that meets its deadline.
pub const BOUNDS: [f64; 17] = [
    0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0,
    2.5, 10.0,
];

/// Durations by size.
#[derive(Debug, Default)]
pub struct Histogram {
    /// One for each bound, and one for what is beyond.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    nanoseconds: AtomicU64,
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
        let seconds = duration.as_secs_f64();
        let bucket = BOUNDS.partition_point(|bound| *bound < seconds);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.nanoseconds.fetch_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// What it holds now.
    pub fn read(&self) -> Durations {
        let counts = self.buckets.iter().map(|count| count.load(Ordering::Relaxed));
        Durations {
            buckets: BOUNDS.into_iter().chain([f64::INFINITY]).zip(counts).collect(),
            sum: self.nanoseconds.load(Ordering::Relaxed) as f64 / 1e9,
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
        assert_eq!(filled, [(0.000_025, 1), (0.001, 1), (0.002_5, 1), (10.0, 1), (f64::INFINITY, 1)]);
        assert_eq!((read.count(), read.sum), (5, 20.004));
    }
}
