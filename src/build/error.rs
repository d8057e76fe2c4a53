//! Why nothing was published.

use std::io;
use std::path::{Path, PathBuf};

use crate::catalog::CatalogError;
use crate::model::slug::Slug;

/// Why nothing was published. What was published before is untouched, except where the message names a file.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// `--plugin` names no entry.
    #[error("there is no plugin {0} in the registry")]
    UnknownPlugin(Slug),
    /// The index cannot be read.
    #[error("the published releases cannot be read")]
    Index(#[source] CatalogError),
    /// Another build writes there.
    #[error("{}: another build is publishing here", path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
    },
    /// Another build has published something else meanwhile.
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
