//! Time that a busy machine does not lengthen.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// What this thread alone has computed so far.
pub(crate) fn thread_time() -> Duration {
    time(ClockId::ThreadCPUTime)
}

/// What all threads of this process have computed so far, those of tests at the same time included.
pub(crate) fn process_time() -> Duration {
    time(ClockId::ProcessCPUTime)
}

fn time(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    // A clock that counts from 0 shows no negative time.
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}
