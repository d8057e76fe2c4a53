//! The registry at one revision, from the git repository it lies in. The only place in the registry that knows git.

use std::path::{Path, PathBuf};

use git2::{ErrorCode, ObjectType, Oid, Repository, Tree};

use super::files::Kind;

/// The registry's folder at one commit.
pub struct Revision {
    repository: Repository,
    registry: Oid,
}

/// Why a revision of the registry cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RevisionError {
    /// The folder does not exist, so its repository cannot be found.
    #[error("{}: cannot be found", path.display())]
    NoFolder {
        /// The registry's folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// No repository around the folder.
    #[error("{}: lies in no git repository", path.display())]
    NoRepository {
        /// The registry's folder.
        path: PathBuf,
        /// Why.
        source: git2::Error,
    },
    /// The repository has no such commit.
    #[error("{}: its git repository has no commit {rev:?}", path.display())]
    NoCommit {
        /// The registry's folder.
        path: PathBuf,
        /// What was asked for.
        rev: String,
        /// Why.
        source: git2::Error,
    },
    /// The commit has no such folder.
    #[error("{}: not there at {rev:?}", path.display())]
    NotThere {
        /// The registry's folder.
        path: PathBuf,
        /// What was asked for.
        rev: String,
        /// Why.
        source: git2::Error,
    },
    /// The repository is damaged.
    #[error("the registry's git repository cannot be read")]
    Git(#[from] git2::Error),
}

impl Revision {
    /// Finds the repository around `folder` and the folder in its commit `rev`.
    pub fn open(folder: &Path, rev: &str) -> Result<Self, RevisionError> {
        let path = || folder.to_owned();
        let real = folder.canonicalize().map_err(|source| RevisionError::NoFolder { path: path(), source })?;
        let no_repository = |source| RevisionError::NoRepository { path: path(), source };
        let repository = Repository::discover(&real).map_err(no_repository)?;
        let root = repository.workdir().and_then(|root| root.canonicalize().ok()).unwrap_or_default();
        let inside = real
            .strip_prefix(root)
            .map_err(|_| no_repository(git2::Error::from_str("the repository has no work tree around it")))?;
        let commit = repository.revparse_single(rev).and_then(|object| object.peel(ObjectType::Tree));
        let tree = commit.and_then(|object| object.peel_to_tree()).map_err(|source| RevisionError::NoCommit {
            path: path(),
            rev: rev.to_owned(),
            source,
        })?;
        let registry =
            if inside.as_os_str().is_empty() { Ok(tree.id()) } else { tree.get_path(inside).map(|e| e.id()) };
        let not_there = |source| RevisionError::NotThere { path: path(), rev: rev.to_owned(), source };
        let registry = registry.and_then(|id| repository.find_tree(id)).map_err(not_there)?.id();
        drop(tree);
        Ok(Self { repository, registry })
    }

    /// What stands in a subfolder; nothing where there is none, because git knows no empty folders.
    pub fn list(&self, subfolder: &str) -> Result<Vec<(String, Kind)>, RevisionError> {
        let Some(tree) = self.subfolder(subfolder)? else { return Ok(vec![]) };
        let kind = |entry: &git2::TreeEntry<'_>| match (entry.kind(), entry.filemode()) {
            (Some(ObjectType::Blob), 0o120_000) => Kind::Link,
            (Some(ObjectType::Blob), _) => Kind::File,
            _ => Kind::Folder,
        };
        Ok(tree.iter().map(|entry| (String::from_utf8_lossy(entry.name_bytes()).into_owned(), kind(&entry))).collect())
    }

    /// The bytes of a file in the registry's `folder`, if they are no more than `limit`.
    pub fn read(&self, folder: &Path, file: &Path, limit: u64) -> Result<Vec<u8>, String> {
        let read = || {
            let inside = file.strip_prefix(folder).unwrap_or(file);
            let id = self.repository.find_tree(self.registry)?.get_path(inside)?.id();
            let (size, _) = self.repository.odb()?.read_header(id)?;
            if size as u64 > limit {
                return Err(git2::Error::from_str(&format!("larger than {} MiB", limit >> 20)));
            }
            Ok(self.repository.find_blob(id)?.content().to_owned())
        };
        read().map_err(|error: git2::Error| error.message().to_owned())
    }

    fn subfolder(&self, name: &str) -> Result<Option<Tree<'_>>, git2::Error> {
        let entry = match self.repository.find_tree(self.registry)?.get_path(Path::new(name)) {
            Err(error) if error.code() == ErrorCode::NotFound => return Ok(None),
            entry => entry?,
        };
        self.repository.find_tree(entry.id()).map(Some)
    }
}
