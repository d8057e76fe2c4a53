//! Work on the parts of a long file: several at a time, and their results in the order of the file.

use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::thread::{self, available_parallelism};

/// Does `work` on each part, on all cores, while the caller's thread brings the `next` part and takes `each` result. Ends early where
/// `each` breaks.
///
/// # Errors
///
/// The system starts no thread.
pub fn in_order<T: Send, R: Send>(
    next: impl FnMut() -> Option<T>,
    work: impl Fn(T) -> R + Sync,
    mut each: impl FnMut(R) -> ControlFlow<()>,
) -> io::Result<()> {
    let cores = available_parallelism().map_or(1, usize::from);
    let mut parts = std::iter::from_fn(next).fuse();
    let work = &work;
    thread::scope(|scope| {
        let mut running = VecDeque::new();
        loop {
            // More than there are cores: this thread waits for the first, and takes its result while the others run.
            while running.len() < 2 * cores
                && let Some(part) = parts.next()
            {
                running.push_back(thread::Builder::new().spawn_scoped(scope, move || work(part))?);
            }
            let Some(first) = running.pop_front() else {
                return Ok(());
            };
            let result = first.join().unwrap_or_else(|panic| resume_unwind(panic));
            if each(result).is_break() {
                return Ok(());
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_taken_in_the_order_of_the_parts_and_none_after_a_break() {
        let mut parts = 0..1_000_u64;
        let mut taken = Vec::new();
        // The first of each ten takes longest.
        let work = |part: u64| (0..(10 - part % 10) * 1_000).fold(part, |sum, _| std::hint::black_box(sum));
        let each = |result| {
            taken.push(result);
            if result == 500 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        in_order(|| parts.next(), work, each).unwrap();
        assert_eq!(taken, (0..=500).collect::<Vec<_>>());
        assert!(
            parts.next().is_some_and(|part| part > 501),
            "other parts were begun meanwhile"
        );
    }
}
