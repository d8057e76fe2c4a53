//! An entry of the folders `plugins/` and `licenses/`, in a folder or in a revision.

use std::path::PathBuf;

/// Something that stands in `plugins/` or `licenses/`.
#[derive(Debug)]
pub struct DirEntry {
    /// Its path, as the person would type it.
    pub file: PathBuf,
    /// Its name in the folder.
    pub name: String,
    /// What kind of entry it is.
    pub kind: EntryKind,
}

/// What a name in a folder stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A file.
    File,
    /// A folder, a git submodule.
    Folder,
    /// A symbolic link, of which a revision does not say what it leads to.
    Link,
    /// A pipe, a socket, a device.
    Special,
}
