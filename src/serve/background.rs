//! Background work: gives threads that answer requests precedence over those that sign or reload.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::runtime;
use tokio::sync::oneshot;

/// The nice value for a tenth of a normal thread's share when both have work to do.
const NICE: i32 = 10;

/// The length of a slice.
const TIME_SLICE: Duration = Duration::from_micros(200);

/// Small steps between two looks at the clock.
const SMALL_STEPS: u32 = 256;

/// The length of a pause: as short as the kernel makes it, 50 µs and the time to wake up.
const PAUSE: Duration = Duration::from_nanos(1);

/// Lowers this thread's priority: a signature takes a hundred times as long as an answer without one. On Linux each
/// thread has its own nice value (sched(7)).
pub(super) fn lower_priority() {
    // If it is not permitted, the threads stay equal.
    let _ = rustix::process::nice(NICE);
}

/// Runs `serve` with a listener on a new thread of lower priority, and waits until it ends.
///
/// # Errors
/// The system gives no thread, or no place to wait for connections.
pub(super) async fn serve<F: Future<Output = ()>>(
    name: &str,
    listener: TcpListener,
    serve: impl FnOnce(TcpListener) -> F + Send + 'static,
) -> io::Result<()> {
    let listener = listener.into_std()?;
    let (ended, end) = oneshot::channel();
    let work = move || {
        lower_priority();
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        let served = runtime.and_then(|runtime| {
            runtime.block_on(async {
                serve(TcpListener::from_std(listener)?).await;
                Ok(())
            })
        });
        // Who waits may have left.
        let _ = ended.send(served);
    };
    thread::Builder::new().name(name.to_owned()).spawn(work)?;
    end.await.unwrap_or_else(|_| Err(io::Error::other("the thread ended")))
}

/// Divides long work into short slices. A thread that wakes up may have to wait for a low-priority thread until the
/// kernel's next tick, usually 4 ms. Pauses between the slices let it run earlier.
#[derive(Debug)]
pub(super) struct TimeSlice {
    began: Instant,
    small_steps: u32,
}

impl TimeSlice {
    /// Begins the first slice.
    pub(super) fn begin() -> Self {
        Self {
            began: Instant::now(),
            small_steps: 0,
        }
    }

    /// Pauses if the slice is over. Call it often.
    pub(super) fn pause(&mut self) {
        if self.began.elapsed() > TIME_SLICE {
            thread::sleep(PAUSE);
            self.began = Instant::now();
        }
    }

    /// As [`Self::pause`], after a step of some hundred nanoseconds. Only each 256th step reads the clock.
    pub(super) fn pause_after_small_step(&mut self) {
        self.small_steps = self.small_steps.wrapping_add(1);
        if self.small_steps.is_multiple_of(SMALL_STEPS) {
            self.pause();
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::time::{ClockId, clock_gettime};

    use super::*;

    /// The CPU time of this thread. A machine that does other work, too, does not count.
    fn worked() -> Duration {
        clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
    }

    /// How often this thread slept voluntarily.
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
        let end = worked() + 100 * TIME_SLICE;
        let mut calls = 0;
        while worked() < end {
            time_slice.pause();
            calls += 1;
        }
        let slept = sleeps() - before;
        let most = began.elapsed().as_nanos() / TIME_SLICE.as_nanos() + 1;
        assert!(
            slept >= 50 && u128::from(slept) <= most && slept < calls / 2,
            "{slept} of {calls}, at most {most}"
        );
    }
}
