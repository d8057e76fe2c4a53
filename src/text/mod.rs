//! What messages are made of: printable text, the chain of an error's causes, and "did you mean"; and where they go.

pub mod did_you_mean;
pub mod error_chain;
pub mod printable;
pub mod stderr;
