//! An entry of the folders `plugins/` and `licenses/`, in a folder or in a revision.

use std::path::PathBuf;

/// An entry of `plugins/` or `licenses/`.
#[derive(Debug)]
pub struct DirEntry {
    /// Its path, as a person would type it.
    pub file: PathBuf,
    /// Its name in the folder.
    pub name: String,
    /// What kind of entry it is.
    pub kind: EntryKind,
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A file.
    File,
    /// A folder or a git submodule.
    Folder,
    /// A symbolic link in a revision, which is not followed.
    Link,
    /// A pipe, a socket or a device.
    Special,
}
