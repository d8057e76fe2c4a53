//! What is sent back: a [`response`] with a [`body`], or a [`problem`], each counted as one [`outcome`].

pub mod body;
pub(crate) mod conditions;
pub mod outcome;
pub mod problem;
pub(crate) mod problem_document;
pub mod response;
