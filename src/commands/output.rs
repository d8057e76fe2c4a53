//! Output of commands to stdout: text, one JSON document, or a table.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use countersign_model::text::printable::{Printable, is_unsafe};

use crate::commands::{Exit, Failure};

/// A change was written, but reporting it failed.
#[derive(Debug, thiserror::Error)]
#[error("the change is written, but stdout cannot be written to")]
pub struct NotPrinted(#[source] pub io::Error);

/// Prints a result to stdout. A reader may stop early, such as `head`.
pub fn print(text: &str) -> Result<Exit, Failure> {
    print_or(text, Failure::environment)
}

/// The same for a change: if printing fails, the error says that the change was made.
pub fn print_change(text: &str) -> Result<Exit, Failure> {
    print_or(text, |error| Failure::environment(NotPrinted(error)))
}

fn print_or(text: &str, failure: impl FnOnce(io::Error) -> Failure) -> Result<Exit, Failure> {
    match write_whole(&mut io::stdout().lock(), text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(failure(error)),
        _ => Ok(Exit::Done),
    }
}

/// Refuses a stdout that nobody can read, for output that is shown only once.
pub fn refuse_unseen() -> Result<(), Failure> {
    if !is_null(io::stdout()) {
        return Ok(());
    }
    Err(
        Failure::environment("stdout is closed or /dev/null, so nobody would see the key; nothing was written")
            .hint("send stdout to a terminal, a pipe or a file"),
    )
}

/// Whether stdout discards its output. Rust opens /dev/null if stdout is closed.
fn is_null(descriptor: impl AsFd) -> bool {
    let number = |metadata: fs::Metadata| metadata.file_type().is_char_device().then(|| metadata.rdev());
    let written_to = descriptor
        .as_fd()
        .try_clone_to_owned()
        .and_then(|owned| File::from(owned).metadata());
    match (written_to, fs::metadata("/dev/null")) {
        (Ok(written_to), Ok(null)) => number(written_to).is_some_and(|written_to| Some(written_to) == number(null)),
        (Ok(_), Err(_)) => false,
        // Stdout is closed.
        (Err(_), _) => true,
    }
}

/// Writes all of it or fails, for output that is shown only once.
pub fn write_whole(out: &mut impl io::Write, text: &str) -> io::Result<()> {
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// One indented JSON document with a final newline.
pub fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(value).map_err(Failure::environment)?;
    Ok(printable_json(&text).into_owned() + "\n")
}

/// A path as text. JSON is UTF-8, but a path need not be; it is printed in any case.
pub fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// One JSON document on one line without a newline, written into the buffer `room`.
pub fn json_line<'r>(value: &impl serde::Serialize, room: &'r mut Vec<u8>) -> io::Result<Cow<'r, str>> {
    room.clear();
    serde_json::to_writer(&mut *room, value)?;
    let text = std::str::from_utf8(room).map_err(io::Error::other)?;
    Ok(printable_json(text))
}

/// An error as one line of JSON: the last line of stderr with `--json`.
pub fn error_json(error: &str, causes: &[String], hint: Option<&str>, exit_code: u8) -> String {
    let document = serde_json::json!({ "error": error, "caused_by": causes, "hint": hint, "exit_code": exit_code });
    printable_json(&document.to_string()).into_owned()
}

/// Escapes DEL, the C1 controls and text-direction overrides, which JSON allows but terminals may obey.
pub fn printable_json(json: &str) -> Cow<'_, str> {
    // Nearly all of it is ASCII, which is searched faster than it is copied.
    if json.bytes().all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte)) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        match is_unsafe(c) && c != '\n' {
            // All of them have four digits.
            true => escaped += &format!("\\u{:04x}", u32::from(c)),
            false => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

/// The width of the terminal in characters; `None` if stdout is not a terminal.
pub fn terminal_width() -> Option<usize> {
    terminal_size::terminal_size_of(io::stdout()).map(|(terminal_size::Width(width), _)| width.into())
}

/// Rows under headings, in columns as wide as their widest cell.
#[derive(Clone, Debug)]
pub struct Table {
    /// The cells of all rows, one after the other.
    cells: String,
    /// Where each cell ends.
    ends: Vec<usize>,
    /// The width of each column in characters.
    widths: Vec<usize>,
}

/// The gap between two columns.
const GAP: usize = 2;

/// The least width of a shortened column.
const SHORTEST: usize = 8;

impl Table {
    /// A table with these headings.
    pub fn new<const N: usize>(headings: [&str; N]) -> Self {
        Self::under(&headings.each_ref().map(|heading| heading as &dyn fmt::Display))
    }

    /// A table with these headings, whose number is not known beforehand.
    pub fn under(headings: &[&dyn fmt::Display]) -> Self {
        let mut table = Self {
            cells: String::new(),
            ends: Vec::new(),
            widths: vec![0; headings.len()],
        };
        table.add(headings.iter().copied());
        table
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [&dyn fmt::Display; N]) {
        self.add(cells);
    }

    /// Adds a row with as many cells as there are headings. Control characters are escaped.
    pub fn add<'a>(&mut self, cells: impl IntoIterator<Item = &'a dyn fmt::Display>) {
        for (width, cell) in self.widths.iter_mut().zip(cells) {
            let start = self.cells.len();
            // Writing to a string fails only if a value's own formatting fails, which does not happen here.
            let _ = write!(self.cells, "{}", Printable(cell));
            *width = self.cells[start..].chars().count().max(*width);
            self.ends.push(self.cells.len());
        }
    }

    /// Narrows the last columns, the last one first, so that a row has `width` characters.
    pub fn fit(&mut self, width: usize) {
        let gaps = GAP * self.widths.len().saturating_sub(1);
        let mut excess = (self.widths.iter().sum::<usize>() + gaps).saturating_sub(width);
        for column in self.widths.iter_mut().rev() {
            let cut = excess.min(column.saturating_sub(SHORTEST));
            *column -= cut;
            excess -= cut;
        }
    }

    /// Writes all rows. Cells that are wider than their column are cut.
    pub fn write(&self, out: &mut impl io::Write) -> io::Result<()> {
        let mut line = String::new();
        let mut start = 0;
        for ends in self.ends.chunks(self.widths.len()) {
            line.clear();
            for (&width, &end) in self.widths.iter().zip(ends) {
                let cell = &self.cells[start..end];
                start = end;
                let length = cell.chars().count();
                if length > width {
                    line.extend(cell.chars().take(width.saturating_sub(1)));
                    line.push('…');
                } else {
                    line.push_str(cell);
                    line.extend(std::iter::repeat_n(' ', width - length));
                }
                line.extend([' '; GAP]);
            }
            line.truncate(line.trim_end().len());
            line.push('\n');
            out.write_all(line.as_bytes())?;
        }
        Ok(())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::new();
        self.write(&mut text).map_err(|_| fmt::Error)?;
        f.write_str(&String::from_utf8_lossy(&text))
    }
}

/// The text of `--version`: the version, the commit, and the numbers of the formats that the program writes. A program with a lower number
/// may be unable to read that format.
pub fn long_version(commit: Option<&str>) -> String {
    format!(
        "{}\ncommit {}\nformats: ledger {}, tables {}, manifests {}, packages {}",
        env!("CARGO_PKG_VERSION"),
        commit.filter(|commit| !commit.is_empty()).unwrap_or("unknown"),
        countersign_ledger::FORMAT,
        countersign_ledger::TABLES_FORMAT,
        crate::build::FORMAT,
        countersign_package::writer::FORM,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_for_a_terminal_keeps_its_meaning_and_steers_nothing() {
        let raw = "{\n\"a\": \"\u{9b}b\u{202E}c\"\n}";
        assert_eq!(printable_json(raw), "{\n\"a\": \"\\u009bb\\u202ec\"\n}");
        let value = "é\u{7f}";
        assert_eq!(json(&value).unwrap(), "\"é\\u007f\"\n");
        assert_eq!(json_line(&value, &mut b"old".to_vec()).unwrap(), "\"é\\u007f\"");
    }

    #[test]
    fn what_is_written_to_dev_null_and_nowhere_else_is_lost() {
        assert!(is_null(File::open("/dev/null").unwrap()));
        assert!(!is_null(File::open("/dev/full").unwrap()));
        assert!(!is_null(tempfile::tempfile().unwrap()) && !is_null(io::pipe().unwrap().1));
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_cells_cannot_break_out() {
        let mut table = Table::new(["ID", "SITES", "NOTE"]);
        table.row([&"a", &1, &"Zoë"]);
        table.row([&"long", &"unlimited", &"x\ny"]);
        assert_eq!(
            table.to_string(),
            "ID    SITES      NOTE\na     1          Zoë\nlong  unlimited  x\\ny\n"
        );
    }
}
