//! The system's clock as of its last tick, some milliseconds ago: cheaper to read than the exact one.
//!
//! Rate limits and timeouts count seconds, so a tick is exact enough.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Time since the machine was started. Monotonic.
pub(super) fn now() -> Duration {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
}
