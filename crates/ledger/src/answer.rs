//! Where the answers of the group commit go, and who waits for them.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::error::StoreError;

/// Where the answer to a request goes. Its sender may have left.
pub(crate) type Answer<T> = oneshot::Sender<Result<T, Arc<str>>>;

/// Waits for an answer of the group commit.
pub(crate) struct Pending<T>(oneshot::Receiver<Result<T, Arc<str>>>);

/// A question to the group commit, and what waits for its answer.
pub(crate) fn pending<T>() -> (Answer<T>, Pending<T>) {
    let (answer, pending) = oneshot::channel();
    (answer, Pending(pending))
}

impl<T> Pending<T> {
    pub(crate) async fn wait(self) -> Result<T, StoreError> {
        match self.0.await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(reason)) => Err(StoreError::NotDurable(reason)),
            Err(_) => Err(StoreError::Closed),
        }
    }
}
