//! What commands print to stdout: text, one JSON document, or a table.

use std::fmt;
use std::io;

use crate::model::printable::{Printable, is_unsafe};

use super::{Exit, Failure};

/// Prints a result to stdout. Whoever stops reading early, such as `head`, has what they wanted.
pub fn print(text: &str) -> Result<Exit, Failure> {
    match write_whole(&mut io::stdout().lock(), text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::environment(error)),
        _ => Ok(Exit::Done),
    }
}

/// Writes all of it, or fails: for what is shown only once.
pub fn write_whole(out: &mut impl io::Write, text: &str) -> io::Result<()> {
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// One JSON document, for a person to read and a program to parse, with a final newline.
pub fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    serde_json::to_string_pretty(value).map(|text| text + "\n").map_err(Failure::environment)
}

/// JSON leaves DEL, the C1 controls and text-direction overrides as they are; a terminal obeys some of them.
pub fn printable_json(json: &str) -> String {
    // All of them have four digits.
    let is_raw = |c: &char| is_unsafe(*c) && *c != '\n';
    json.chars().map(|c| if is_raw(&c) { format!("\\u{:04x}", u32::from(c)) } else { c.into() }).collect()
}

/// Rows under a heading, in columns as wide as their widest cell.
#[derive(Clone, Debug)]
pub struct Table(Vec<Vec<String>>);

impl Table {
    /// A table with these headings.
    pub fn new(headings: &[&str]) -> Self {
        Self(vec![headings.iter().map(ToString::to_string).collect()])
    }

    /// Adds a row; control characters in it are escaped.
    pub fn row<const N: usize>(&mut self, cells: [&dyn fmt::Display; N]) {
        self.0.push(cells.map(|cell| Printable(cell).to_string()).into());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.0.first().map_or(0, Vec::len);
        let width = |column: usize| self.0.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<_> = (0..columns).map(width).collect();
        for row in &self.0 {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
            writeln!(f, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_for_a_terminal_keeps_its_meaning_and_steers_nothing() {
        let raw = "{\n\"a\": \"\u{9b}b\u{202E}c\"\n}";
        assert_eq!(printable_json(raw), "{\n\"a\": \"\\u009bb\\u202ec\"\n}");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_cells_cannot_break_out() {
        let mut table = Table::new(&["ID", "SITES", "NOTE"]);
        table.row([&"a", &1, &"Zoë"]);
        table.row([&"long", &"unlimited", &"x\ny"]);
        assert_eq!(table.to_string(), "ID    SITES      NOTE\na     1          Zoë\nlong  unlimited  x\\ny\n");
    }
}
