//! CPU time for tests, which does not depend on how busy the machine is.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The CPU time of this thread.
pub(crate) fn thread_time() -> Duration {
    time(ClockId::ThreadCPUTime)
}

/// The CPU time of all threads of this process, with those of other tests.
pub(crate) fn process_time() -> Duration {
    time(ClockId::ProcessCPUTime)
}

fn time(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    // A clock that counts from 0 is never negative.
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}
