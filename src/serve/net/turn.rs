//! Turns: a client that pipelines requests gets one response a turn, and other clients go between.
//!
//! hyper answers up to sixteen in a row. With 200 such clients, a normal request waited for 3,000 responses.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::yield_now;

/// Whether a connection was answered in the current run of its task.
#[derive(Debug, Default)]
pub(crate) struct Turn(AtomicBool);

impl Turn {
    /// The connection's task runs.
    pub(crate) fn begin(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Lets the first response of a turn be made at once; the next one waits until all other tasks had their turn.
    pub(crate) async fn take(&self) {
        if self.0.swap(true, Ordering::Relaxed) {
            yield_now().await;
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn the_second_answer_of_a_turn_waits_for_the_next() {
        let turn = Turn::default();
        turn.begin();
        assert!(turn.take().now_or_never().is_some());
        let mut second = pin!(turn.take());
        assert!(second.as_mut().now_or_never().is_none());
        turn.begin();
        second.await;
        assert!(turn.take().now_or_never().is_none(), "the second one was this turn's");
    }
}
