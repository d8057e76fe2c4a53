//! The interface between the store and its storage.
//!
//! `disk` implements it with files, `postgres` with a database. [`log`](crate::log) lists what both must guarantee.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use chrono::TimeDelta;

use crate::binding_batch::BindingBatch;
use crate::error::BackendError;
use crate::log::Position;
use crate::postgres::nodes::NodeSecrets;
use crate::sleep_watch::SleepWatch;
use crate::stored_reports::StoredReports;
use crate::telemetry;
use crate::texts::customer_search::CustomerSearch;
use crate::texts::{ErasedText, FoundTexts, TextErasure};
use countersign_model::customer::{CustomerRow, NewCustomer};
use countersign_model::issued_license::Hex128;

/// The storage that the thread of `commit_writer` writes to: the log of bindings, the index and the reports.
pub(crate) trait Backend: Send + Sync + 'static {
    /// Has the batch decided, keeps its texts of orders, and appends its lines. When it returns, they survive a power failure. After an error none
    /// of them is in force; a log that several nodes share may still have them, and the next commit learns them.
    fn commit(&self, batch: &mut BindingBatch<'_>) -> Result<(), BackendError>;
    /// What is kept of these orders.
    fn find_texts(&self, names: &[Hex128]) -> Result<FoundTexts, BackendError>;
    /// Erases the text of an order, so that it survives a power failure; `None` if the order is unknown.
    fn erase_texts(&self, erasure: &TextErasure) -> Result<Option<ErasedText>, BackendError>;
    /// Keeps customers, so that they survive a power failure. Gives their numbers: those of known ones, or the new ones.
    fn keep_customers(&self, new: &[NewCustomer]) -> Result<Vec<Hex128>, BackendError>;
    /// The rows of these customers.
    fn find_customers(&self, numbers: &BTreeSet<Hex128>) -> Result<Vec<CustomerRow>, BackendError>;
    /// The addresses and names, for a search on another thread.
    fn customer_search(&self) -> Arc<dyn CustomerSearch>;
    /// Deletes the rows of customers with these numbers, so that it survives a power failure. Gives how many there were.
    fn forget_customers(&self, numbers: &[Hex128]) -> Result<usize, BackendError>;
    /// Passes on what other nodes appended before this call.
    fn follow(&self, _batch: &mut BindingBatch<'_>) -> Result<(), BackendError> {
        Ok(())
    }
    /// The last durable line; `None` if there is no ledger.
    fn end(&self) -> Option<Position> {
        None
    }
    /// How old memory was when the store was opened, if other nodes may append.
    fn age_at_start(&self) -> Option<Duration> {
        None
    }
    /// How often to follow, if other nodes may append.
    fn follow_every(&self) -> Option<Duration> {
        None
    }
    /// How far this machine's clock was ahead of the log's at the last look, if the log has one.
    fn clock_lead(&self) -> Option<TimeDelta> {
        None
    }
    /// What notices that this process slept, if other nodes may append meanwhile.
    fn sleep_watch(&self) -> Option<Arc<SleepWatch>> {
        None
    }
    /// What this node calls itself, if several share the log.
    fn node(&self) -> Option<&str> {
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
