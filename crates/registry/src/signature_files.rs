//! `signatures/<slug>/`: the statement of each release, `<version>.json`, and its signatures beside it, `<version>.sig`.
//!
//! A statement that a later one of the same version replaced stays as `<version>_<number>.json`. Each file is read for itself
//! here; [`release_chain`](super::release_chain) holds them against each other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::error::{Diagnostic, RegistryError};
use crate::files::{DirEntry, RegistryFiles};
use countersign_model::slug::Slug;
use countersign_model::version::Version;
use countersign_package::release::signatures::{MAX_FILE, Signatures, SignaturesError};
use countersign_package::release::statement::{MAX_STATEMENT, ReleaseStatement, StatementError};

/// The folder in the registry.
const FOLDER: &str = "signatures";

/// What is in a plugin's folder: statements and signatures by the part of their names before the dot.
#[derive(Debug, Default)]
pub(super) struct SignatureFiles {
    pub(super) statements: BTreeMap<FileStem, StatementFile>,
    pub(super) signatures: BTreeMap<FileStem, (PathBuf, Signatures)>,
    pub(super) diagnostics: Vec<Diagnostic>,
    /// Names of files that were there and could not be read.
    pub(super) unreadable: Vec<FileStem>,
}

/// `1.2.0` or, of a statement that was replaced, `1.2.0_3`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileStem {
    text: String,
    /// The number of a replaced statement.
    pub(super) replaced: Option<u64>,
}

/// A statement that can be read.
#[derive(Debug)]
pub(super) struct StatementFile {
    pub(super) file: PathBuf,
    pub(super) version: Version,
    pub(super) bytes: Vec<u8>,
    pub(super) statement: ReleaseStatement,
}

/// The file of the statement of a release.
pub fn statement_path(registry: &Path, slug: &Slug, version: &Version) -> PathBuf {
    registry
        .join(FOLDER)
        .join(slug.as_str())
        .join(format!("{version}.json"))
}

/// The file of its signatures.
pub fn signatures_path(registry: &Path, slug: &Slug, version: &Version) -> PathBuf {
    registry.join(FOLDER).join(slug.as_str()).join(format!("{version}.sig"))
}

/// Reads the folder of a plugin; nothing where there is none.
pub(super) fn read(files: &RegistryFiles, slug: &Slug) -> Result<SignatureFiles, RegistryError> {
    let listed = match files.list(&format!("{FOLDER}/{slug}")) {
        Err(RegistryError::NoFolder { .. }) => return Ok(SignatureFiles::default()),
        listed => listed?,
    };
    let mut found = SignatureFiles::default();
    for entry in listed {
        let read = match entry
            .name
            .rsplit_once('.')
            .and_then(|(stem, end)| Some((stem_of(stem)?, end)))
        {
            Some((stem, "json")) => statement(files, &entry, slug, &stem)
                .map(|read| drop(found.statements.insert(stem.0.clone(), read)))
                .inspect_err(|_| found.unreadable.push(stem.0)),
            Some((stem, "sig")) => signatures(files, &entry, slug, &stem.1)
                .map(|read| drop(found.signatures.insert(stem.0.clone(), (entry.file.clone(), read)))),
            _ => Err(Diagnostic::of_file(
                &entry.file,
                "unexpected: expected <version>.json and <version>.sig, as `countersign sign` writes them",
            )),
        };
        found.diagnostics.extend(read.err());
    }
    Ok(found)
}

fn stem_of(text: &str) -> Option<(FileStem, Version)> {
    let (version, number) = match text.split_once('_') {
        None => (text, None),
        Some((version, number)) => (
            version,
            Some(number.parse::<u64>().ok().filter(|read| read.to_string() == number)?),
        ),
    };
    let stem = FileStem {
        text: text.to_owned(),
        replaced: number,
    };
    Some((stem, version.parse().ok()?))
}

fn statement(
    files: &RegistryFiles,
    entry: &DirEntry,
    slug: &Slug,
    (_, version): &(FileStem, Version),
) -> Result<StatementFile, Diagnostic> {
    let bytes = files.bytes(entry, MAX_STATEMENT)?;
    let statement = ReleaseStatement::read(&bytes).map_err(|error| {
        let (line, column, message) = match &error {
            StatementError::Json(json) => {
                let message = json.to_string();
                let message = message.split(" at line ").next().unwrap_or_default().to_owned();
                (json.line(), json.column(), message)
            }
            StatementError::Member(member, _) => (1, column_of(&bytes, member), error.to_string()),
            StatementError::Conflict => (1, 1, format!("{error}: run `countersign sign {slug} {version}` again")),
            StatementError::NotCanonical => (1, 1, error.to_string()),
            StatementError::TooLarge => (0, 0, error.to_string()),
        };
        Diagnostic {
            file: entry.file.clone(),
            line,
            column,
            message,
        }
    })?;
    Ok(StatementFile {
        file: entry.file.clone(),
        version: version.clone(),
        bytes,
        statement,
    })
}

/// The column in which a member of a canonical statement begins.
pub(super) fn column_of(statement: &[u8], member: &str) -> usize {
    // A quote inside of a string is escaped, so this text is nowhere else.
    let text = format!("\"{member}\":");
    memchr::memmem::find(statement, text.as_bytes()).map_or(1, |at| at + 1)
}

fn signatures(
    files: &RegistryFiles,
    entry: &DirEntry,
    slug: &Slug,
    version: &Version,
) -> Result<Signatures, Diagnostic> {
    let bytes = files.bytes(entry, MAX_FILE)?;
    let complain = |line: usize, message: String| Diagnostic {
        file: entry.file.clone(),
        line,
        column: usize::from(line > 0),
        message,
    };
    let text = std::str::from_utf8(&bytes).map_err(|_| complain(0, "not UTF-8".to_owned()))?;
    Signatures::read(text).map_err(|error| {
        let again = match error {
            SignaturesError::Conflict | SignaturesError::Order => {
                format!(": run `countersign sign {slug} {version}` again")
            }
            _ => String::new(),
        };
        complain(error.line(), format!("{error}{again}"))
    })
}
