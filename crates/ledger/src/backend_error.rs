//! Why a backend failed, with the state that it leaves the log in: one word for metrics and `/readyz`.

use std::io;

use strum::{EnumIter, IntoStaticStr};

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

/// The state of the log: what a metric and `/readyz` name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum LedgerState {
    /// It can be written.
    Ok,
    /// A file cannot be written.
    Disk,
    /// No server of the database can be reached, or none answers in time.
    Unreachable,
    /// The database refuses this node: a wrong password, a missing right.
    Refused,
    /// Every server that answers is a standby, or takes no changes.
    ReadOnly,
    /// The tables are missing, or another version of countersign made them.
    Schema,
    /// A pooler gives each transaction another connection.
    Pooler,
    /// A line does not continue the chain.
    Damaged,
    /// A newer version of countersign wrote the log.
    NewerVersion,
    /// The log lacks lines that this node has read.
    LinesLost,
    /// This node's keys differ from those of the other nodes.
    NodesDiffer,
    /// Another node has the same name.
    SameName,
    /// It can be written, but this machine's clock differs from the database's.
    ClockDiffers,
    /// The store is closed.
    Closed,
}
