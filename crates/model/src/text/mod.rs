//! Parts of messages and pages: printable text, text from outside, quoted paths, error chains, TOML errors and "did you mean"; and standard error, where they go.

pub mod did_you_mean;
pub mod error_chain;
pub mod outside_text;
pub mod printable;
pub mod shell_quoted;
pub mod short_message;
pub mod stderr;
pub mod toml_error;
