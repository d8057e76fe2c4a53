//! A tree of a plugin's files: a commit in the object database, or a working tree.
//!
//! [`Repository`](crate::build::git::repository::Repository) and
//! [`WorkingTree`](crate::build::git::working_tree::WorkingTree) are the two;
//! [`source_reader`](crate::build::source::source_reader) reads through either.

use std::hash::Hash;

use crate::build::git::object::ObjectError;

/// The most files and folders that a walk looks at, because a few trees of git can expand to very many folders. A package has
/// 65,535 files at most.
pub(crate) const MAX_LOOKED_AT: usize = 1 << 18;

/// The longest path that a walk looks at, in bytes: what Linux opens.
pub(crate) const MAX_PATH: usize = 4_096;

/// Folders and files. Links out of the tree are not followed.
pub(crate) trait SourceTree {
    /// Identifies a folder or a file, whose content does not change while a plugin is read.
    type Id: Clone + Eq + Hash;

    /// The name of the repository's folder without `.git`.
    fn name(&self) -> Option<&str>;

    /// The entries of a folder, sorted by name.
    fn items(&self, folder: &Self::Id) -> Result<Vec<TreeEntry<Self::Id>>, ObjectError>;

    /// How many bytes a file has.
    fn size(&self, file: &Self::Id) -> Result<u64, ObjectError>;

    /// The bytes of a file, up to `limit`.
    fn bytes(&self, file: &Self::Id, limit: usize) -> Result<Vec<u8>, ObjectError>;
}

/// An entry of a folder.
#[derive(Clone, Debug)]
pub(crate) struct TreeEntry<Id> {
    /// Its name. Bytes that are not UTF-8 are replaced.
    pub name: String,
    /// Its kind.
    pub kind: TreeEntryKind,
    /// Its id, to read it by.
    pub id: Id,
}

/// The kind of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub(crate) enum TreeEntryKind {
    File,
    Folder,
    SymbolicLink,
    Submodule,
    /// A pipe, a socket or a device; only in a working tree.
    Special,
}
