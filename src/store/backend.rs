//! The interface between the store and its storage.
//!
//! `disk` implements it with files. The module doc of [`log`](crate::store::log) has the requirements for others.

use std::io;
use std::sync::Weak;

use crate::store::log::LedgerEntry;
use crate::store::stored_reports::StoredReports;
use crate::store::telemetry;

/// The storage that the thread of `group_commit` writes to: the log of bindings, the index and the reports.
pub(crate) trait Backend: Send + Sync + 'static {
    /// Writes bindings to the ledger. When it returns, they survive a power failure, or none of them is in the ledger.
    fn append(&self, entries: &[LedgerEntry]) -> io::Result<()>;
    /// Whether bindings can be written.
    fn probe(&self) -> io::Result<()>;
    /// Whether the store at the path is still the one that was opened. Costs a few system calls; reads a ledger that
    /// came back as a whole.
    fn look(&self) -> io::Result<()>;
    /// Adds some of the appended bindings to the index; whether there were any.
    fn catch_up(&self) -> io::Result<bool>;
    /// Merges reports and refused hosts into the stored ones.
    fn write_reports(&self, reports: &telemetry::Batch) -> io::Result<()>;
    /// Makes index and reports survive a power failure.
    fn sync_index(&self) -> io::Result<()>;
    /// Reads what was reported, until the storage is closed; `None` if it cannot be read.
    fn stored_reports(&self) -> Option<Weak<dyn StoredReports>> {
        None
    }
}
