//! Requests to read and to erase texts of orders. The thread of `commit_writer` answers them, in turn with its commits: an
//! erased text is not brought back by a commit that was under way.

use crate::answer::{Answer, Pending, pending};
use crate::references::erasure::{ErasedReference, FoundReferences, ReferenceErasure};
use countersign_model::issued_license::Hex128;

/// A request, while it waits.
pub(crate) enum ReferenceRequest {
    Find(Vec<Hex128>, Answer<FoundReferences>),
    Erase(ReferenceErasure, Answer<Option<ErasedReference>>),
}

impl ReferenceRequest {
    /// A request for what is kept of these orders, and what waits for its answer.
    pub(crate) fn find(names: Vec<Hex128>) -> (Self, Pending<FoundReferences>) {
        let (answer, pending) = pending();
        (Self::Find(names, answer), pending)
    }

    /// A request to erase a text, and what waits for its answer: `None` if the order is unknown.
    pub(crate) fn erase(erasure: ReferenceErasure) -> (Self, Pending<Option<ErasedReference>>) {
        let (answer, pending) = pending();
        (Self::Erase(erasure, answer), pending)
    }
}
