//! Turns: a client that sends request after request without reading is answered once a turn, and others go between.
//!
//! hyper answers up to sixteen in a row. With 200 such clients, an ordinary request waited for 3,000 answers.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::yield_now;

use crate::serve::net::handler::{Answering, boxed_answer};

/// Whether a connection was answered since its task was last run.
#[derive(Debug, Default)]
pub struct Turn(AtomicBool);

impl Turn {
    /// The connection's task is run.
    pub fn begin(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Leaves the first answer of a turn as it is; another one waits until all other tasks had theirs.
    pub fn take<'a>(&'a self, answer: Answering<'a>) -> Answering<'a> {
        if !self.0.load(Ordering::Relaxed) {
            self.0.store(true, Ordering::Relaxed);
            return answer;
        }
        boxed_answer(async {
            yield_now().await;
            self.0.store(true, Ordering::Relaxed);
            answer.await
        })
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::serve::net::handler::ready_answer;
    use crate::serve::reply::response::JSON;

    #[tokio::test]
    async fn the_second_answer_of_a_turn_waits_for_the_next() {
        let turn = Turn::default();
        let answer = || turn.take(ready_answer(JSON.answer("{}")));
        turn.begin();
        assert!(answer().now_or_never().is_some());
        let mut second = answer();
        assert!((&mut second).now_or_never().is_none());
        turn.begin();
        second.await;
        assert!(answer().now_or_never().is_none(), "the second one was this turn's");
    }
}
