//! What waits for the thread that commits.
//!
//! `Store` queues requests; [`binding_batch`](crate::binding_batch) decides them, and answers once their lines are durable.

use crate::answer::Answer;
use crate::command::{LINES, WaitingRequest};
use crate::draft::LEAVING_COPIES;
use crate::license_imports::MAX_IMPORT_LINES;
use crate::log::record;
use crate::postgres::nodes::NodeSecrets;
use crate::texts::requests::TextRequest;

/// The most requests that may wait for the thread. The thread takes one more, and one may be an import.
pub(crate) const QUEUE: usize = (record::BATCH - LEAVING_COPIES - MAX_IMPORT_LINES) / LINES - 1;

/// What the thread is asked for.
pub(crate) enum Message {
    /// A decision.
    Request(WaitingRequest),
    /// Texts of orders, to read or to erase.
    Text(TextRequest),
    /// All lines that were in the log before this message.
    Refresh(LedgerLook, Answer<()>),
    /// Telling other nodes which secrets this one uses.
    Announce(NodeSecrets),
    /// The end.
    Close,
}

/// Why a request waits for a look at a log that other nodes write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LedgerLook {
    /// Memory would say no.
    Read,
    /// Memory would say no, and the no is signed: the look is a transaction that commits. A primary that was replaced
    /// still answers reads.
    Proved,
    /// This process did not run for a while, such as on a machine that slept: memory is too old even for a yes. As a rule,
    /// it ran.
    AfterSleep,
}
