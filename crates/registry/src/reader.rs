//! Reads fields from a registry file's tables and collects the diagnostics, also of license keys, which must not be there.
//! [`fields`](super::fields) has the field types.
//!
//! A field that is missing or wrong reads as `None`; a wrong one also gives a diagnostic. Callers read all fields,
//! and drop the result if there are diagnostics, so one run finds every error.

use std::path::Path;

use crate::error::Diagnostic;
use crate::json;
use crate::spanned::{self, Node, ParseError, SpannedTable, Value};
use countersign_model::license_key::LicenseKey;
use countersign_model::text::did_you_mean;

/// The most diagnostics of one file.
pub(super) const MAX_DIAGNOSTICS: usize = 1_000;

/// One registry file, or one line of it, being read.
#[derive(Debug)]
pub(super) struct DocumentReader<'a> {
    file: &'a Path,
    /// Where each line starts.
    lines: Vec<usize>,
    /// The number of the first line.
    first_line: usize,
    /// Whether dates and times are strings.
    pub(super) json: bool,
    /// The first ones.
    diagnostics: Vec<Diagnostic>,
    /// The number of all.
    complained: usize,
}

impl<'a> DocumentReader<'a> {
    /// Parses a TOML file. No table if the syntax is wrong.
    pub(super) fn toml<'t>(file: &'a Path, text: &'t str) -> (Self, Option<SpannedTable<'t>>) {
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

    /// Parses one line of a JSONL file. No table if it is not an object.
    pub(super) fn json<'t>(file: &'a Path, line_number: usize, line: &'t str) -> (Self, Option<SpannedTable<'t>>) {
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

    /// The same for a line that is probably correct: its diagnostics have no columns. `None` if there is no table.
    pub(super) fn json_without_places<'t>(
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

    /// The number of diagnostics so far.
    pub(super) fn complained(&self) -> usize {
        self.complained
    }

    /// The first diagnostics, sorted by position, and a last one if there are more.
    pub(super) fn diagnostics(mut self) -> Vec<Diagnostic> {
        self.diagnostics
            .sort_by_key(|diagnostic| (diagnostic.line, diagnostic.column));
        if self.complained > MAX_DIAGNOSTICS {
            self.diagnostics.push(Diagnostic::of_file(
                self.file,
                "too many errors: the rest is not listed",
            ));
        }
        self.diagnostics
    }

    /// The line of the byte `at`, from 1.
    pub(super) fn line(&self, at: usize) -> usize {
        self.first_line + self.lines.partition_point(|&start| start <= at) - 1
    }

    /// Adds a diagnostic at the byte `at`; if there are too many, only counts it.
    pub(super) fn complain(&mut self, at: usize, message: impl Into<String>) {
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

    /// Reports every field except the `known` ones.
    pub(super) fn only(&mut self, table: &SpannedTable<'_>, known: &[&str]) {
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

    /// Reports a missing field.
    pub(super) fn require(&mut self, table: &SpannedTable<'_>, name: &str) {
        if !table.fields.contains_key(name) {
            self.complain(table.at, format!("missing field {name:?}"));
        }
    }

    /// A field of the type that `take` accepts. Reports a value that is not `expected`.
    pub(super) fn field<'t, 'n, T>(
        &mut self,
        table: &'n SpannedTable<'t>,
        name: &str,
        expected: &str,
        take: impl FnOnce(&'n Value<'t>) -> Option<T>,
    ) -> Option<(usize, T)> {
        let node = &table.fields.get(name)?.node;
        self.typed(node, name, expected, take)
    }

    /// A value of the type that `take` accepts.
    pub(super) fn typed<'t, 'n, T>(
        &mut self,
        node: &'n Node<'t>,
        name: &str,
        expected: &str,
        take: impl FnOnce(&'n Value<'t>) -> Option<T>,
    ) -> Option<(usize, T)> {
        let taken = take(&node.value);
        if taken.is_none() {
            let found = node.value.type_name();
            // It has the right type, but not the right range or form.
            let found = if expected.starts_with(found) {
                String::new()
            } else {
                format!(", not {found}")
            };
            self.complain(node.at, format!("{name:?} must be {expected}{found}"));
        }
        taken.map(|taken| (node.at, taken))
    }
}

impl DocumentReader<'_> {
    /// Reports every license key in the fields, except in `id`, whose digits may look like a key by chance.
    // SECURITY: the registry's content is printed, logged and kept in the vendor's repository.
    pub(super) fn without_keys(&mut self, table: &SpannedTable<'_>) {
        for (name, field) in table.fields.iter().filter(|(name, _)| *name != "id") {
            self.without_key(name, &field.node);
        }
    }

    fn without_key(&mut self, field: &str, node: &Node<'_>) {
        let mut check = |at, text: &str| {
            if LicenseKey::is_in(text) {
                self.complain(
                    at,
                    format!("{field:?} contains a license key: only customers should have keys"),
                );
            }
        };
        match &node.value {
            Value::String(text) => check(node.at, text),
            Value::Array(items) => items.iter().for_each(|item| self.without_key(field, item)),
            Value::Table(inner) => {
                inner.fields.iter().for_each(|(name, inner)| check(inner.at, name));
                inner
                    .fields
                    .values()
                    .for_each(|inner| self.without_key(field, &inner.node));
            }
            _ => {}
        }
    }
}
