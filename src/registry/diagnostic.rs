//! Diagnostics: what is wrong in a registry file, and where.

use std::fmt;
use std::path::PathBuf;

use crate::model::license_key::LicenseKey;
use crate::text::printable::Printable;

/// One mistake, shown as `registry/plugins/acme.toml:7:3: unknown field "modul" (did you mean "module"?)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file, as the person would type it.
    pub file: PathBuf,
    /// Counted from 1; 0 where it is about the file as a whole.
    pub line: usize,
    /// Counted from 1, in bytes; 0 where it is about the file as a whole.
    pub column: usize,
    /// What is wrong.
    pub message: String,
}

impl Diagnostic {
    /// A diagnostic about the file as a whole.
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
        // SECURITY: diagnostics are logged, and a key may stand where its id belongs.
        write!(f, ": {}", Printable(LicenseKey::redact(&self.message)))
    }
}

impl std::error::Error for Diagnostic {}
