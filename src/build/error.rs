//! Errors of publishing.

use std::io;
use std::path::{Path, PathBuf};

use countersign_model::slug::Slug;
use countersign_package::catalog::CatalogError;

/// Why nothing was published. The published files are unchanged, except if the message names a file.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// `--plugin` has no entry.
    #[error("there is no plugin {0} in the registry")]
    UnknownPlugin(Slug),
    /// The index cannot be read.
    #[error("the published releases cannot be read")]
    Index(#[source] CatalogError),
    /// Another build is publishing.
    #[error("{}: another build is publishing here", path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
    },
    /// Another build has published meanwhile.
    #[error("{}: another build has published here since this one began", path.display())]
    Overtaken {
        /// The folder.
        path: PathBuf,
    },
    /// A file or folder cannot be written.
    #[error("{}: cannot be written", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl BuildError {
    pub(super) fn write(path: &Path, source: io::Error) -> Self {
        Self::Write {
            path: path.to_owned(),
            source,
        }
    }
}
