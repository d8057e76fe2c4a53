//! Why `releases/` could not be taken over.

use std::io;
use std::path::PathBuf;

use crate::model::slug::Slug;

/// Why `releases/` could not be taken over. The catalog held before stays in use.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// There is no `index.json`: nothing was built yet, or it is just being replaced.
    #[error("{}: there is no index", path.display())]
    NoIndex {
        /// The file.
        path: PathBuf,
    },
    /// A file cannot be read.
    #[error("{}: cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The index is not what `countersign build` writes.
    #[error("{}:{}:{}: not an index", path.display(), source.line(), source.column())]
    Index {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        source: serde_json::Error,
    },
    /// A manifest or a package is not the one the index names: it was edited, or a build is under way.
    #[error("{}: its SHA-256 is not the one in the index", path.display())]
    Differs {
        /// The file.
        path: PathBuf,
    },
    /// A package has not the size that the index says.
    #[error("{}: has {found} bytes, and must have {expected}", path.display())]
    Size {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        found: u64,
        /// What the index says.
        expected: u64,
    },
    /// The manifest of a release with a package has no empty links that an answer could fill in.
    #[error("{}: its links are not the empty ones of a release with a package", path.display())]
    Links {
        /// The manifest.
        path: PathBuf,
    },
    /// The index names a latest version that is none of its releases.
    #[error("{}: the latest version of {slug} is not among its releases", path.display())]
    NoSuchLatest {
        /// The index.
        path: PathBuf,
        /// The plugin.
        slug: Slug,
    },
}
