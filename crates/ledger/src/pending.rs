//! What waits for the thread that commits: requests, which [`binding_batch`](crate::binding_batch) decides and answers once their
//! lines are durable, and questions about texts of orders.
//!
//! The thread of `commit_writer` reads and erases texts in turn with its commits: no commit under way brings an erased text back.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::command::{Answer, LINES, Pending, WaitingRequest, pending};
use crate::draft::LEAVING_COPIES;
use crate::license_imports::MAX_IMPORT_LINES;
use crate::log::record;
use crate::postgres::nodes::NodeSecrets;
use crate::texts::customer_search::CustomerSearch;
use crate::texts::{ErasedText, FoundTexts, TextErasure};
use countersign_model::customer::{CustomerRow, NewCustomer};
use countersign_model::issued_license::Hex128;

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

/// A request, while it waits.
pub(crate) enum TextRequest {
    Find(Vec<Hex128>, Answer<FoundTexts>),
    Erase(TextErasure, Answer<Option<ErasedText>>),
    KeepCustomers(Vec<NewCustomer>, Answer<Vec<Hex128>>),
    FindCustomers(BTreeSet<Hex128>, Answer<Vec<CustomerRow>>),
    CustomerSearch(Answer<Arc<dyn CustomerSearch>>),
    ForgetCustomers(Vec<Hex128>, Answer<usize>),
}

impl TextRequest {
    /// A request for what is kept of these orders, and what waits for its answer.
    pub(crate) fn find(names: Vec<Hex128>) -> (Self, Pending<FoundTexts>) {
        let (answer, pending) = pending();
        (Self::Find(names, answer), pending)
    }

    /// A request to erase a text, and what waits for its answer: `None` if the order is unknown.
    pub(crate) fn erase(erasure: TextErasure) -> (Self, Pending<Option<ErasedText>>) {
        let (answer, pending) = pending();
        (Self::Erase(erasure, answer), pending)
    }

    /// A request to keep customers, and what waits for their numbers.
    pub(crate) fn keep_customers(new: Vec<NewCustomer>) -> (Self, Pending<Vec<Hex128>>) {
        let (answer, pending) = pending();
        (Self::KeepCustomers(new, answer), pending)
    }

    /// A request for the rows of these customers, and what waits for them.
    pub(crate) fn find_customers(numbers: BTreeSet<Hex128>) -> (Self, Pending<Vec<CustomerRow>>) {
        let (answer, pending) = pending();
        (Self::FindCustomers(numbers, answer), pending)
    }

    /// A request for what a search for customers reads, and what waits for it.
    pub(crate) fn customer_search() -> (Self, Pending<Arc<dyn CustomerSearch>>) {
        let (answer, pending) = pending();
        (Self::CustomerSearch(answer), pending)
    }

    /// A request to delete the rows of customers with these numbers, and what waits for how many there were.
    pub(crate) fn forget_customers(numbers: Vec<Hex128>) -> (Self, Pending<usize>) {
        let (answer, pending) = pending();
        (Self::ForgetCustomers(numbers, answer), pending)
    }
}
