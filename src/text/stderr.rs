//! Standard error, where notes, warnings, progress and errors go.
//!
//! Nobody may be there to read it: a pipe that was closed, a full disk. That must not end work that is half done, as
//! `eprintln!` would with a panic. A test (`architecture::only_stderr_prints`) forbids printing in any other way.

use std::fmt::Display;
use std::io::{self, Write as _};

use crate::text::printable::PrintableLines;

/// Prints a line, or several. What a terminal could obey is escaped; whether anybody can read it is not told.
pub fn line(text: impl Display) {
    let text = format!("{}\n", PrintableLines(text));
    let _ = io::stderr().lock().write_all(text.as_bytes());
}
