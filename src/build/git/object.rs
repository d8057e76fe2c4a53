//! Objects of a repository: what they are called by, and why one cannot be used.

use std::fmt;
use std::io;

use git2::ErrorCode;

/// The name of an object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ObjectId(pub(super) git2::Oid);

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why an object cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The reference holds no object id, or points at nothing.
    #[error("the reference is damaged")]
    Reference,
    /// The object is not in the repository, as in a shallow or partial clone.
    #[error("object {0} is missing")]
    Missing(ObjectId),
    /// The object is damaged.
    #[error("object {id} cannot be read: {}", source.message())]
    Damaged {
        /// The object.
        id: ObjectId,
        /// What git says.
        source: git2::Error,
    },
    /// The object is over its limit; it was not read.
    #[error("{size} bytes, over the limit of {limit}")]
    TooLarge {
        /// In bytes.
        size: usize,
        /// In bytes.
        limit: usize,
    },
    /// A file or folder of a working tree cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// A tag points at this kind of object, not at a commit.
    #[error("points at a {0}, not at a commit")]
    NotACommit(&'static str),
}

impl ObjectError {
    /// What git says of this object.
    pub(super) fn of(id: ObjectId, source: git2::Error) -> Self {
        if source.code() == ErrorCode::NotFound {
            Self::Missing(id)
        } else {
            Self::Damaged { id, source }
        }
    }
}
