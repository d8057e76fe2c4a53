//! Turns: a client that sends request after request without reading is answered once a turn, and others go between.
//!
//! hyper answers up to sixteen in a row. With 200 such clients, an ordinary request waited for 3,000 answers.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::yield_now;

/// Whether a connection was answered since its task was last run.
#[derive(Debug, Default)]
pub struct Turn(AtomicBool);

impl Turn {
    /// The connection's task is run.
    pub fn begin(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Returns at once for the first answer of a turn, and for another one after all other tasks had theirs.
    pub async fn take(&self) {
        if self.0.load(Ordering::Relaxed) {
            yield_now().await;
        }
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn the_second_answer_of_a_turn_waits_for_the_next() {
        let turn = Turn::default();
        turn.begin();
        assert!(turn.take().now_or_never().is_some());
        let mut second = Box::pin(turn.take());
        assert!(second.as_mut().now_or_never().is_none());
        turn.begin();
        second.await;
        assert!(turn.take().now_or_never().is_none(), "the second one was this turn's");
    }
}
