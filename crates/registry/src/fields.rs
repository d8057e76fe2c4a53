//! Field types of registry files: strings, numbers, days, times, lists and tables of them.
//!
//! These are methods of [`DocumentReader`], which collects their diagnostics.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use std::str::FromStr;

use chrono::{DateTime, NaiveDate, Utc};

use crate::reader::DocumentReader;
use crate::spanned::{Node, SpannedTable, Value, array, string, table};
use countersign_model::period;

impl DocumentReader<'_> {
    /// A string.
    pub(super) fn string<'n>(&mut self, table: &'n SpannedTable<'_>, name: &str) -> Option<(usize, &'n str)> {
        self.field(table, name, "a string", string)
    }

    /// A string without line breaks and other control characters.
    pub(super) fn line_of_text(&mut self, table: &SpannedTable<'_>, name: &str) -> Option<String> {
        let (at, text) = self.string(table, name)?;
        if text.chars().any(char::is_control) {
            self.complain(at, format!("{name:?} contains a control character"));
        }
        Some(text.to_owned())
    }

    /// A boolean.
    pub(super) fn boolean(&mut self, table: &SpannedTable<'_>, name: &str) -> Option<bool> {
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
    pub(super) fn integer(&mut self, table: &SpannedTable<'_>, name: &str, range: RangeInclusive<u32>) -> Option<u32> {
        let node = &table.fields.get(name)?.node;
        let expected = format!("an integer from {} to {}", range.start(), range.end());
        let integer = |value: &Value<'_>| match value {
            Value::Integer(number) => u32::try_from(*number).ok().filter(|number| range.contains(number)),
            _ => None,
        };
        self.typed(node, name, &expected, integer).map(|(_, number)| number)
    }

    /// The last day of a license.
    pub(super) fn last_day(&mut self, table: &SpannedTable<'_>, name: &str) -> Option<NaiveDate> {
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
        let last_day = |value: &Value<'_>| date(value).and_then(period::last_day);
        self.field(table, name, expected, last_day).map(|(_, day)| day)
    }

    /// A time with its offset from UTC.
    pub(super) fn time(&mut self, table: &SpannedTable<'_>, name: &str) -> Option<DateTime<Utc>> {
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

    /// A string that is parsed as a `T`, whose errors begin with "not a …".
    pub(super) fn parsed<T: FromStr<Err: Display>>(&mut self, table: &SpannedTable<'_>, name: &str) -> Option<T> {
        let (at, text) = self.string(table, name)?;
        self.parse(at, name, text)
    }

    /// Parses the string at `at` as a `T`.
    // SECURITY: the text is not shown, because it may be a license key in the place of its id.
    pub(super) fn parse<T: FromStr<Err: Display>>(&mut self, at: usize, name: &str, text: &str) -> Option<T> {
        text.parse()
            .map_err(|error| self.complain(at, format!("{name:?} is {error}")))
            .ok()
    }

    /// An array of strings without duplicates, each with its position.
    pub(super) fn strings<'n>(&mut self, table: &'n SpannedTable<'_>, name: &str) -> Option<Vec<(usize, &'n str)>> {
        let node = &table.fields.get(name)?.node;
        self.strings_of(node, name)
    }

    /// The strings of an array without duplicates, each with its position.
    pub(super) fn strings_of<'n>(&mut self, node: &'n Node<'_>, name: &str) -> Option<Vec<(usize, &'n str)>> {
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
    pub(super) fn table<'t, 'n>(&mut self, within: &'n SpannedTable<'t>, name: &str) -> Option<&'n SpannedTable<'t>> {
        self.field(within, name, "a table", table).map(|(_, table)| table)
    }

    /// A table of strings with only the `known` fields, each parsed by `read`.
    pub(super) fn string_table(
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

/// Parses `YYYY-MM-DD` and nothing else; chrono also accepts `2027-1-5`, which other programs may not.
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
