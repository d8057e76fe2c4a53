//! Objects of a repository: their ids, and why one cannot be read.

use std::fmt;
use std::io;

use git2::ErrorCode;

/// The id of an object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ObjectId(pub(super) git2::Oid);

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why an object cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The reference has no object id, or points at nothing.
    #[error("the reference is damaged")]
    Reference,
    /// The object is missing, as in a shallow or partial clone.
    #[error("object {0} is missing")]
    Missing(ObjectId),
    /// The object is damaged.
    #[error("object {id} cannot be read: {}", source.message())]
    Damaged {
        /// The object.
        id: ObjectId,
        /// git's error.
        source: git2::Error,
    },
    /// The object is too large, and was not read.
    #[error("{size} bytes, over the limit of {limit}")]
    TooLarge {
        /// Its size in bytes.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// A file or folder of a working tree cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// A tag points at this kind of object instead of a commit.
    #[error("points at a {0}, not at a commit")]
    NotACommit(&'static str),
}

impl ObjectError {
    /// git's error about this object.
    pub(super) fn of(id: ObjectId, source: git2::Error) -> Self {
        if source.code() == ErrorCode::NotFound {
            Self::Missing(id)
        } else {
            Self::Damaged { id, source }
        }
    }
}
