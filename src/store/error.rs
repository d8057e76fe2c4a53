//! Why the store did not do what was asked.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// The store's format: the ledger, and the index in a folder of its own.
const FORMAT: &str = "2";

/// Why the store did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has the store open.
    #[error("{}: in use by another process; is another `countersign serve` running?", .0.display())]
    InUse(PathBuf),
    /// The ledger belongs to somebody else, who could not read what this process makes.
    #[error("{}: belongs to another user, of uid {owner}", path.display())]
    NotOurs {
        /// The ledger.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
    },
    /// There is no store yet: no server has run on this instance.
    #[error("{}: there is no store", .0.display())]
    Missing(PathBuf),
    /// The store cannot be opened or read.
    #[error("{}: the store cannot be read", path.display())]
    Read {
        /// Its folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no room for a compacted ledger, or it cannot be put in its place.
    #[error("{}: not compacted; the ledger is as it was", path.display())]
    NotCompacted {
        /// Its folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The store was written by another version of this program.
    #[error("{}: the store has format {found}, this version reads {}", path.display(), FORMAT)]
    Format {
        /// Its folder.
        path: PathBuf,
        /// What stands in it.
        found: String,
    },
    /// The ledger is not what this program wrote, or not all of it.
    #[error("{}: the ledger is damaged: {what}", path.display())]
    Damaged {
        /// The ledger.
        path: PathBuf,
        /// Which line, and what is wrong with it.
        what: String,
    },
    /// More bindings are waiting than the disk can take; try again in a moment.
    #[error("too many bindings are waiting to be written")]
    Busy,
    /// What was to be written did not become durable, and is not in force.
    #[error("what was to be written did not become durable: {0}")]
    NotDurable(Arc<str>),
    /// Bindings become durable, but the index and reports do not; the next start makes up for the index.
    #[error("the index and reports of sites are not written: {0}")]
    NotIndexed(Arc<str>),
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}
