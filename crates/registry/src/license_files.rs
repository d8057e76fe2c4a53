//! License files: `registry/licenses/*.toml` with any number of `[[license]]`, and `*.jsonl` with one license a line.
//!
//! Both have the same fields; JSON has dates and times as strings. `licenses` holds the result.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use foldhash::fast::RandomState;

use countersign_files::in_order::in_order;
use countersign_model::license::{License, Modules};

use crate::error::Diagnostic;
use crate::files::{DirEntry, RegistryFiles};
use crate::license::{Notes, license};
use crate::lines::LineReader;
use crate::reader::{DocumentReader, MAX_DIAGNOSTICS};
use crate::spanned::{array, table};

/// Each license needs at least this many bytes of a JSONL file.
const SHORTEST_LINE: usize = 110;

/// How many bytes of lines a thread parses at once.
const BLOCK: usize = 1 << 20;

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
            if let Some((_, table)) = reader.typed(node, "license", expected, table)
                && let Some(license) = license(&mut reader, table, self.notes)
            {
                self.add(license, reader.line(table.at));
            }
        }
        reader.diagnostics()
    }

    fn read_jsonl(&mut self, listed: &DirEntry, mut lines: LineReader<'_>) -> Vec<Diagnostic> {
        let mut diagnostics = Vec::new();
        // Space for all at once: growing would move a million licenses. If that much memory is missing, growing will
        // do.
        let _ = self.licenses.try_reserve(lines.bytes() / SHORTEST_LINE);
        let notes = self.notes;
        let mut unreadable = None;
        let next = || LicenseBlock::read(&mut lines, &mut unreadable);
        let each = |lines: Vec<ReadLicense>| {
            for line in lines {
                match line {
                    Ok((license, number)) => self.add(license, number),
                    Err(errors) => diagnostics.extend(errors),
                }
                if diagnostics.len() >= MAX_DIAGNOSTICS {
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        };
        let parsed = in_order(next, |block| block.parse(&listed.file, notes), each);
        let cannot = |error| Diagnostic::of_file(&listed.file, format!("cannot be read: {error}"));
        if diagnostics.len() >= MAX_DIAGNOSTICS {
            let rest = Diagnostic::of_file(&listed.file, "too many errors: the rest was not read");
            diagnostics.push(rest);
        } else {
            diagnostics.extend(unreadable.or(parsed.err().map(cannot)));
        }
        diagnostics
    }

    /// Adds the license at this line of the last file.
    fn add(&mut self, mut license: License, line: usize) {
        match self.modules.get(&license.modules) {
            Some(shared) => license.modules = shared.clone(),
            None => drop(self.modules.insert(license.modules.clone())),
        }
        let place = LicensePlace {
            file: self.files.len() as u32 - 1,
            line: line as u32,
        };
        self.licenses.push((license, place));
    }
}

/// A license and its line, or the errors of a line.
type ReadLicense = Result<(License, usize), Vec<Diagnostic>>;

/// Lines of a JSONL file, one after the other.
struct LicenseBlock {
    text: String,
    /// The number of the first line.
    first: usize,
}

impl LicenseBlock {
    /// Reads the next lines; `None` after the last one, and after one that is `unreadable`.
    fn read(lines: &mut LineReader<'_>, unreadable: &mut Option<Diagnostic>) -> Option<Self> {
        let mut block: Option<Self> = None;
        while unreadable.is_none() && block.as_ref().is_none_or(|block| block.text.len() < BLOCK) {
            match lines.next() {
                Ok(Some((number, line))) => {
                    let text = String::new();
                    let first = number;
                    block.get_or_insert(Self { text, first }).text.push_str(line);
                }
                Ok(None) => break,
                Err(diagnostic) => *unreadable = Some(diagnostic),
            }
        }
        block
    }

    fn parse(self, file: &Path, notes: Notes) -> Vec<ReadLicense> {
        let lines = self.text.lines().zip(self.first..);
        let lines = lines.filter(|(line, _)| !line.trim().is_empty());
        lines.map(|(line, number)| parse(file, number, line, notes)).collect()
    }
}

fn parse(file: &Path, number: usize, line: &str, notes: Notes) -> ReadLicense {
    // Most lines are correct, so positions are not needed at first.
    if let Some((mut reader, table)) = DocumentReader::json_without_places(file, number, line)
        && let Some(license) = license(&mut reader, &table, notes)
    {
        return Ok((license, number));
    }
    let (mut reader, table) = DocumentReader::json(file, number, line);
    let license = table.and_then(|table| license(&mut reader, &table, notes));
    license
        .map(|license| (license, number))
        .ok_or_else(|| reader.diagnostics())
}
