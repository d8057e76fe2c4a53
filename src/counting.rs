//! Counting while many threads count: numbers, durations and who holds bytes, each thread on a cache line of its own, without a
//! lock.
//!
//! Leaf module: the server and the store count with it, the server's metrics show what they counted, and manifests are handed
//! out by it.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;

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

/// Threads beyond so many share lines with others, which is slower and as right.
const LINES: usize = 8;

/// `N` numbers that only grow.
#[derive(Debug)]
pub struct Sums<const N: usize>([Line<N>; LINES]);

/// As far apart as processors fetch memory, which is two lines of 64 bytes.
#[derive(Debug)]
#[repr(align(128))]
struct Line<const N: usize>([AtomicU64; N]);

impl<const N: usize> Default for Sums<N> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Line(std::array::from_fn(|_| AtomicU64::new(0)))))
    }
}

impl<const N: usize> Sums<N> {
    /// Adds to the number at `place`, which is below `N`.
    pub fn add(&self, place: usize, amount: u64) {
        self.0[line()].0[place].fetch_add(amount, Ordering::Relaxed);
    }

    /// The number at `place`.
    pub fn of(&self, place: usize) -> u64 {
        self.0.iter().map(|line| line.0[place].load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
    }
}

/// The line of the thread that asks.
fn line() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! { static LINE: Cell<usize> = const { Cell::new(usize::MAX) } }
    LINE.with(|line| {
        if line.get() == usize::MAX {
            line.set(NEXT.fetch_add(1, Ordering::Relaxed) % LINES);
        }
        line.get()
    })
}

/// Bytes that many threads hand out at once; each counts for itself how many of its handles are about.
#[derive(Debug)]
pub struct SharedBytes([Bytes; LINES]);

impl SharedBytes {
    /// A handle of the thread that asks.
    pub fn handle(&self) -> Bytes {
        self.0[line()].clone()
    }
}

impl From<Bytes> for SharedBytes {
    fn from(bytes: Bytes) -> Self {
        Self(std::array::from_fn(|_| Bytes::from_owner(Apart(bytes.clone()))))
    }
}

/// The count of a handle stands before it: as far from others as a [`Line`].
#[repr(align(128))]
struct Apart(Bytes);

impl AsRef<[u8]> for Apart {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Durations by size: one number for each bound, one for what is beyond, and the sum in nanoseconds.
#[derive(Debug, Default)]
pub struct Histogram(Sums<{ BOUNDS.len() + 2 }>);

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
        // Nearly all are updates, which are in the first bucket.
        self.0.add(BOUNDS.iter().take_while(|bound| **bound < nanoseconds).count(), 1);
        self.0.add(BOUNDS.len() + 1, nanoseconds);
    }

    /// What it holds now.
    pub fn read(&self) -> Durations {
        let bounds = BOUNDS.into_iter().map(|nanoseconds| nanoseconds as f64 / 1e9).chain([f64::INFINITY]);
        Durations {
            buckets: bounds.enumerate().map(|(place, bound)| (bound, self.0.of(place))).collect(),
            sum: self.0.of(BOUNDS.len() + 1) as f64 / 1e9,
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

    #[test]
    fn what_many_threads_count_is_all_there() {
        let sums = Sums::<2>::default();
        std::thread::scope(|scope| {
            for _ in 0..3 * LINES {
                scope.spawn(|| (0..1_000).for_each(|_| sums.add(1, 2)));
            }
        });
        assert_eq!((sums.of(0), sums.of(1)), (0, 3 * LINES as u64 * 2_000));
    }

    #[test]
    fn handles_are_the_same_bytes_in_every_thread_and_outlive_what_gave_them_out() {
        let bytes = Bytes::from(vec![7; 100]);
        let shared = SharedBytes::from(bytes.clone());
        let handles: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..2 * LINES).map(|_| scope.spawn(|| shared.handle())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        drop(shared);
        assert!(handles.iter().all(|handle| handle.as_ptr() == bytes.as_ptr() && *handle == bytes));
    }
}
