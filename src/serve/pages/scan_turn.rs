//! Looks at everything take turns: one at a time, eight wait, and the others are refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::serve::background::lower_priority;

/// How many looks may wait beside the one under way.
const MOST_WAITING: usize = 8;

/// Who may look.
pub(in crate::serve) struct ScanTurn {
    permits: Arc<Semaphore>,
    /// Those that wait and the one under way.
    here: AtomicUsize,
}

/// Too many wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) struct Busy;

/// The place of one who waits or looks.
struct ScanPlace<'a>(&'a AtomicUsize);

impl Drop for ScanPlace<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Default for ScanTurn {
    fn default() -> Self {
        Self {
            permits: Arc::new(Semaphore::new(1)),
            here: AtomicUsize::new(0),
        }
    }
}

impl ScanTurn {
    async fn turn(&self) -> Result<(OwnedSemaphorePermit, ScanPlace<'_>), Busy> {
        let before = self.here.fetch_add(1, Ordering::AcqRel);
        let place = ScanPlace(&self.here);
        if before > MOST_WAITING {
            return Err(Busy);
        }
        // The semaphore is never closed.
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| Busy)?;
        Ok((permit, place))
    }

    /// Looks on a thread of its own, behind those that answer sites. It goes on to its end, and keeps its turn, if nobody waits for it any
    /// more.
    pub(in crate::serve) async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Busy> {
        let (permit, _place) = self.turn().await?;
        let (answer, looked) = oneshot::channel();
        let work = move || {
            lower_priority();
            let looked = look();
            drop(permit);
            // Who asked may have left.
            let _ = answer.send(looked);
        };
        let thread = thread::Builder::new().name("looking".to_owned()).spawn(work);
        thread.map_err(|_| Busy)?;
        looked.await.map_err(|_| Busy)
    }

    /// The same for work that waits by itself.
    pub(in crate::serve) async fn look_with<T>(&self, look: impl Future<Output = T>) -> Result<T, Busy> {
        let (_permit, _place) = self.turn().await?;
        Ok(look.await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_looks_eight_wait_and_the_next_is_told_so() {
        let turn = Arc::new(ScanTurn::default());
        let first = turn.turn().await.unwrap();
        let waiting: Vec<_> = (0..MOST_WAITING)
            .map(|_| {
                let turn = Arc::clone(&turn);
                tokio::spawn(async move { turn.look(|| 7).await })
            })
            .collect();
        while turn.here.load(Ordering::Acquire) <= MOST_WAITING {
            tokio::task::yield_now().await;
        }
        assert_eq!(turn.look(|| 8).await, Err(Busy));
        drop(first);
        for looked in waiting {
            assert_eq!(looked.await.unwrap(), Ok(7));
        }
        assert_eq!(turn.look_with(async { 9 }).await, Ok(9));
    }
}
