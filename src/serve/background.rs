//! Priority: lets the threads that answer go before those that compute for long, those that sign and that reload.

use std::thread;
use std::time::{Duration, Instant};

/// A tenth of an ordinary thread's share, where both have work to do.
const NICE: i32 = 10;

/// How long a slice is.
const TIME_SLICE: Duration = Duration::from_micros(200);

/// As short as the kernel makes it: 50 µs and the time it takes to wake.
const PAUSE: Duration = Duration::from_nanos(1);

/// Lets other threads go before this one: a signature takes a hundred times what an answer without one takes. On Linux
/// the nice value is a thread's own (sched(7)).
pub(super) fn lower_priority() {
    // Where it is not allowed, the threads are equals.
    let _ = rustix::process::nice(NICE);
}

/// Long work in short slices. Who wakes may have to wait for a thread that stands back until the kernel's next tick, 4 ms
/// with its usual 250 a second; a thread that sleeps in between lets them in.
#[derive(Debug)]
pub(super) struct TimeSlice {
    began: Instant,
}

impl TimeSlice {
    /// Begins the first slice.
    pub(super) fn begin() -> Self {
        Self { began: Instant::now() }
    }

    /// Sleeps a moment if the slice was long enough. To be called often.
    pub(super) fn pause(&mut self) {
        if self.began.elapsed() > TIME_SLICE {
            thread::sleep(PAUSE);
            self.began = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often this thread went to sleep by itself.
    fn sleeps() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))
            .unwrap();
        line.trim().parse().unwrap()
    }

    #[test]
    fn work_is_interrupted_about_once_a_stint() {
        let mut time_slice = TimeSlice::begin();
        let before = sleeps();
        let began = Instant::now();
        let mut calls = 0;
        while began.elapsed() < 100 * TIME_SLICE {
            time_slice.pause();
            calls += 1;
        }
        let slept = sleeps() - before;
        assert!((5..=100).contains(&slept) && slept < calls / 2, "{slept} of {calls}");
    }
}
