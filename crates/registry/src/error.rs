//! Errors of loading the registry: a folder, a revision, or diagnostics about files.

use std::io;
use std::path::PathBuf;

use crate::diagnostic::Diagnostic;
use crate::git::RevisionError;

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
