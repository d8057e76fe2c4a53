//! Parts of messages and pages, such as printable text, text from outside and error chains. Also [`folded`], which searches compare, and
//! [`stderr`], which messages go to.

pub mod did_you_mean;
pub mod error_chain;
pub mod folded;
pub mod outside_text;
pub mod printable;
pub mod shell_quoted;
pub mod short_message;
pub mod stderr;
pub mod toml_error;
