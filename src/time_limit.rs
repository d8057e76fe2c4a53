//! Work that may wait for the outside without end, and is not waited for longer than it may take.
//!
//! Libraries open files themselves, and a pipe or a network file system that does not answer holds their thread for ever. Such a
//! thread is left alone: it ends with the process.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

/// There was no result in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not done within {} s: something it reads does not answer, such as a pipe or a network file system", .0.as_secs())]
pub struct TookTooLong(pub Duration);

/// Does `work` on a thread of its own and gives its result, or leaves it alone after `limit`.
///
/// A panic in `work` is one here, and so is a machine that gives no thread.
///
/// # Errors
/// The time is over. The thread goes on, and whatever it does or holds is its own.
pub fn within<T: Send + 'static>(limit: Duration, work: impl FnOnce() -> T + Send + 'static) -> Result<T, TookTooLong> {
    let (done, result) = sync_channel::<Result<T, Box<dyn Any + Send>>>(1);
    let run = move || {
        // Nobody waits any more where it took too long.
        let _ = done.send(catch_unwind(AssertUnwindSafe(work)));
    };
    if let Err(error) = thread::Builder::new().name("limited".to_owned()).spawn(run) {
        resume_unwind(Box::new(format!("the machine gives no thread: {error}")));
    }
    match result.recv_timeout(limit) {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(panic)) => resume_unwind(panic),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Err(TookTooLong(limit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_in_time_gives_its_result_and_what_is_not_is_left_alone() {
        assert_eq!(within(Duration::from_secs(60), || 7), Ok(7));
        let (hold, held) = sync_channel::<()>(0);
        let limit = Duration::from_millis(50);
        assert_eq!(within(limit, move || held.recv().is_err()), Err(TookTooLong(limit)));
        drop(hold);
    }

    #[test]
    fn a_panic_is_handed_on() {
        let panicked = catch_unwind(|| within(Duration::from_secs(60), || panic!("on purpose")));
        assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&"on purpose"));
    }
}
