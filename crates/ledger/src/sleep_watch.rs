//! Notices that this process did not run for a while: the machine slept, or the process was stopped.
//!
//! After a sleep, memory is as old as the sleep was long. So even a yes first needs a look at a log that other nodes write. The
//! thread of `commit_writer` beats whenever it runs, also while it waits for a database; a gap between two beats is a sleep.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::time::timeout;

/// How often the thread beats.
const BEAT: Duration = Duration::from_millis(250);

/// A gap this long counts as a sleep. A busy machine may have one without a sleep, which costs one look.
const GAP: Duration = Duration::from_secs(1);

/// Time since the machine was started, with the time that it slept. Monotonic.
pub fn since_boot() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
}

/// What the thread that follows the log and the requests share.
pub(crate) struct SleepWatch {
    /// The last beat, in milliseconds since the machine was started.
    last: AtomicU64,
    sleeps: AtomicU64,
    /// How many sleeps there had been when the last look at the log began.
    seen: AtomicU64,
}

impl SleepWatch {
    /// Begins to watch.
    pub(crate) fn new(now: Duration) -> Self {
        Self {
            last: AtomicU64::new(milliseconds(now)),
            sleeps: AtomicU64::new(0),
            seen: AtomicU64::new(0),
        }
    }

    /// Notes that the thread runs.
    pub(crate) fn beat(&self, now: Duration) {
        if self.is_gap(now) {
            self.sleeps.fetch_add(1, Ordering::Release);
        }
        // After the count: who sees this beat sees the sleep before it.
        self.last.store(milliseconds(now), Ordering::Release);
    }

    /// Whether this process slept, and has not looked at the log since.
    pub(crate) fn is_behind(&self, now: Duration) -> bool {
        self.is_gap(now) || self.seen.load(Ordering::Acquire) != self.sleeps.load(Ordering::Acquire)
    }

    /// How many sleeps there were. For [`SleepWatch::has_looked`].
    pub(crate) fn sleeps(&self) -> u64 {
        self.sleeps.load(Ordering::Acquire)
    }

    /// Notes that a look at the log succeeded which began after so many sleeps.
    pub(crate) fn has_looked(&self, sleeps: u64) {
        self.seen.store(sleeps, Ordering::Release);
    }

    /// Does `work`, and beats meanwhile.
    pub(crate) async fn beating<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            self.beat(since_boot());
            if let Ok(done) = timeout(BEAT, &mut work).await {
                return done;
            }
        }
    }

    fn is_gap(&self, now: Duration) -> bool {
        milliseconds(now).saturating_sub(self.last.load(Ordering::Acquire)) > milliseconds(GAP)
    }
}

fn milliseconds(time: Duration) -> u64 {
    time.as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn after_a_gap_memory_is_behind_until_a_look_that_began_later() {
        let watch = SleepWatch::new(at(5_000));
        watch.beat(at(5_250));
        assert!(!watch.is_behind(at(6_250)));
        // A request that comes before the thread beats again.
        assert!(watch.is_behind(at(6_251)));
        let before = watch.sleeps();
        watch.beat(at(9_000));
        assert!(watch.is_behind(at(9_000)));
        // This look began before the sleep.
        watch.has_looked(before);
        assert!(watch.is_behind(at(9_000)));
        watch.has_looked(watch.sleeps());
        assert!(!watch.is_behind(at(9_000)));
    }
}
