//! The registry at one revision of its git repository. Only this file of the registry uses git.

use std::path::{Path, PathBuf};

use git2::{ErrorCode, ObjectType, Oid, Repository, Tree};

/// The registry's folder at one commit.
pub(super) struct Revision {
    repository: Repository,
    registry: Oid,
}

/// The kind of an entry of a folder, in a revision or on disk.
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
    /// The folder is not in a repository.
    #[error("{}: not in a git repository", path.display())]
    NoRepository {
        /// The registry's folder.
        path: PathBuf,
        /// Why the repository cannot be used.
        source: Option<git2::Error>,
    },
    /// The repository belongs to another user, who could make git run any command.
    #[error("{}: its git repository belongs to another user", path.display())]
    NotOurs {
        /// The registry's folder.
        path: PathBuf,
    },
    /// The repository has no such commit, or several.
    #[error("{}: its git repository has no commit {rev:?}", path.display())]
    NoCommit {
        /// The registry's folder.
        path: PathBuf,
        /// The requested revision.
        rev: String,
    },
    /// The commit has no such folder.
    #[error("{}: does not exist at {rev:?}", path.display())]
    NotThere {
        /// The registry's folder.
        path: PathBuf,
        /// The requested revision.
        rev: String,
    },
    /// The repository is damaged.
    #[error("the registry's git repository cannot be read")]
    Git(#[from] git2::Error),
}

impl Revision {
    /// Finds the repository around `folder` and the folder in its commit `rev`.
    pub(super) fn open(folder: &Path, rev: &str) -> Result<Self, RevisionError> {
        let path = || folder.to_owned();
        let real = folder
            .canonicalize()
            .map_err(|source| RevisionError::NoFolder { path: path(), source })?;
        let no_repository = |error: git2::Error| {
            if error.code() == ErrorCode::Owner {
                return RevisionError::NotOurs { path: path() };
            }
            let source = Some(error).filter(|error| error.code() != ErrorCode::NotFound);
            RevisionError::NoRepository { path: path(), source }
        };
        let repository = Repository::discover(&real).map_err(no_repository)?;
        let root = repository
            .workdir()
            .and_then(|root| root.canonicalize().ok())
            .unwrap_or_default();
        let inside = real
            .strip_prefix(root)
            .map_err(|_| no_repository(git2::Error::from_str("the repository has no work tree around it")))?;
        let commit = repository
            .revparse_single(rev)
            .and_then(|object| object.peel(ObjectType::Tree));
        let no_commit = |error: git2::Error| match error.code() {
            ErrorCode::NotFound
            | ErrorCode::UnbornBranch
            | ErrorCode::Ambiguous
            | ErrorCode::InvalidSpec
            | ErrorCode::Peel => RevisionError::NoCommit {
                path: path(),
                rev: rev.to_owned(),
            },
            _ => error.into(),
        };
        let tree = commit.and_then(|object| object.peel_to_tree()).map_err(no_commit)?;
        let registry = if inside.as_os_str().is_empty() {
            Ok(tree.id())
        } else {
            tree.get_path(inside).map(|e| e.id())
        };
        let not_there = |error: git2::Error| match error.code() {
            ErrorCode::NotFound => RevisionError::NotThere {
                path: path(),
                rev: rev.to_owned(),
            },
            _ => error.into(),
        };
        let registry = registry
            .and_then(|id| repository.find_tree(id))
            .map_err(not_there)?
            .id();
        drop(tree);
        Ok(Self { repository, registry })
    }

    /// The entries of a subfolder; none if it is absent, because git does not store empty folders.
    pub(super) fn list(&self, subfolder: &str) -> Result<Vec<(String, EntryKind)>, RevisionError> {
        let Some(tree) = self.subfolder(subfolder)? else {
            return Ok(vec![]);
        };
        Ok(tree
            .iter()
            .map(|entry| {
                (
                    String::from_utf8_lossy(entry.name_bytes()).into_owned(),
                    kind_of(&entry),
                )
            })
            .collect())
    }

    /// What kind of entry this name is in the registry's folder itself; `None` if it is absent.
    pub(super) fn kind(&self, name: &str) -> Result<Option<EntryKind>, RevisionError> {
        let tree = self.repository.find_tree(self.registry)?;
        Ok(tree.get_name(name).as_ref().map(kind_of))
    }

    /// The bytes of a file in the registry's `folder`, up to `limit`.
    pub(super) fn read(&self, folder: &Path, file: &Path, limit: u64) -> Result<Vec<u8>, String> {
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

fn kind_of(entry: &git2::TreeEntry<'_>) -> EntryKind {
    match (entry.kind(), entry.filemode()) {
        (Some(ObjectType::Blob), 0o120_000) => EntryKind::Link,
        (Some(ObjectType::Blob), _) => EntryKind::File,
        _ => EntryKind::Folder,
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;
    use crate::files::RegistryFiles;
    use crate::plugins;

    /// Commits everything in the work tree.
    fn commit(repository: &Repository, message: &str) -> Oid {
        let mut index = repository.index().unwrap();
        index.add_all(["*"], git2::IndexAddOption::DEFAULT, None).unwrap();
        let tree = repository.find_tree(index.write_tree().unwrap()).unwrap();
        let author = git2::Signature::new("A", "a@example.com", &git2::Time::new(0, 0)).unwrap();
        let parent = repository.head().ok().and_then(|head| head.peel_to_commit().ok());
        let parents: Vec<_> = parent.iter().collect();
        repository
            .commit(Some("HEAD"), &author, &author, message, &tree, &parents)
            .unwrap()
    }

    #[test]
    fn a_revision_is_read_as_it_was_merged_whatever_the_folder_says_now() {
        let root = tempfile::tempdir().unwrap();
        let repository = Repository::init(root.path()).unwrap();
        let registry = root.path().join("vendor/registry");
        let entry = registry.join("plugins/acme.toml");
        std::fs::create_dir_all(entry.parent().unwrap()).unwrap();
        std::fs::write(&entry, "name = 'first'\n").unwrap();
        std::os::unix::fs::symlink("acme.toml", registry.join("plugins/link.toml")).unwrap();
        let first = commit(&repository, "first");
        std::fs::write(&entry, "name = 'second'\n").unwrap();
        commit(&repository, "second");
        std::fs::write(&entry, "name = 'not yet").unwrap();

        let name_at = |rev: &str| {
            let entries = plugins::load(&RegistryFiles::revision(&registry, rev).unwrap()).unwrap();
            let link = entries[1].plugin.as_ref().unwrap_err()[0].message.clone();
            assert_eq!(link, "a symbolic link is not followed in a revision");
            assert_eq!(entries[0].file, entry);
            entries[0].plugin.as_ref().unwrap().name.clone()
        };
        assert_eq!(name_at("HEAD"), "second");
        assert_eq!(name_at("HEAD~1"), "first");
        assert_eq!(name_at(&first.to_string()), "first");
    }

    #[test]
    fn what_cannot_be_found_is_named() {
        let root = tempfile::tempdir().unwrap();
        let error = |folder: &Path, rev: &str| Revision::open(folder, rev).err().unwrap().to_string();
        let registry = root.path().join("registry");
        assert_eq!(
            error(&registry, "HEAD"),
            format!("{}: cannot be found", registry.display())
        );
        std::fs::create_dir(&registry).unwrap();
        let shown = registry.display();
        assert_eq!(error(&registry, "HEAD"), format!("{shown}: not in a git repository"));
        let cause = |rev: &str| {
            Revision::open(&registry, rev)
                .err()
                .unwrap()
                .source()
                .map(ToString::to_string)
        };
        assert_eq!(cause("HEAD"), None, "git's own words say no more");
        let repository = Repository::init(root.path()).unwrap();
        assert_eq!(
            error(&registry, "HEAD"),
            format!("{shown}: its git repository has no commit \"HEAD\"")
        );
        std::fs::write(root.path().join("file"), "").unwrap();
        commit(&repository, "without a registry");
        assert_eq!(error(&registry, "HEAD"), format!("{shown}: does not exist at \"HEAD\""));
        for rev in ["NOSUCH", "0000000", "HEAD:file", "HEAD..HEAD", "a b", ""] {
            let error = Revision::open(&registry, rev).err().unwrap();
            assert!(matches!(&error, RevisionError::NoCommit { .. }), "{rev}: {error:?}");
            assert_eq!(cause(rev), None, "{rev}");
        }
        std::fs::create_dir(registry.join("plugins")).unwrap();
        std::fs::write(registry.join("README.md"), "").unwrap();
        commit(&repository, "with an empty one");
        assert_eq!(Revision::open(&registry, "HEAD").unwrap().list("plugins").unwrap(), []);
    }
}
