//! Why a backend failed, with the state that it leaves the log in.

use std::io;

use crate::ledger_state::LedgerState;

/// Why the log cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct BackendError {
    /// Which kind of failure, for metrics.
    pub state: LedgerState,
    /// What failed, for the operator.
    pub message: String,
}

impl From<io::Error> for BackendError {
    fn from(error: io::Error) -> Self {
        Self {
            state: LedgerState::Disk,
            message: error.to_string(),
        }
    }
}
