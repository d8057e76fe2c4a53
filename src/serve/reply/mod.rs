//! Responses: a [`response`] with a [`body`], or a [`problem`], each counted as one [`outcome`].

pub mod body;
pub(crate) mod conditions;
pub(crate) mod file_body;
pub(crate) mod file_reply;
pub mod outcome;
pub mod problem;
mod problem_detail;
pub mod response;
