//! Requests to read and to erase texts of orders. The thread of `commit_writer` answers them, in turn with its commits: an
//! erased text is not brought back by a commit that was under way.

use crate::answer::{Answer, Pending, pending};
use crate::texts::customers::{CustomerQuery, FoundCustomers};
use crate::texts::erasure::{ErasedText, FoundTexts, TextErasure};
use countersign_model::customer::NewCustomer;
use countersign_model::issued_license::Hex128;

/// A request, while it waits.
pub(crate) enum TextRequest {
    Find(Vec<Hex128>, Answer<FoundTexts>),
    Erase(TextErasure, Answer<Option<ErasedText>>),
    KeepCustomers(Vec<NewCustomer>, Answer<Vec<Hex128>>),
    FindCustomers(CustomerQuery, Answer<FoundCustomers>),
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

    /// A request for rows of customers, and what waits for them.
    pub(crate) fn find_customers(query: CustomerQuery) -> (Self, Pending<FoundCustomers>) {
        let (answer, pending) = pending();
        (Self::FindCustomers(query, answer), pending)
    }

    /// A request to delete the rows of customers with these numbers, and what waits for how many there were.
    pub(crate) fn forget_customers(numbers: Vec<Hex128>) -> (Self, Pending<usize>) {
        let (answer, pending) = pending();
        (Self::ForgetCustomers(numbers, answer), pending)
    }
}
