//! Parses a line of JSON as the tree of [`spanned`](crate::spanned).
//!
//! Positions need one pass over the line for each level of nesting, which triples the time for a million licenses. So
//! a line is parsed [without them](without_places) first, and again [with them](with_places) if it has an error.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess};
use serde_json::value::RawValue;

use crate::spanned::{Field, MAX_DEPTH, Node, ParseError, SpannedTable, Value};

/// Parses one line with every position 0. `None` if [`with_places`] may find an error.
pub(super) fn without_places(line: &str) -> Option<Node<'_>> {
    serde_json::from_str(line).ok()
}

/// Parses one line, with the position of each value.
pub(super) fn with_places(line: &str) -> Result<Node<'_>, ParseError> {
    let raw: &RawValue = serde_json::from_str(line).map_err(|error| json_fault(0, &error))?;
    json_node(line, raw, MAX_DEPTH)
}

fn json_node<'a>(line: &'a str, raw: &'a RawValue, depth: usize) -> Result<Node<'a>, ParseError> {
    let at = offset(line, raw);
    let text = raw.get();
    let value = match text.as_bytes().first() {
        Some(b'{' | b'[') if depth == 0 => Value::Other("nested too deeply"),
        Some(b'{') => {
            let Members(members) = serde_json::from_str(text).map_err(|error| json_fault(at, &error))?;
            let mut fields = BTreeMap::new();
            for (name, value) in members {
                let at = offset(line, name);
                let name = json_string(at, name)?;
                let message = format!("duplicate field {name:?}");
                let field = Field {
                    at,
                    node: json_node(line, value, depth - 1)?,
                };
                if fields.insert(name, field).is_some() {
                    return Err(ParseError { at, message });
                }
            }
            Value::Table(SpannedTable { at, fields })
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(text).map_err(|error| json_fault(at, &error))?;
            Value::Array(
                items
                    .into_iter()
                    .map(|item| json_node(line, item, depth - 1))
                    .collect::<Result<_, _>>()?,
            )
        }
        Some(b'"') => Value::String(json_string(at, raw)?),
        Some(b't' | b'f') => Value::Boolean(text == "true"),
        Some(b'n') => Value::Other("null"),
        _ => text
            .parse()
            .map_or(Value::Other("a number that is not an integer"), Value::Integer),
    };
    Ok(Node { at, value })
}

/// Where a raw value starts. It is a part of the line itself.
fn offset(line: &str, raw: &RawValue) -> usize {
    raw.get().as_ptr() as usize - line.as_ptr() as usize
}

fn json_string<'a>(at: usize, raw: &'a RawValue) -> Result<Cow<'a, str>, ParseError> {
    match raw.get().strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(plain) if !plain.contains('\\') => Ok(plain.into()),
        _ => serde_json::from_str(raw.get())
            .map(Cow::Owned)
            .map_err(|error| json_fault(at, &error)),
    }
}

fn json_fault(at: usize, error: &serde_json::Error) -> ParseError {
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or_default().to_owned();
    ParseError {
        at: at + error.column().saturating_sub(1),
        message,
    }
}

/// The members of an object in order, duplicates included.
struct Members<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Vec<(&'de RawValue, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Visitor).map(Members)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Node<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = deserializer.deserialize_any(ValueVisitor)?;
        Ok(Node { at: 0, value })
    }
}

/// Parses a value; serde_json stops at 128 levels of nesting.
struct ValueVisitor;

impl<'de> de::Visitor<'de> for ValueVisitor {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Value::String(text.into()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Value::String(text.to_owned().into()))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
        i64::try_from(number).map(Value::Integer).map_err(E::custom)
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Value::Integer(number))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Value::Boolean(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element()? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut table = SpannedTable::default();
        while let Some((MemberName(name), node)) = members.next_entry()? {
            if table.fields.insert(name, Field { at: 0, node }).is_some() {
                return Err(de::Error::custom("twice"));
            }
        }
        Ok(Value::Table(table))
    }
}

/// A member's name, borrowed if it has no escapes.
struct MemberName<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for MemberName<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Cow<'de, str>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
                Ok(name.into())
            }

            fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
                Ok(name.to_owned().into())
            }
        }
        deserializer.deserialize_str(Visitor).map(MemberName)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spanned::tests::field;
    use proptest::prelude::*;

    #[test]
    fn a_json_value_knows_its_type_and_its_place() {
        let line = r#"{"a": "x", "b\u0062": ["\u00e9", 1, null], "c": {"d": false}}"#;
        let Value::Table(table) = with_places(line).unwrap().value else {
            panic!("no object")
        };
        assert!(matches!(field(&table, "a"), (1, 6, Value::String(text)) if text == "x"));
        assert!(matches!(field(&table, "bb"), (11, 22, Value::Array(items))
            if matches!(&items[..], [Node { at: 23, value: Value::String(e) }, Node { at: 33, value: Value::Integer(1), .. },
                Node { value: Value::Other("null"), .. }] if e == "é")));
        let (_, 48, Value::Table(inner)) = field(&table, "c") else {
            panic!("no object within")
        };
        assert!(matches!(field(inner, "d"), (49, 54, Value::Boolean(false))));
    }

    #[test]
    fn broken_json_is_refused_where_it_breaks() {
        for (line, at) in [
            (r#"{"a": tru}"#, 9),
            (r#"{"a": 1"#, 6),
            (r#"{"a": "\ud800"}"#, 13),
            (r#"{"a":1,"a":2}"#, 7),
            (r#"{"a":1} x"#, 8),
        ] {
            assert_eq!(with_places(line).unwrap_err().at, at, "{line}");
        }
    }

    #[test]
    fn deep_nesting_is_not_followed() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        let mut node = with_places(&deep).unwrap();
        for _ in 0..MAX_DEPTH {
            let Value::Array(mut items) = node.value else {
                panic!("no array")
            };
            node = items.remove(0);
        }
        assert!(matches!(node.value, Value::Other("nested too deeply")));
    }

    /// Drops the positions.
    fn shape(value: &Value<'_>) -> String {
        match value {
            Value::Array(items) => {
                format!(
                    "[{}]",
                    items
                        .iter()
                        .map(|item| shape(&item.value))
                        .collect::<Vec<_>>()
                        .join(",")
                )
            }
            Value::Table(table) => {
                let member =
                    |(name, field): (&Cow<'_, str>, &Field<'_>)| format!("{name:?}:{}", shape(&field.node.value));
                format!("{{{}}}", table.fields.iter().map(member).collect::<Vec<_>>().join(","))
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn what_is_read_without_places_is_the_same_tree() {
        for line in [
            r#"{"a": "x", "b\u0062": ["\u00e9", 1, true], "c": {"d": -7}}"#,
            "[]",
            " \t{\"a\":9223372036854775807}",
            r#""text""#,
        ] {
            assert_eq!(
                shape(&without_places(line).unwrap().value),
                shape(&with_places(line).unwrap().value),
                "{line}"
            );
        }
    }

    #[test]
    fn what_needs_a_place_or_a_second_look_is_not_read_without_them() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        for line in [
            &deep,
            r#"{"a":1,"a":2}"#,
            r#"{"a":1,"\u0061":2}"#,
            "{\"a\": 1",
            "{} x",
            "null",
            "1.5",
            "9223372036854775808",
        ] {
            assert!(without_places(line).is_none(), "{line:.20}");
        }
    }

    proptest! {
        #[test]
        fn no_line_is_read_differently_without_places(line in r#"[\[\]{}:,"a1\\u0 .e\-]{0,16}"#) {
            if let Some(node) = without_places(&line) {
                prop_assert_eq!(shape(&node.value), shape(&with_places(&line).unwrap().value));
            }
        }
    }
}
