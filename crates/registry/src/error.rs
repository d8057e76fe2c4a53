//! Errors of loading the registry: a folder, a revision, or diagnostics: errors in files, with their position.

use std::path::PathBuf;
use std::{fmt, io};

use crate::git::RevisionError;
use countersign_model::text::printable::Printable;
use countersign_model::text::short_message;

/// Why the registry cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// A folder is missing.
    #[error("{}: there is no such folder", path.display())]
    NoFolder {
        /// The folder.
        path: PathBuf,
    },
    /// A folder cannot be listed.
    #[error("{}: cannot be listed", path.display())]
    List {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A revision cannot be read.
    #[error(transparent)]
    Revision(#[from] RevisionError),
    /// Errors in the files, shown as one diagnostic a line.
    #[error("{}", .0.iter().map(Diagnostic::to_string).collect::<Vec<_>>().join("\n"))]
    Diagnostics(Vec<Diagnostic>),
}

/// One error, shown as `registry/plugins/acme.toml:7:3: unknown field "modul" (did you mean "module"?)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file, as a person would type it.
    pub file: PathBuf,
    /// From 1; 0 if it is about the whole file.
    pub line: usize,
    /// From 1, in bytes; 0 if it is about the whole file.
    pub column: usize,
    /// What is wrong.
    pub message: String,
}

impl Diagnostic {
    /// A diagnostic about the whole file.
    pub fn of_file(file: impl Into<PathBuf>, message: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            line: 0,
            column: 0,
            message: message.into(),
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Printable(self.file.display()))?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        // SECURITY: diagnostics are logged, and may quote a license key that is in the wrong place.
        write!(f, ": {}", Printable(short_message(&self.message)))
    }
}

impl std::error::Error for Diagnostic {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_as_long_as_its_file_is_not_shown_whole() {
        let message = format!("unknown field {:?} (did you mean \"module\"?)", "x".repeat(65_536));
        let shown = Diagnostic::of_file("a.toml", message).to_string();
        assert!(
            shown.len() < 300 && shown.ends_with("x…\" (did you mean \"module\"?)"),
            "{shown}"
        );
    }
}
