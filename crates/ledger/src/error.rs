//! Errors of the store and of its backends, with the state that they leave the log in: one word for metrics and `/readyz`.

use std::fmt::{self, Display, Formatter};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use chrono::TimeDelta;
use strum::{EnumIter, IntoStaticStr};

use crate::postgres::settings::SettingsError;

/// The store's format: the ledger, and the index in a folder of its own.
pub const FORMAT: &str = "2";

/// What a line of an unknown kind means, on both backends.
pub(crate) const NEWER: &str = "a newer version of countersign wrote the ledger";

/// Why the store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process uses the store.
    #[error("{}: in use by another process; is another `countersign serve` running?", .0.display())]
    InUse(PathBuf),
    /// The ledger belongs to another user, who could not read files that this process creates.
    #[error("{}: belongs to another user, of uid {owner}", path.display())]
    NotOurs {
        /// The ledger.
        path: PathBuf,
        /// Its owner's user id.
        owner: u32,
    },
    /// There is no store yet: no server has run on this instance.
    #[error("{}: there is no store", .0.display())]
    Missing(PathBuf),
    /// The store cannot be opened or read.
    #[error("{}: the store cannot be read", path.display())]
    Read {
        /// Its folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A compacted ledger cannot be written or put in place.
    #[error("{}: not compacted; the ledger is unchanged", path.display())]
    NotCompacted {
        /// Its folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another version of countersign wrote the store.
    #[error("{}: the store has format {found}, this version reads {}", path.display(), FORMAT)]
    Format {
        /// Its folder.
        path: PathBuf,
        /// The format that it has.
        found: String,
    },
    /// The ledger was changed, or a part of it is missing.
    #[error("{}: the ledger is damaged: {what}", path.display())]
    Damaged {
        /// The ledger.
        path: PathBuf,
        /// The line, and what is wrong with it.
        what: String,
    },
    /// A newer version of countersign wrote the ledger.
    #[error("{}: {NEWER}: {what}", path.display())]
    Newer {
        /// The ledger.
        path: PathBuf,
        /// The line, and its kind.
        what: String,
    },
    /// The file with the texts was changed, or a part of it is missing.
    #[error("{}: the file with the texts of licenses is damaged: {what}", path.display())]
    TextsDamaged {
        /// The file.
        path: PathBuf,
        /// The line, and what is wrong with it.
        what: String,
    },
    /// Too many bindings wait for the disk; try again later.
    #[error("too many bindings are waiting to be written")]
    Busy,
    /// A binding could not be written to the ledger and is not in force.
    #[error("the binding could not be written to the ledger: {0}")]
    NotDurable(Arc<str>),
    /// The text of an order could not be erased, or it is not known whether that survives a power failure.
    #[error("the text of the order could not be erased: {0}")]
    NotErased(Arc<str>),
    /// Bindings are written, but the index and reports are not. The next start updates the index.
    #[error("the index and reports of sites cannot be written: {0}")]
    NotIndexed(Arc<str>),
    /// The address of the shared ledger cannot be used.
    #[error(transparent)]
    Address(SettingsError),
    /// The shared ledger cannot be read.
    #[error("the shared ledger cannot be used: {message}")]
    Shared {
        /// Which kind of failure.
        state: LedgerState,
        /// The server, and what failed.
        message: String,
    },
    /// Nodes run on the shared ledger, or another command does.
    #[error("the shared ledger is in use: {0}")]
    SharedInUse(String),
    /// This node's secrets differ from those of the other nodes, so it issues nothing.
    #[error("this node's keys differ from those of the other nodes")]
    Differs,
    /// This machine's clock differs from the database's. The times of bindings are the database's; those of statements are
    /// this machine's.
    #[error(
        "this node's clock is {0} the database's: let the network set the clocks (NTP); sites refuse statements that are older than their last one"
    )]
    ClockDiffers(ClockLead),
    /// The store is closed.
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    /// A failure of the shared ledger at the start.
    pub(crate) fn shared(error: BackendError) -> Self {
        Self::Shared {
            state: error.state,
            message: error.message,
        }
    }
}

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

/// How far clocks may differ. Machines whose clocks the network sets differ by milliseconds.
const TOLERANCE: TimeDelta = TimeDelta::seconds(10);

/// How far a node's clock is ahead of the database's; positive where the node is ahead.
///
/// Seats do not depend on it, because the database gives each line its time. A node gives a statement its own time: after a site
/// has read a statement of a node that is ahead, it refuses statements of other nodes until their clocks reach that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockLead(pub TimeDelta);

impl ClockLead {
    /// Whether an operator has to set a clock.
    pub fn is_too_much(&self) -> bool {
        self.0.abs() > TOLERANCE
    }
}

impl Display for ClockLead {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let seconds = self.0.num_seconds();
        match seconds {
            ..0 => write!(f, "{} s behind", -seconds),
            _ => write!(f, "{seconds} s ahead of"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_told_and_a_few_are_tolerated() {
        let lead = |seconds| ClockLead(TimeDelta::seconds(seconds));
        assert_eq!(lead(3_600).to_string(), "3600 s ahead of");
        assert_eq!(lead(-11).to_string(), "11 s behind");
        let judged = [-11, -10, 0, 10, 11].map(|seconds| lead(seconds).is_too_much());
        assert_eq!(judged, [true, false, false, false, true]);
    }
}
