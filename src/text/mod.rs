//! Parts of messages: printable text, error chains and "did you mean"; and standard error, where they go.

pub mod did_you_mean;
pub mod error_chain;
pub mod printable;
pub mod stderr;
