//! Errors of reading `releases/`.

use std::io;
use std::path::PathBuf;

use countersign_model::slug::Slug;

/// Why `releases/` could not be loaded. The old catalog stays in use.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// There is no `index.json`: nothing was built yet, or a build is replacing it.
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
    /// Not an index that `countersign build` wrote.
    #[error("{}:{}:{}: not an index", path.display(), source.line(), source.column())]
    Index {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        source: serde_json::Error,
    },
    /// The digest of a manifest or package differs from the index: it was edited, or a build is running.
    #[error("{}: its SHA-256 is not the one in the index", path.display())]
    Differs {
        /// The file.
        path: PathBuf,
    },
    /// The size of a package differs from the index.
    #[error("{}: has {found} bytes instead of {expected}", path.display())]
    Size {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        found: u64,
        /// Its size according to the index.
        expected: u64,
    },
    /// The manifest of a release with a package lacks the empty links that the server fills in.
    #[error("{}: the links of a release with a package must be empty", path.display())]
    Links {
        /// The manifest.
        path: PathBuf,
    },
    /// The index names a latest version that is not the newest of its releases.
    #[error("{}: the latest version of {slug} is not the newest of its releases", path.display())]
    NotTheLatest {
        /// The index.
        path: PathBuf,
        /// The plugin.
        slug: Slug,
    },
}
