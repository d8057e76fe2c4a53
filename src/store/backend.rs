//! The interface between the store and its storage.
//!
//! `disk` implements it with files, `postgres` with a database. The module doc of [`log`](crate::store::log) has the
//! requirements.

use std::io;
use std::sync::Weak;
use std::time::Duration;

use crate::store::backend_error::BackendError;
use crate::store::binding_batch::BindingBatch;
use crate::store::postgres::nodes::NodeSecrets;
use crate::store::stored_reports::StoredReports;
use crate::store::telemetry;

/// The storage that the thread of `commit_writer` writes to: the log of bindings, the index and the reports.
pub(crate) trait Backend: Send + Sync + 'static {
    /// Has the batch decided, and appends its lines. When it returns, they survive a power failure. After an error none
    /// of them is in force; a log that several nodes share may still have them, and the next commit learns them.
    fn commit(&self, batch: &mut BindingBatch<'_>) -> Result<(), BackendError>;
    /// Passes on what other nodes appended before this call.
    fn follow(&self, _batch: &mut BindingBatch<'_>) -> Result<(), BackendError> {
        Ok(())
    }
    /// How often to follow, if other nodes may append.
    fn follow_every(&self) -> Option<Duration> {
        None
    }
    /// Tells other nodes which secrets this one uses.
    fn announce(&self, _secrets: NodeSecrets) {}
    /// Whether bindings can be written.
    fn probe(&self) -> Result<(), BackendError>;
    /// Whether the store is still the one that was opened. Costs a few system calls; reads a ledger that came back as a
    /// whole.
    fn look(&self) -> Result<(), BackendError>;
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
