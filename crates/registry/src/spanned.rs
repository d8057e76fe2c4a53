//! Registry text as a tree of values with positions: one tree for TOML and, by [`json`](crate::json), for a
//! line of JSON.
//!
//! The reader walks the tree and makes a plugin or a license from it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use chrono::{DateTime, NaiveDate, Utc};
use toml::de::{DeTable, DeValue};

use countersign_model::text::toml_error;

/// A registry needs four levels. Deeper JSON is refused, so that it cannot exhaust the stack.
pub(super) const MAX_DEPTH: usize = 8;

/// The largest TOML file, in bytes, that is parsed on after its first error: the parser keeps every error.
const MAX_RECOVERABLE: usize = 64 << 10;

/// How many syntax errors of a file are reported. A duplicate key parses the text once more, to find its first place.
const MAX_ERRORS: usize = 20;

/// A value, with the byte where it starts.
#[derive(Debug)]
pub(super) struct Node<'a> {
    pub at: usize,
    pub value: Value<'a>,
}

/// The types of TOML and JSON that a registry uses.
#[derive(Debug)]
pub(super) enum Value<'a> {
    String(Cow<'a, str>),
    Integer(i64),
    Boolean(bool),
    Date(NaiveDate),
    Time(DateTime<Utc>),
    Array(Vec<Node<'a>>),
    Table(SpannedTable<'a>),
    /// Anything else, with its name.
    Other(&'static str),
}

/// Fields by name, and the byte where the table or its header starts.
#[derive(Debug, Default)]
pub(super) struct SpannedTable<'a> {
    pub at: usize,
    pub fields: BTreeMap<Cow<'a, str>, Field<'a>>,
}

/// The byte where a field's name starts, and its value.
#[derive(Debug)]
pub(super) struct Field<'a> {
    pub at: usize,
    pub node: Node<'a>,
}

/// Why a text is not TOML or JSON, and at which byte.
#[derive(Debug)]
pub(super) struct ParseError {
    pub at: usize,
    pub message: String,
}

impl Value<'_> {
    /// As JSON. Dates and times are strings there, and a value that a registry does not use is null.
    pub(super) fn to_json(&self) -> serde_json::Value {
        match self {
            Self::String(text) => text.as_ref().into(),
            Self::Integer(number) => (*number).into(),
            Self::Boolean(value) => (*value).into(),
            Self::Date(day) => day.to_string().into(),
            Self::Time(time) => time.to_rfc3339().into(),
            Self::Array(items) => items.iter().map(|item| item.value.to_json()).collect(),
            Self::Table(table) => {
                let field = |(name, field): (&Cow<'_, str>, &Field<'_>)| (name.to_string(), field.node.value.to_json());
                serde_json::Value::Object(table.fields.iter().map(field).collect())
            }
            Self::Other(_) => serde_json::Value::Null,
        }
    }

    /// The name of its type.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::String(_) => "a string",
            Self::Integer(_) => "an integer",
            Self::Boolean(_) => "a boolean",
            Self::Date(_) => "a date",
            Self::Time(_) => "a date with time and offset",
            Self::Array(_) => "an array",
            Self::Table(_) => "a table",
            Self::Other(name) => name,
        }
    }
}

/// Parses a TOML document, or reports its syntax errors: the first [`MAX_ERRORS`] in a file of usual size, and the first
/// one in a larger file.
pub(super) fn from_toml(text: &str) -> Result<SpannedTable<'_>, Vec<ParseError>> {
    let first = match DeTable::parse(text) {
        Ok(document) => return Ok(toml_table(0, document.into_inner())),
        Err(error) => error,
    };
    let at = |error: &toml::de::Error| error.span().map_or(0, |span| span.start);
    let mut errors = if text.len() > MAX_RECOVERABLE {
        vec![first]
    } else {
        DeTable::parse_recoverable(text).1
    };
    errors.sort_by_key(at);
    Err(errors
        .iter()
        .take(MAX_ERRORS)
        .map(|error| ParseError {
            at: at(error),
            message: toml_error::message(text, error),
        })
        .collect())
}

fn toml_table<'a>(at: usize, table: DeTable<'a>) -> SpannedTable<'a> {
    let field = |(name, value): (toml::Spanned<_>, toml::Spanned<_>)| {
        let at = name.span().start;
        let place = value.span();
        (
            name.into_inner(),
            Field {
                at,
                node: toml_node(place, value.into_inner()),
            },
        )
    };
    SpannedTable {
        at,
        fields: table.into_iter().map(field).collect(),
    }
}

fn toml_node<'a>(place: Range<usize>, value: DeValue<'a>) -> Node<'a> {
    let value = match value {
        DeValue::String(text) => Value::String(text),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or(Value::Other("a number out of range"), Value::Integer),
        DeValue::Float(_) => Value::Other("a float"),
        DeValue::Boolean(value) => Value::Boolean(value),
        DeValue::Datetime(time) => toml_time(time),
        DeValue::Array(items) => {
            let item = |item: toml::Spanned<_>| toml_node(item.span(), item.into_inner());
            Value::Array(items.into_iter().map(item).collect())
        }
        DeValue::Table(table) => Value::Table(toml_table(place.start, table)),
    };
    Node { at: place.start, value }
}

fn toml_time(time: toml::value::Datetime) -> Value<'static> {
    let (date, offset_time) = match (time.date, time.time, time.offset) {
        (Some(_), None, None) => (time.to_string().parse().ok(), None),
        (Some(_), Some(_), Some(_)) => (None, DateTime::parse_from_rfc3339(&time.to_string()).ok()),
        _ => return Value::Other("a time without date or offset"),
    };
    let offset_time = offset_time.map(|time| Value::Time(time.to_utc()));
    date.map(Value::Date)
        .or(offset_time)
        .unwrap_or(Value::Other("a day or time that does not exist"))
}

/// The text of a string.
pub(super) fn string<'n>(value: &'n Value<'_>) -> Option<&'n str> {
    if let Value::String(text) = value {
        Some(text)
    } else {
        None
    }
}

/// The items of an array.
pub(super) fn array<'t, 'n>(value: &'n Value<'t>) -> Option<&'n [Node<'t>]> {
    if let Value::Array(items) = value {
        Some(items)
    } else {
        None
    }
}

/// The fields of a table.
pub(super) fn table<'t, 'n>(value: &'n Value<'t>) -> Option<&'n SpannedTable<'t>> {
    if let Value::Table(table) = value {
        Some(table)
    } else {
        None
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Where a field's name and its value start, and the value.
    pub(crate) fn field<'t, 'a>(table: &'t SpannedTable<'a>, name: &str) -> (usize, usize, &'t Value<'a>) {
        let field = &table.fields[name];
        (field.at, field.node.at, &field.node.value)
    }

    #[test]
    fn a_toml_value_knows_its_type_and_its_place() {
        let text = "a = 'x'\nb = [1, true]\nc = 2027-12-31\nd = 2026-11-20T11:00:00+01:00\ne = 1.5\n[t]\n";
        let table = from_toml(text).unwrap();
        assert!(matches!(field(&table, "a"), (0, 4, Value::String(text)) if text == "x"));
        assert!(matches!(field(&table, "b"), (8, 12, Value::Array(items))
            if matches!(items[..], [Node { at: 13, value: Value::Integer(1) }, Node { at: 16, value: Value::Boolean(true) }])));
        assert!(matches!(field(&table, "c").2, Value::Date(date) if date.to_string() == "2027-12-31"));
        assert!(matches!(field(&table, "d").2, Value::Time(time) if time.to_rfc3339() == "2026-11-20T10:00:00+00:00"));
        assert!(matches!(field(&table, "e").2, Value::Other("a float")));
        assert!(matches!(field(&table, "t").2, Value::Table(table) if text[table.at..] == *"[t]\n"));
    }

    #[test]
    fn every_syntax_error_of_a_toml_file_is_found() {
        let faults = from_toml("a = \nb = 1\nc = ]\n").unwrap_err();
        assert_eq!(
            faults.iter().map(|fault| fault.at).collect::<Vec<_>>(),
            [4, 15],
            "{faults:?}"
        );
    }

    #[test]
    fn of_very_many_syntax_errors_the_first_ones_are_reported_in_their_order() {
        let started = std::time::Instant::now();
        for line in ["a = 1\n", "a = \n"] {
            let faults = from_toml(&line.repeat(MAX_RECOVERABLE / line.len())).unwrap_err();
            assert_eq!(faults.len(), MAX_ERRORS, "{line}");
            assert!(faults.is_sorted_by_key(|fault| fault.at), "{line}");
            assert!(
                faults[1].message.contains("a is set twice: here and in line 1"),
                "{line}"
            );
        }
        assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
    }

    #[test]
    fn of_a_large_toml_file_the_first_syntax_error_is_found() {
        let text = format!("a = 1\n{}", "=\n".repeat(MAX_RECOVERABLE));
        assert!(matches!(from_toml(&text).unwrap_err()[..], [ParseError { at: 6, .. }]));
    }
}
