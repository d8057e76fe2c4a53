//! Takes typed fields off a registry file's tables and collects every diagnostic about them on the way.
//!
//! A field that is absent or wrong reads as `None`; a wrong one leaves a diagnostic behind. Callers read all fields first and
//! throw the result away where there are diagnostics, so that one reading finds every mistake.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use std::str::FromStr;

use chrono::{DateTime, NaiveDate, Utc};

use crate::text::did_you_mean::did_you_mean;

use crate::registry::diagnostic::Diagnostic;
use crate::registry::json;
use crate::registry::spanned::{self, Node, ParseError, SpannedTable, Value, array, string, table};

/// A file that is wrong in every line is told so this often.
pub const MAX_DIAGNOSTICS: usize = 1_000;

/// One registry file, or one line of it, being read.
#[derive(Debug)]
pub struct DocumentReader<'a> {
    file: &'a Path,
    /// Where each line starts.
    lines: Vec<usize>,
    /// The number of the first line.
    first_line: usize,
    /// Whether dates and times are strings.
    json: bool,
    /// The first of them.
    diagnostics: Vec<Diagnostic>,
    /// How many there are in all.
    complained: usize,
}

impl<'a> DocumentReader<'a> {
    /// Parses a TOML file; without its table where the syntax is wrong.
    pub fn toml<'t>(file: &'a Path, text: &'t str) -> (Self, Option<SpannedTable<'t>>) {
        let starts = std::iter::once(0).chain(
            text.bytes()
                .enumerate()
                .filter(|&(_, b)| b == b'\n')
                .map(|(at, _)| at + 1),
        );
        let mut reader = Self {
            file,
            lines: starts.collect(),
            first_line: 1,
            json: false,
            diagnostics: vec![],
            complained: 0,
        };
        match spanned::from_toml(text) {
            Ok(table) => (reader, Some(table)),
            Err(faults) => {
                faults.into_iter().for_each(|fault| reader.fault(fault));
                (reader, None)
            }
        }
    }

    /// Parses one line of a file with a JSON object a line; without its table where there is none.
    pub fn json<'t>(file: &'a Path, line_number: usize, line: &'t str) -> (Self, Option<SpannedTable<'t>>) {
        let mut reader = Self::of_line(file, line_number);
        let table = match json::with_places(line) {
            Ok(Node {
                value: Value::Table(table),
                ..
            }) => Some(table),
            Ok(Node { at, value, .. }) => {
                reader.complain(at, format!("expected an object, found {}", value.type_name()));
                None
            }
            Err(fault) => {
                reader.fault(fault);
                None
            }
        };
        (reader, table)
    }

    /// The same for a line that is probably right: its diagnostics have no columns. `None` where there is no table.
    pub fn json_without_places<'t>(
        file: &'a Path,
        line_number: usize,
        line: &'t str,
    ) -> Option<(Self, SpannedTable<'t>)> {
        match json::without_places(line)?.value {
            Value::Table(table) => Some((Self::of_line(file, line_number), table)),
            _ => None,
        }
    }

    fn of_line(file: &'a Path, line_number: usize) -> Self {
        Self {
            file,
            lines: vec![0],
            first_line: line_number,
            json: true,
            diagnostics: vec![],
            complained: 0,
        }
    }

    fn fault(&mut self, fault: ParseError) {
        self.complain(fault.at, fault.message);
    }

    /// How many diagnostics there are so far.
    pub fn complained(&self) -> usize {
        self.complained
    }

    /// The first diagnostics, in the order of their places; that there are more comes last.
    pub fn diagnostics(mut self) -> Vec<Diagnostic> {
        self.diagnostics
            .sort_by_key(|diagnostic| (diagnostic.line, diagnostic.column));
        if self.complained > MAX_DIAGNOSTICS {
            self.diagnostics.push(Diagnostic::of_file(
                self.file,
                "too many mistakes: the rest is not told",
            ));
        }
        self.diagnostics
    }

    /// The line in which the byte `at` stands, counted from 1.
    pub fn line(&self, at: usize) -> usize {
        self.first_line + self.lines.partition_point(|&start| start <= at) - 1
    }

    /// Complains about what stands at the byte `at`; of too many diagnostics the last ones are only counted.
    pub fn complain(&mut self, at: usize, message: impl Into<String>) {
        self.complained += 1;
        if self.complained > MAX_DIAGNOSTICS {
            return;
        }
        let index = self.lines.partition_point(|&start| start <= at) - 1;
        self.diagnostics.push(Diagnostic {
            file: self.file.to_owned(),
            line: self.first_line + index,
            column: at - self.lines[index] + 1,
            message: message.into(),
        });
    }

    /// Complains about every field but the `known` ones.
    pub fn only(&mut self, table: &SpannedTable<'_>, known: &[&str]) {
        for (name, field) in &table.fields {
            if !known.contains(&&**name) {
                if self.complained >= MAX_DIAGNOSTICS {
                    // Comparing half a million names takes long.
                    self.complained += 1;
                    continue;
                }
                let meant = did_you_mean(name, known.iter().copied());
                self.complain(field.at, format!("unknown field {name:?}{meant}"));
            }
        }
    }

    /// Complains where there is no such field.
    pub fn require(&mut self, table: &SpannedTable<'_>, name: &str) {
        if !table.fields.contains_key(name) {
            self.complain(table.at, format!("missing field {name:?}"));
        }
    }

    /// A field as `take` finds it; a value of another type is complained about as not being `expected`.
    pub fn field<'t, 'n, T>(
        &mut self,
        table: &'n SpannedTable<'t>,
        name: &str,
        expected: &str,
        take: impl FnOnce(&'n Value<'t>) -> Option<T>,
    ) -> Option<(usize, T)> {
        let node = &table.fields.get(name)?.node;
        self.typed(node, name, expected, take)
    }

    /// A value as `take` finds it.
    pub fn typed<'t, 'n, T>(
        &mut self,
        node: &'n Node<'t>,
        name: &str,
        expected: &str,
        take: impl FnOnce(&'n Value<'t>) -> Option<T>,
    ) -> Option<(usize, T)> {
        let taken = take(&node.value);
        if taken.is_none() {
            let found = node.value.type_name();
            // Of the right type, it is not in the right range or form.
            let found = if expected.starts_with(found) {
                String::new()
            } else {
                format!(", not {found}")
            };
            self.complain(node.at, format!("{name:?} must be {expected}{found}"));
        }
        taken.map(|taken| (node.at, taken))
    }

    /// A string.
    pub fn string<'n>(&mut self, table: &'n SpannedTable<'_>, name: &str) -> Option<(usize, &'n str)> {
        self.field(table, name, "a string", string)
    }

    /// A string without line breaks and other control characters.
    pub fn line_of_text(&mut self, table: &SpannedTable<'_>, name: &str) -> Option<String> {
        let (at, text) = self.string(table, name)?;
        if text.chars().any(char::is_control) {
            self.complain(at, format!("{name:?} has a control character in it"));
        }
        Some(text.to_owned())
    }

    /// A boolean.
    pub fn boolean(&mut self, table: &SpannedTable<'_>, name: &str) -> Option<bool> {
        let boolean = |value: &Value<'_>| {
            if let Value::Boolean(value) = value {
                Some(*value)
            } else {
                None
            }
        };
        self.field(table, name, "true or false", boolean)
            .map(|(_, value)| value)
    }

    /// An integer within `range`.
    pub fn integer(&mut self, table: &SpannedTable<'_>, name: &str, range: RangeInclusive<u32>) -> Option<u32> {
        let node = &table.fields.get(name)?.node;
        let expected = format!("an integer from {} to {}", range.start(), range.end());
        let integer = |value: &Value<'_>| match value {
            Value::Integer(number) => u32::try_from(*number).ok().filter(|number| range.contains(number)),
            _ => None,
        };
        self.typed(node, name, &expected, integer).map(|(_, number)| number)
    }

    /// A day.
    pub fn date(&mut self, table: &SpannedTable<'_>, name: &str) -> Option<NaiveDate> {
        let json = self.json;
        let date = |value: &Value<'_>| match value {
            Value::Date(date) => Some(*date),
            Value::String(text) if json => day(text),
            _ => None,
        };
        let expected = if json {
            "a string such as \"2027-12-31\""
        } else {
            "a date such as 2027-12-31"
        };
        self.field(table, name, expected, date).map(|(_, date)| date)
    }

    /// A moment, with its offset from UTC.
    pub fn time(&mut self, table: &SpannedTable<'_>, name: &str) -> Option<DateTime<Utc>> {
        let json = self.json;
        let time = |value: &Value<'_>| match value {
            Value::Time(time) => Some(*time),
            Value::String(text) if json => DateTime::parse_from_rfc3339(text).ok().map(|time| time.to_utc()),
            _ => None,
        };
        let expected = if json {
            "a string such as \"2026-11-20T10:17:03Z\""
        } else {
            "a time such as 2026-11-20T10:17:03Z"
        };
        self.field(table, name, expected, time).map(|(_, time)| time)
    }

    /// A string that is read as a `T`; its errors begin with "not a …".
    pub fn parsed<T: FromStr<Err: Display>>(&mut self, table: &SpannedTable<'_>, name: &str) -> Option<T> {
        let (at, text) = self.string(table, name)?;
        self.parse(at, name, text)
    }

    /// Reads the string at `at` as a `T`.
    // SECURITY: the text is not shown: it may be a license key that was pasted in place of its id.
    pub fn parse<T: FromStr<Err: Display>>(&mut self, at: usize, name: &str, text: &str) -> Option<T> {
        text.parse()
            .map_err(|error| self.complain(at, format!("{name:?} is {error}")))
            .ok()
    }

    /// An array of strings, none of them twice, each with its place.
    pub fn strings<'n>(&mut self, table: &'n SpannedTable<'_>, name: &str) -> Option<Vec<(usize, &'n str)>> {
        let node = &table.fields.get(name)?.node;
        self.strings_of(node, name)
    }

    /// The strings of an array, none of them twice, each with its place.
    pub fn strings_of<'n>(&mut self, node: &'n Node<'_>, name: &str) -> Option<Vec<(usize, &'n str)>> {
        let (_, items) = self.typed(node, name, "an array of strings", array)?;
        let mut seen = HashSet::new();
        let mut texts = Vec::with_capacity(items.len());
        for item in items {
            if let Some((at, text)) = self.typed(item, name, "an array of strings", string) {
                if !seen.insert(text) {
                    self.complain(at, format!("{name:?} has {text:?} twice"));
                }
                texts.push((at, text));
            }
        }
        Some(texts)
    }

    /// A table.
    pub fn table<'t, 'n>(&mut self, within: &'n SpannedTable<'t>, name: &str) -> Option<&'n SpannedTable<'t>> {
        self.field(within, name, "a table", table).map(|(_, table)| table)
    }

    /// A table of strings with the `known` fields only, each as `read` takes it.
    pub fn string_table(
        &mut self,
        table: &SpannedTable<'_>,
        name: &str,
        known: &[&str],
        mut read: impl FnMut(&mut Self, &SpannedTable<'_>, &str) -> Option<String>,
    ) -> BTreeMap<String, String> {
        let Some(inner) = self.table(table, name) else {
            return BTreeMap::new();
        };
        self.only(inner, known);
        known
            .iter()
            .filter_map(|&key| Some((key.to_owned(), read(self, inner, key)?)))
            .collect()
    }
}

/// Reads `YYYY-MM-DD` and nothing else; chrono takes `2027-1-5` as well, which others would not.
fn day(text: &str) -> Option<NaiveDate> {
    let number = |range: Range<usize>| {
        let digits = text.get(range)?;
        if digits.bytes().all(|byte| byte.is_ascii_digit()) {
            digits.parse().ok()
        } else {
            None
        }
    };
    let has_shape = text.len() == 10 && [4, 7].iter().all(|&at| text.as_bytes()[at] == b'-');
    let year: u32 = number(0..4)?;
    let month = number(5..7)?;
    let day = number(8..10)?;
    if has_shape {
        NaiveDate::from_ymd_opt(year as i32, month, day)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_four_digits_two_and_two() {
        assert_eq!(day("2027-12-31"), NaiveDate::from_ymd_opt(2027, 12, 31));
        for wrong in [
            "2027-1-31",
            "2027-02-30",
            "+027-01-01",
            "2027-01-01 ",
            "2027/01/01",
            "",
            "２027-1-1",
            "2027-13-01",
        ] {
            assert_eq!(day(wrong), None, "{wrong}");
        }
    }
}
