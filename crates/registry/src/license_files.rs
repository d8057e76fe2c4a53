//! License files: `registry/licenses/*.toml` with any number of `[[license]]`, and `*.jsonl` with one license a line.
//!
//! Both have the same fields; JSON has dates and times as strings. `licenses` holds the result.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use foldhash::fast::RandomState;

use countersign_model::license::{License, Modules};

use crate::diagnostic::Diagnostic;
use crate::dir_entry::DirEntry;
use crate::files::RegistryFiles;
use crate::license::{Notes, license};
use crate::lines::LineReader;
use crate::reader::{DocumentReader, MAX_DIAGNOSTICS};
use crate::spanned::{SpannedTable, array, table};

/// Each license needs at least this many bytes of a JSONL file.
const SHORTEST_LINE: usize = 110;

/// The position of a license: the number of its file, and the line from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LicensePlace {
    pub file: u32,
    pub line: u32,
}

/// The licenses read so far, and what they share.
pub(super) struct LicenseCollector {
    /// By number.
    pub files: Vec<PathBuf>,
    /// In file order.
    pub licenses: Vec<(License, LicensePlace)>,
    pub diagnostics: Vec<Diagnostic>,
    notes: Notes,
    /// Each set of modules once, however many licenses grant it.
    modules: HashSet<Arc<Modules>, RandomState>,
}

impl LicenseCollector {
    pub(super) fn new(notes: Notes) -> Self {
        Self {
            files: Vec::new(),
            licenses: Vec::new(),
            diagnostics: Vec::new(),
            notes,
            modules: HashSet::default(),
        }
    }

    /// Reads one file, even if others had errors.
    pub(super) fn read(&mut self, files: &RegistryFiles, listed: &DirEntry) {
        self.files.push(listed.file.clone());
        let diagnostics = match listed.name.rsplit_once('.') {
            Some((_, "toml")) => files.text(listed).map(|text| self.read_toml(listed, &text)),
            Some((_, "jsonl")) => files.lines(listed).map(|lines| self.read_jsonl(listed, lines)),
            _ => files.lines(listed).and_then(|_| {
                Err(Diagnostic::of_file(
                    &listed.file,
                    "not a license file: its name must end in .toml or .jsonl",
                ))
            }),
        };
        self.diagnostics
            .extend(diagnostics.unwrap_or_else(|diagnostic| vec![diagnostic]));
    }

    fn read_toml(&mut self, listed: &DirEntry, text: &str) -> Vec<Diagnostic> {
        let expected = "an array of tables, each [[license]]";
        let (mut reader, document) = DocumentReader::toml(&listed.file, text);
        let Some(document) = document else {
            return reader.diagnostics();
        };
        reader.only(&document, &["license"]);
        let tables = reader.field(&document, "license", expected, array);
        for node in tables.map_or(&[][..], |(_, tables)| tables) {
            if let Some((_, table)) = reader.typed(node, "license", expected, table) {
                self.take(&mut reader, table);
            }
        }
        reader.diagnostics()
    }

    fn read_jsonl(&mut self, listed: &DirEntry, mut lines: LineReader<'_>) -> Vec<Diagnostic> {
        let mut diagnostics = Vec::new();
        // Space for all at once: growing would move a million licenses. If that much memory is missing, growing will
        // do.
        let _ = self.licenses.try_reserve(lines.bytes() / SHORTEST_LINE);
        loop {
            match lines.next() {
                Ok(None) => return diagnostics,
                Ok(Some((number, line))) => diagnostics.extend(self.read_line(listed, number, line)),
                Err(diagnostic) => {
                    diagnostics.push(diagnostic);
                    return diagnostics;
                }
            }
            if diagnostics.len() >= MAX_DIAGNOSTICS {
                diagnostics.push(Diagnostic::of_file(
                    &listed.file,
                    "too many errors: the rest was not read",
                ));
                return diagnostics;
            }
        }
    }

    fn read_line(&mut self, listed: &DirEntry, number: usize, line: &str) -> Vec<Diagnostic> {
        // Without its line end.
        let line = line.lines().next().unwrap_or_default();
        if line.trim().is_empty() {
            return Vec::new();
        }
        // Most lines are correct, so positions are not needed at first.
        if let Some((mut reader, table)) = DocumentReader::json_without_places(&listed.file, number, line)
            && self.take(&mut reader, &table)
        {
            return Vec::new();
        }
        let (mut reader, table) = DocumentReader::json(&listed.file, number, line);
        if let Some(table) = table {
            self.take(&mut reader, &table);
        }
        reader.diagnostics()
    }

    /// Adds the license of a table, unless it has errors.
    fn take(&mut self, reader: &mut DocumentReader<'_>, table: &SpannedTable<'_>) -> bool {
        let Some(mut license) = license(reader, table, self.notes) else {
            return false;
        };
        match self.modules.get(&license.modules) {
            Some(shared) => license.modules = shared.clone(),
            None => drop(self.modules.insert(license.modules.clone())),
        }
        let line = reader.line(table.at);
        let place = LicensePlace {
            file: self.files.len() as u32 - 1,
            line: line as u32,
        };
        self.licenses.push((license, place));
        true
    }
}
