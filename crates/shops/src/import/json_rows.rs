//! Reads the licenses of a JSON file: answers of an API one after the other, or lists, or single objects. A row has a cell for
//! each field of its columns.
//!
//! No error quotes the file. Nothing here recurses: members are looked for only where a preset names them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use csv::ByteRecord;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;
use serde_json::value::RawValue;

use crate::import::columns::{ExportColumns, REJECT_PREFIX};
use crate::import::csv_rows::MAX_ROW;
use crate::import::export_field::ExportField;
use crate::import::exported_license::RowError;

/// How many licenses are asked for members that are not used.
const ASKED_FOR_UNUSED: usize = 100;

/// How many of these members are reported.
const MOST_UNUSED: usize = 50;

/// Why a JSON file is not read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum JsonError {
    /// Nothing is in it.
    #[error("the file is empty: it must have licenses as JSON")]
    Empty,
    /// It is in another encoding.
    #[error("line {line} is not UTF-8: save the file as UTF-8")]
    Encoding {
        /// The line, from 1.
        line: usize,
    },
    /// It is no JSON.
    #[error("line {line}, column {column}: {reason}")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// What is wrong.
        reason: &'static str,
    },
    /// The member with the licenses is something else.
    #[error("line {line}: the member \"{list}\" is no list of licenses")]
    NoList {
        /// The line, from 1.
        line: usize,
        /// The member.
        list: &'static str,
    },
}

/// The records of a JSON file. They are counted, and have no lines: an API may write them all in one.
#[derive(Debug)]
pub(super) struct JsonRecords<'t>(Vec<&'t RawValue>);

impl<'t> JsonRecords<'t> {
    /// Finds all records of a text; `list` is the member that has them.
    pub(super) fn find(text: &'t [u8], list: &'static str) -> Result<Self, JsonError> {
        let line_of = |bytes: &[u8]| 1 + bytes.iter().filter(|byte| **byte == b'\n').count();
        let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
        let text = std::str::from_utf8(text).map_err(|error| JsonError::Encoding {
            line: line_of(&text[..error.valid_up_to()]),
        })?;
        if text.trim_ascii().is_empty() {
            return Err(JsonError::Empty);
        }
        let place_of = |part: &RawValue| part.get().as_ptr() as usize - text.as_ptr() as usize;
        let mut found: Vec<&'t RawValue> = Vec::new();
        let documents = serde_json::Deserializer::from_str(text).into_iter::<&'t RawValue>();
        for document in documents {
            let document = document.map_err(|error| syntax(&error))?;
            let no_list = || JsonError::NoList {
                line: line_of(&text.as_bytes()[..place_of(document)]),
                list,
            };
            match document.get().as_bytes().first() {
                Some(b'[') => found.extend(elements(document).ok_or_else(no_list)?),
                Some(b'{') => {
                    let members = members(document).unwrap_or_default();
                    let mut lists = members.iter().filter(|(name, _)| name == list);
                    match (lists.next(), lists.next()) {
                        (None, _) => found.push(document),
                        (Some((_, list)), None) => found.extend(elements(list).ok_or_else(no_list)?),
                        _ => return Err(no_list()),
                    }
                }
                _ => found.push(document),
            }
        }
        Ok(Self(found))
    }

    /// The record with this number, from 0.
    pub(super) fn get(&self, number: usize) -> Option<&'t RawValue> {
        self.0.get(number).copied()
    }

    /// Members of the first licenses, and of their parts, that no column is.
    pub(super) fn unused(&self, columns: &ExportColumns) -> Vec<String> {
        let of_preset = columns
            .preset()
            .fields
            .iter()
            .flat_map(|(_, paths)| paths.iter().copied());
        let reported = columns.preset().reported.iter().map(|member| member.header);
        let given = columns.fields().map(|(_, name)| name);
        let used: BTreeSet<&str> = of_preset.chain(reported).chain(given).collect();
        let is_used = |path: &str| used.contains(path);
        let has_used = |path: &str| used.iter().any(|used| used.starts_with(&format!("{path}.")));
        let mut unused = BTreeSet::new();
        for record in self.0.iter().take(ASKED_FOR_UNUSED) {
            for (name, value) in members(record).unwrap_or_default() {
                if !has_used(&name) {
                    unused.insert(name);
                    continue;
                }
                for (inner, _) in members(value).unwrap_or_default() {
                    let path = format!("{name}.{inner}");
                    if !has_used(&path) {
                        unused.insert(path);
                    }
                }
            }
        }
        // SECURITY: names of members are a file's, too. Those of an API are short words.
        let is_word = |name: &String| {
            let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
            name.len() <= 40 && name.split('.').all(|part| part.len() < 24) && name.bytes().all(is_letter)
        };
        let unused = unused
            .into_iter()
            .filter(|name| !is_used(name) && !name.starts_with(REJECT_PREFIX));
        unused.filter(is_word).take(MOST_UNUSED).collect()
    }
}

/// Where the text is no JSON. The reader's own message is left out: it may quote.
fn syntax(error: &serde_json::Error) -> JsonError {
    JsonError::Syntax {
        line: error.line(),
        column: error.column(),
        reason: match error.classify() {
            Category::Eof => "the file ends within its JSON",
            _ => "it is no JSON",
        },
    }
}

/// The elements of a list.
fn elements(list: &RawValue) -> Option<Vec<&RawValue>> {
    serde_json::from_str(list.get()).ok()
}

/// The members of an object, each as often as it is there.
struct RecordMembers<'t>(Vec<(String, &'t RawValue)>);

struct RecordVisitor;

impl<'de> Visitor<'de> for RecordVisitor {
    type Value = RecordMembers<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(RecordMembers(members))
    }
}

impl<'de> Deserialize<'de> for RecordMembers<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(RecordVisitor)
    }
}

/// The members of an object; `None` if it is something else.
pub(super) fn members(object: &RawValue) -> Option<Vec<(String, &RawValue)>> {
    let members: RecordMembers<'_> = serde_json::from_str(object.get()).ok()?;
    Some(members.0)
}

/// The value of a member.
enum Found<'t> {
    Missing,
    Value(&'t RawValue),
}

/// Members by their paths, each object read once.
struct Objects<'t> {
    /// By the path of an object; the record itself has an empty one.
    known: BTreeMap<String, Vec<(String, &'t RawValue)>>,
}

impl<'t> Objects<'t> {
    /// The value at a path such as `attributes.key`.
    fn at(&mut self, record: &'t RawValue, path: &str) -> Result<Found<'t>, RowError> {
        let mut object = record;
        let mut above = String::new();
        let mut parts = path.split('.').peekable();
        while let Some(part) = parts.next() {
            if !self.known.contains_key(&above) {
                let members = members(object).unwrap_or_default();
                self.known.insert(above.clone(), members);
            }
            let members = self.known.get(&above).map_or(&[][..], |members| members);
            let mut found = members.iter().filter(|(name, _)| name == part);
            let value = match (found.next(), found.next()) {
                (None, _) => return Ok(Found::Missing),
                (Some((_, value)), None) => value,
                (Some(_), Some(_)) => return Err(wrong(path, "it is there twice")),
            };
            if parts.peek().is_none() {
                return Ok(Found::Value(value));
            }
            object = value;
            if !above.is_empty() {
                above.push('.');
            }
            above += part;
        }
        Ok(Found::Missing)
    }

    /// The text of a field; `None` if none of its members is there.
    fn text(
        &mut self,
        record: &'t RawValue,
        columns: &ExportColumns,
        field: ExportField,
    ) -> Result<Option<String>, RowError> {
        let of_preset = columns.preset().headers(field);
        let name = [columns.header(field)];
        // A path that was given replaces those of the preset.
        let paths = if of_preset.first() == name.first() {
            of_preset
        } else {
            &name
        };
        for path in paths {
            let Found::Value(value) = self.at(record, path)? else {
                continue;
            };
            // Where an API gives an id or the object itself, another path goes into the object.
            let is_object = value.get().starts_with('{');
            if !is_object || paths.len() == 1 {
                return scalar(path, field, value).map(Some);
            }
        }
        Ok(None)
    }
}

/// The key of a record whose other members may be wrong.
pub(super) fn key(columns: &ExportColumns, record: &RawValue) -> Option<String> {
    let mut objects = Objects { known: BTreeMap::new() };
    objects.text(record, columns, ExportField::Key).ok()?
}

fn wrong(path: &str, reason: &str) -> RowError {
    RowError::Cell {
        kind: "member",
        header: path.to_owned(),
        reason: reason.to_owned(),
    }
}

/// The cells of a record. A member that is null is `null` where that says something: for an end and for a number of sites.
pub(super) fn cells(columns: &ExportColumns, record: &RawValue) -> Result<ByteRecord, RowError> {
    if record.get().len() > MAX_ROW {
        return Err(RowError::Record("it is longer than 1 MiB"));
    }
    if !record.get().starts_with('{') {
        return Err(RowError::Record("it is no object"));
    }
    let preset = columns.preset();
    let mut objects = Objects { known: BTreeMap::new() };
    let mut cells = ByteRecord::new();
    let mut there = BTreeSet::new();
    for (field, _) in columns.fields() {
        let text = objects.text(record, columns, field)?;
        if text.is_some() {
            there.insert(field);
        }
        cells.push_field(text.unwrap_or_default().as_bytes());
    }
    let missing = preset
        .required
        .iter()
        .find(|one_of| !one_of.iter().any(|field| there.contains(field)));
    if let Some(one_of) = missing {
        return Err(wrong(columns.header(one_of[0]), "it is missing"));
    }
    for member in preset.reported {
        let text = match objects.at(record, member.header)? {
            Found::Missing => String::new(),
            Found::Value(value) if matches!(value.get(), "null" | "[]" | "{}" | "\"\"") => String::new(),
            Found::Value(value) => value.get().trim_matches('"').chars().take(16).collect(),
        };
        cells.push_field(text.as_bytes());
    }
    Ok(cells)
}

/// A text, a number, a boolean, null or, of sites, a list of texts.
fn scalar(path: &str, field: ExportField, value: &RawValue) -> Result<String, RowError> {
    let text = value.get();
    let text_of = |text: &str| serde_json::from_str::<String>(text).map_err(|_| wrong(path, "it is no Unicode text"));
    Ok(match text.as_bytes().first() {
        Some(b'"') => text_of(text)?,
        Some(b'n') if matches!(field, ExportField::Expires | ExportField::Sites) => "null".to_owned(),
        Some(b'n') => String::new(),
        Some(b'[') if field == ExportField::Hosts => {
            let hosts: Vec<String> =
                serde_json::from_str(text).map_err(|_| wrong(path, "expected a text, or a list of texts"))?;
            hosts.join(" ")
        }
        Some(b'[' | b'{') => return Err(wrong(path, "expected a text or a number")),
        _ => text.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::preset::Preset;

    fn found(text: &str) -> Vec<&str> {
        let records = JsonRecords::find(text.as_bytes(), "data").unwrap();
        records.0.iter().map(|record| record.get()).collect()
    }

    #[test]
    fn answers_lists_and_single_objects_are_read_one_after_the_other() {
        let text = "\u{feff}{\"meta\":{\"data\":[9]},\"data\":[{\"a\":1},\n\n{\"a\":2}]}\n{\"data\":[]}\n[{\"a\":3}\n,4]{\"a\":5} \"x\"\n";
        assert_eq!(
            found(text),
            ["{\"a\":1}", "{\"a\":2}", "{\"a\":3}", "4", "{\"a\":5}", "\"x\"",]
        );
    }

    #[test]
    fn what_is_no_json_is_refused_with_its_line_and_never_quoted() {
        let deep = "[".repeat(100_000);
        for (text, expected) in [
            ("", "the file is empty"),
            (" \n\t", "the file is empty"),
            (
                "{\"data\":[{\"key\":\"CANARY\"}\n",
                "line 2, column 0: the file ends within its JSON",
            ),
            ("{\"data\":[{}]}\nCANARY", "line 2, column 1: it is no JSON"),
            ("{\"data\":[{},]}", "line 1, column 13: it is no JSON"),
            (
                "{\"data\":\n\"CANARY\"}",
                "line 1: the member \"data\" is no list of licenses",
            ),
            ("{\"data\":[],\"data\":[]}", "line 1: the member \"data\" is no list"),
            ("key,expires\nCANARY,never\n", "it is no JSON"),
            (&deep, "the file ends within its JSON"),
        ] {
            let error = JsonRecords::find(text.as_bytes(), "data")
                .map(|_| ())
                .unwrap_err()
                .to_string();
            assert!(error.contains(expected), "{text:.40}: {error}");
            assert!(!error.contains("CANARY"), "{error}");
        }
        let error = JsonRecords::find(b"{\"data\":[\n\n\"\xff\"]}", "data")
            .map(|_| ())
            .unwrap_err();
        assert_eq!(error, JsonError::Encoding { line: 3 });
    }

    #[test]
    fn a_record_of_any_depth_has_only_the_members_that_are_looked_for() {
        let preset = Preset::named("keygen").unwrap();
        let columns = ExportColumns::of_members(preset, &BTreeMap::new());
        let read = |record: &str| {
            let record: &RawValue = serde_json::from_str(record).unwrap();
            cells(&columns, record).map_err(|error| error.to_string())
        };
        let right = "{\"attributes\":{\"key\":\"k\",\"status\":\"ACTIVE\",\"expiry\":null,\"maxMachines\":null},\
                     \"relationships\":{\"product\":{\"data\":{\"id\":\"p\"}}}";
        let deep = format!("{right},\"x\":{}{}}}", "[".repeat(50_000), "]".repeat(50_000));
        let row = read(&deep).unwrap();
        assert_eq!(columns.cell(&row, ExportField::Key), b"k");
        assert_eq!(columns.cell(&row, ExportField::Expires), b"null");
        assert_eq!(columns.cell(&row, ExportField::Created), b"");
        let right = format!("{right}}}");
        for (record, expected) in [
            (
                right.replace("\"expiry\":null,", ""),
                "member \"attributes.expiry\": it is missing",
            ),
            (
                right.replace("\"key\":\"k\"", "\"key\":\"k\",\"key\":\"l\""),
                "member \"attributes.key\": it is there twice",
            ),
            (
                right.replace("\"key\":\"k\"", "\"key\":[\"k\"]"),
                "member \"attributes.key\": expected a text or a number",
            ),
            (
                right.replace("\"key\":\"k\"", "\"key\":\"\\ud800\""),
                "member \"attributes.key\": it is no Unicode text",
            ),
            (
                right.replace("\"data\":{", "\"data\":[{").replace("}}}}", "}]}}}"),
                "member \"relationships.product.data.id\": it is missing",
            ),
            ("7".to_owned(), "it is no object"),
            ("{}".to_owned(), "member \"attributes.key\": it is missing"),
            (
                format!("{{\"x\":\"{}\"}}", "x".repeat(MAX_ROW)),
                "it is longer than 1 MiB",
            ),
        ] {
            assert_eq!(read(&record).unwrap_err(), expected, "{record:.80}");
        }
    }
}
