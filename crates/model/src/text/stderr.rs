//! Standard error, where notes, warnings, progress and errors go.
//!
//! Writing to it may fail: a closed pipe, a full disk. That must not stop the work, as a panic of `eprintln!` would.
//! The test `architecture::only_stderr_prints` forbids other ways to print.

use std::fmt::Display;
use std::io::{self, Write as _};

use crate::text::printable::PrintableLines;

/// Prints one line or several, escaped for terminals. Ignores errors.
pub fn line(text: impl Display) {
    let _ = try_line(text);
}

/// Prints one line or several, escaped for terminals, that the person must see.
///
/// # Errors
/// As the system's.
pub fn try_line(text: impl Display) -> io::Result<()> {
    let text = format!("{}\n", PrintableLines(text));
    io::stderr().lock().write_all(text.as_bytes())
}
