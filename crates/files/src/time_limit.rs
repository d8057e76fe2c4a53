//! Runs work that may hang on a thread of its own, and waits for it only up to a time limit.
//!
//! Libraries open files themselves, and a pipe or a network file system may block their thread for ever. Such a
//! thread is abandoned and ends with the process.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

/// There was no result within the time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not done within {} s: it has too much to read, or a file does not respond, such as a pipe or a network file system", .0.as_secs())]
pub struct TookTooLong(pub Duration);

/// Runs `work` on a thread of its own and returns its result, or abandons the thread after `limit`.
///
/// Panics if `work` panics or no thread can be started.
///
/// # Errors
/// The time is over. The thread goes on and keeps what it holds.
pub fn within<T: Send + 'static>(limit: Duration, work: impl FnOnce() -> T + Send + 'static) -> Result<T, TookTooLong> {
    let (done, result) = sync_channel::<Result<T, Box<dyn Any + Send>>>(1);
    let run = move || {
        // After a timeout nobody receives it.
        let _ = done.send(catch_unwind(AssertUnwindSafe(work)));
    };
    if let Err(error) = thread::Builder::new().name("limited".to_owned()).spawn(run) {
        resume_unwind(Box::new(format!("cannot start a thread: {error}")));
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
