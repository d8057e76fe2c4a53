//! The registry: what the vendor decides, read from `plugins/` and `licenses/`.
//!
//! `files` finds the text, `document` gives every value its place, `reader` takes typed fields off it and collects
//! complaints, `plugins` makes model values of them. The build takes plugin entries one by one.

mod addresses;
pub mod complaint;
mod document;
pub mod files;
mod git;
pub mod plugins;
mod reader;

use std::io;
use std::path::PathBuf;

pub use git::RevisionError;

/// Why there is no registry.
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
}
