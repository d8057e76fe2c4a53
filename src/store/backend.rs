//! The seam between the store and what it is written to.
//!
//! `disk` implements it with files. The module doc of [`log`](crate::store::log) says what another one has to keep.

use std::io;

use crate::store::log::LedgerEntry;
use crate::store::telemetry;

/// What the thread of `group_commit` writes to: the log of bindings, and behind it the index and the reports.
pub(crate) trait Backend: Send + Sync + 'static {
    /// Writes bindings to the ledger: they are safe from a loss of power when this returns, or they are not there.
    fn append(&self, entries: &[LedgerEntry]) -> io::Result<()>;
    /// Whether bindings could be written.
    fn probe(&self) -> io::Result<()>;
    /// Whether the store is still the one that was opened, at the path where the next start looks for it. Costs a few
    /// system calls; one that came back is read whole.
    fn look(&self) -> io::Result<()>;
    /// Files a part of what was appended in the index; whether there was something to file.
    fn catch_up(&self) -> io::Result<bool>;
    /// Merges reports into those stored.
    fn write_reports(&self, reports: &telemetry::Batch) -> io::Result<()>;
    /// Returns once index and reports are safe from a loss of power.
    fn sync_index(&self) -> io::Result<()>;
}
