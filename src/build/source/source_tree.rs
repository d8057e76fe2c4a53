//! Where a plugin's own files are read from: a commit in the object database, or the tree somebody is working on.
//!
//! [`Repository`](crate::build::git::repository::Repository) and [`WorkingTree`](crate::build::git::working_tree::WorkingTree) are the two;
//! [`source_reader`](crate::build::source::source_reader) reads through either.

use std::hash::Hash;

use crate::build::git::object::ObjectError;

/// Folders and files, none of which is followed out of its tree.
pub(crate) trait SourceTree {
    /// Names a folder or a file; what it names does not change while a plugin is read.
    type Id: Clone + Eq + Hash;

    /// The name of the repository's folder without `.git`.
    fn name(&self) -> Option<&str>;

    /// What is in a folder, in the order of the names.
    fn items(&self, folder: &Self::Id) -> Result<Vec<TreeEntry<Self::Id>>, ObjectError>;

    /// How many bytes a file has.
    fn size(&self, file: &Self::Id) -> Result<u64, ObjectError>;

    /// A file's bytes, at most `limit` of them.
    fn bytes(&self, file: &Self::Id, limit: usize) -> Result<Vec<u8>, ObjectError>;
}

/// An entry of a folder.
#[derive(Clone, Debug)]
pub(crate) struct TreeEntry<Id> {
    /// Its name. Bytes that are no UTF-8 are replaced.
    pub name: String,
    /// What it is.
    pub kind: TreeEntryKind,
    /// What to read it by.
    pub id: Id,
}

/// What an entry of a folder is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub(crate) enum TreeEntryKind {
    File,
    Folder,
    SymbolicLink,
    Submodule,
    /// A pipe, a socket, a device; only a working tree has them.
    Special,
}
