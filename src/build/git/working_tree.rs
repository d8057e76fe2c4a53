//! Reads a working tree as if everything in it were committed: with uncommitted edits and new files, without ignored
//! files.
//!
//! As careful as with a commit: no links are followed, pipes do not block, sizes are limited. `source_reader` reads it.

use std::fs::{self, DirEntry};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::build::git::object::ObjectError;
use crate::build::git::repository::{MAX_TREE, Repository};
use crate::build::source::source_tree::{SourceTree, TreeEntry, TreeEntryKind};
use countersign_files::regular_file;

/// The current files of a repository's folder.
pub(crate) struct WorkingTree<'a> {
    repository: &'a Repository,
    root: &'a Path,
}

impl<'a> WorkingTree<'a> {
    /// The working tree of a repository; `None` for a bare one.
    pub(crate) fn of(repository: &'a Repository) -> Option<Self> {
        Some(Self {
            repository,
            root: repository.working_tree()?,
        })
    }

    /// The kind of an entry; `None` if a commit would leave it out.
    fn kind(&self, entry: &DirEntry, path: &Path) -> io::Result<Option<TreeEntryKind>> {
        // Describes a link itself, not its target.
        let kind = entry.file_type()?;
        let is_file = kind.is_file() || kind.is_symlink();
        if entry.file_name() == ".git" || is_file && self.repository.leaves_out(path) {
            return Ok(None);
        }
        Ok(Some(match () {
            () if kind.is_file() => TreeEntryKind::File,
            () if kind.is_symlink() => TreeEntryKind::SymbolicLink,
            () if kind.is_dir() && entry.path().join(".git").exists() => TreeEntryKind::Submodule,
            () if kind.is_dir() => TreeEntryKind::Folder,
            () => TreeEntryKind::Special,
        }))
    }
}

impl SourceTree for WorkingTree<'_> {
    /// A path relative to the root; empty for the root.
    type Id = PathBuf;

    fn name(&self) -> Option<&str> {
        self.repository.name()
    }

    fn items(&self, folder: &PathBuf) -> Result<Vec<TreeEntry<PathBuf>>, ObjectError> {
        let mut items = Vec::new();
        let mut size = 0;
        for entry in fs::read_dir(self.root.join(folder))? {
            let entry = entry?;
            // The parts that git's own form of the folder has: mode, name and id.
            size += entry.file_name().len() + 28;
            if size > MAX_TREE {
                return Err(ObjectError::TooLarge { size, limit: MAX_TREE });
            }
            let id = folder.join(entry.file_name());
            if let Some(kind) = self.kind(&entry, &id)? {
                items.push(TreeEntry {
                    name: entry.file_name().to_string_lossy().into_owned(),
                    kind,
                    id,
                });
            }
        }
        items.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(items)
    }

    fn size(&self, file: &PathBuf) -> Result<u64, ObjectError> {
        Ok(self.root.join(file).symlink_metadata()?.len())
    }

    fn bytes(&self, file: &PathBuf, limit: usize) -> Result<Vec<u8>, ObjectError> {
        // SECURITY: a file may have become a link or a pipe since its folder was listed.
        let file = regular_file::open_unlinked(&self.root.join(file), regular_file::UNLIMITED)?;
        let length = file.metadata()?.len();
        if length > limit as u64 {
            return Err(ObjectError::TooLarge {
                size: usize::try_from(length).unwrap_or(usize::MAX),
                limit,
            });
        }
        let mut bytes = Vec::new();
        let size = file.take(limit as u64 + 1).read_to_end(&mut bytes)?;
        if size > limit {
            Err(ObjectError::TooLarge { size, limit })
        } else {
            Ok(bytes)
        }
    }
}
