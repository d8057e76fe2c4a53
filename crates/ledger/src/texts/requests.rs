//! Requests to read and to erase texts of orders. The thread of `commit_writer` answers them, in turn with its commits: an
//! erased text is not brought back by a commit that was under way.

use crate::answer::{Answer, Pending, pending};
use crate::texts::erasure::{ErasedText, FoundTexts, TextErasure};
use countersign_model::issued_license::Hex128;

/// A request, while it waits.
pub(crate) enum TextRequest {
    Find(Vec<Hex128>, Answer<FoundTexts>),
    Erase(TextErasure, Answer<Option<ErasedText>>),
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
}
