//! The history that a running server reads and writes.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::spawn_blocking;

use crate::serve::reply::problem::Problem;
use countersign_ledger::{DayHistory, DayRange, StoreError};
use countersign_model::day_counts::DayLine;

/// The history of a running server's store; nothing before it is kept, and after it ended.
#[derive(Clone, Default)]
pub(crate) struct KeptHistory(Arc<Mutex<Option<DayHistory>>>);

impl KeptHistory {
    /// Keeps the history of the server's store from now on.
    pub(crate) fn open(&self, history: DayHistory) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(history);
    }

    /// Lets go of it. Blocks: a connection to a database ends.
    pub(crate) fn close(&self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Does something with the history. Blocks.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut DayHistory) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.as_mut().map_or(Err(StoreError::Closed), work)
    }

    /// Reads the lines in a range, with `own`, what this server counted until now.
    pub(crate) async fn read(&self, range: DayRange, own: Vec<DayLine>) -> Result<Vec<DayLine>, Problem> {
        let kept = self.clone();
        let read = spawn_blocking(move || kept.with(|history| history.read(&range, &own))).await;
        let read = read.map_err(|error| Problem::internal(&error))?;
        read.map_err(|error| {
            tracing::error!(%error, "the history cannot be read");
            Problem::StoreUnavailable
        })
    }
}
