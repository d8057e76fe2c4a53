//! Reads a plugin's git repository from its object database: tags, trees and blobs, each with a size limit.
//!
//! Only this file of the build reads with git2. Nothing is checked out or written, and no link is followed. Whatever
//! is missing, damaged or too large is an error with the object's id. [`tags`](crate::build::tags) and
//! [`source_reader`](crate::build::source::source_reader) use it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Once;

use git2::{ErrorCode, ObjectType};

use crate::build::git::object::{ObjectError, ObjectId};
use crate::build::git::tag::{Tag, Tagged, loose_names, without_signature};
use crate::build::source::source_tree::{SourceTree, TreeEntry, TreeEntryKind};
use countersign_model::text::shell_quoted;

/// Size limit of tags and commits in bytes.
const MAX_HEADER_OBJECT: usize = 1 << 20;

/// Size limit of trees in bytes: about 100,000 names.
pub(crate) const MAX_TREE: usize = 4 << 20;

/// How a clone without a part of its history is called.
pub(crate) const SHALLOW: &str = "shallow";

/// How many tags of tags are followed.
const MAX_TAG_CHAIN: usize = 16;

/// An open repository, for one thread at a time.
pub(crate) struct Repository {
    git: git2::Repository,
    /// Whether each object's hash is verified when it is read.
    hashes: bool,
}

/// Whether `path` is a repository with readable tags.
pub fn can_be_read(path: &Path) -> Result<(), RepositoryError> {
    Repository::open(path).map(drop)
}

/// The repository cannot be opened, or its tags cannot be listed.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    /// The folder is not a repository, or the repository is damaged.
    #[error("{}: not a readable git repository", path.display())]
    Unreadable {
        /// The folder.
        path: PathBuf,
        /// The reason.
        source: git2::Error,
    },
    /// Another user owns the repository and may have put a configuration into it. git does not open it either.
    #[error(
        "{}: the repository belongs to another user; if you trust it, run `git config --global --add safe.directory {}` as the user that builds",
        path.display(),
        shell_quoted(path)
    )]
    OfAnother {
        /// The folder.
        path: PathBuf,
    },
}

impl RepositoryError {
    fn new(path: &Path, source: git2::Error) -> Self {
        match source.code() {
            // The command needs the whole path.
            ErrorCode::Owner => Self::OfAnother {
                path: path.canonicalize().unwrap_or_else(|_| path.to_owned()),
            },
            _ => Self::Unreadable {
                path: path.to_owned(),
                source,
            },
        }
    }
}

impl Repository {
    /// Opens the repository at `path`, bare or not, without searching parent folders.
    pub(crate) fn open(path: &Path) -> Result<Self, RepositoryError> {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // `source_reader` remembers what it reads again, and git's own cache would grow to 256 MB.
            git2::opts::enable_caching(false);
            // Verifying hashes doubles the time of reading (10,000 tags: 1.03 s and 0.43 s). In a local repository,
            // zlib's checksum and the sizes in a pack reveal damage without it, as in git itself. A forger who can
            // write to the repository can just move a tag. In a mirror, existing objects are not fetched again, and a
            // cache may come from anywhere, so `open_mirror` verifies them.
            git2::opts::strict_hash_verification(false);
        });
        match git2::Repository::open(path) {
            Ok(git) => Ok(Self { git, hashes: false }),
            Err(source) => Err(RepositoryError::new(path, source)),
        }
    }

    /// Opens a mirror. Every object that is read must match its id.
    pub(crate) fn open_mirror(path: &Path) -> Result<Self, RepositoryError> {
        Ok(Self {
            hashes: true,
            ..Self::open(path)?
        })
    }

    /// The folder of the working tree; `None` for a bare repository.
    pub(crate) fn working_tree(&self) -> Option<&Path> {
        // SECURITY: a configuration in the repository may name any other folder as its working tree.
        let holds_git = |folder: &&Path| folder.join(".git").exists();
        self.git.workdir().filter(holds_git)
    }

    /// Where git keeps HEAD and the references: the folder of this working tree, and the one shared by all working
    /// trees.
    pub(crate) fn reference_folders(&self) -> [&Path; 2] {
        [self.git.path(), self.git.commondir()]
    }

    /// Whether a commit of the whole working tree would leave this file out, because it is ignored and was never added.
    pub(crate) fn leaves_out(&self, path: &Path) -> bool {
        let is_added = || self.git.index().is_ok_and(|index| index.get_path(path, 0).is_some());
        self.git.is_path_ignored(path).unwrap_or(false) && !is_added()
    }

    /// "shallow" or "partial", if the clone was made without a part of the history or of the objects. Then tags are
    /// often missing.
    pub(crate) fn incomplete(&self) -> Option<&'static str> {
        // git-config(1): `git clone --filter` sets it for the remote that promises the other objects.
        let is_partial = || {
            let config = self.git.config()?.snapshot()?;
            let mut promisors = config.entries(Some("^remote\\..*\\.promisor$"))?;
            Ok::<_, git2::Error>(promisors.next().is_some())
        };
        if self.git.is_shallow() {
            Some(SHALLOW)
        } else {
            is_partial().unwrap_or(false).then_some("partial")
        }
    }

    /// Every tag once, sorted by name.
    pub(crate) fn tags(&self) -> Result<Vec<Tag>, RepositoryError> {
        let folder = self.git.commondir().join("refs/tags");
        let mut tags = self
            .readable_tags()
            .map_err(|source| RepositoryError::new(self.git.path(), source))?;
        tags.sort_by(|a, b| a.name.cmp(&b.name));
        let mut damaged = loose_names(&folder);
        damaged.retain(|name| tags.binary_search_by(|tag| tag.name.cmp(name)).is_err());
        tags.extend(damaged.into_iter().map(|name| Tag { name, target: None }));
        tags.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(tags)
    }

    fn readable_tags(&self) -> Result<Vec<Tag>, git2::Error> {
        let prefix = b"refs/tags/";
        let mut tags = Vec::new();
        for reference in self.git.references_glob("refs/tags/*")? {
            let reference = reference?;
            let name = String::from_utf8_lossy(&reference.name_bytes()[prefix.len()..]).into_owned();
            // Resolving one of an object would look for its file again.
            let target = reference.target().or_else(|| reference.resolve().ok()?.target());
            tags.push(Tag {
                name,
                target: target.map(ObjectId),
            });
        }
        Ok(tags)
    }

    /// The checked-out commit, as if it had a lightweight tag; `None` before the first commit.
    pub(crate) fn head(&self) -> Result<Option<Tagged>, ObjectError> {
        match self.git.head() {
            Ok(head) => self
                .peel(&Tag {
                    name: "HEAD".into(),
                    target: head.target().map(ObjectId),
                })
                .map(Some),
            Err(error) if matches!(error.code(), ErrorCode::UnbornBranch | ErrorCode::NotFound) => Ok(None),
            Err(_) => Err(ObjectError::Reference),
        }
    }

    /// Follows a tag, and tags of tags, to its commit.
    pub(crate) fn peel(&self, tag: &Tag) -> Result<Tagged, ObjectError> {
        let mut id = tag.target.ok_or(ObjectError::Reference)?;
        let mut annotation = None;
        for _ in 0..MAX_TAG_CHAIN {
            match self.kind(id, MAX_HEADER_OBJECT)? {
                ObjectType::Tag => {
                    let tag = self.git.find_tag(id.0).map_err(|source| ObjectError::of(id, source))?;
                    let time = tag.tagger().map(|tagger| tagger.when().seconds());
                    annotation.get_or_insert((
                        time,
                        without_signature(tag.message_bytes().unwrap_or_default()).to_vec(),
                    ));
                    id = ObjectId(tag.target_id());
                }
                ObjectType::Commit => {
                    let commit = self
                        .git
                        .find_commit(id.0)
                        .map_err(|source| ObjectError::of(id, source))?;
                    let (tagged, message) = annotation.unzip();
                    let time = tagged.flatten().unwrap_or(commit.time().seconds());
                    return Ok(Tagged {
                        commit: id,
                        tree: ObjectId(commit.tree_id()),
                        time,
                        message,
                    });
                }
                kind => return Err(self.not_a_commit(id, kind)),
            }
        }
        Err(ObjectError::NotACommit("long chain of tags"))
    }

    /// Verifies the hash: in a damaged pack, a commit can look like a tree.
    fn not_a_commit(&self, id: ObjectId, kind: ObjectType) -> ObjectError {
        let hash = self
            .git
            .odb()
            .and_then(|objects| git2::Oid::hash_object(kind, objects.read(id.0)?.data()));
        match hash {
            Ok(hash) if hash == id.0 => ObjectError::NotACommit(kind.str()),
            Ok(_) => ObjectError::of(id, git2::Error::from_str("its hash is not its name")),
            Err(source) => ObjectError::of(id, source),
        }
    }

    /// Checks an object's size before it is unpacked into memory.
    fn kind(&self, id: ObjectId, limit: usize) -> Result<ObjectType, ObjectError> {
        // git2 0.21 panics if a damaged pack has an unknown type of object. The panic leaves nothing inconsistent.
        let header = catch_unwind(AssertUnwindSafe(|| {
            let objects = self.git.odb()?;
            let header = objects.read_header(id.0)?;
            // SECURITY: only after its header, which has the size.
            if self.hashes && header.0 <= limit {
                let object = objects.read(id.0)?;
                if git2::Oid::hash_object(object.kind(), object.data())? != id.0 || object.kind() != header.1 {
                    return Err(git2::Error::from_str("its hash is not its name"));
                }
            }
            Ok(header)
        }));
        match header
            .unwrap_or_else(|_| Err(git2::Error::from_str("its type is unknown")))
            .map_err(|source| ObjectError::of(id, source))?
        {
            (size, _) if size > limit => Err(ObjectError::TooLarge { size, limit }),
            (_, kind) => Ok(kind),
        }
    }
}

/// Commits, as the object database has them.
impl SourceTree for Repository {
    type Id = ObjectId;

    fn name(&self) -> Option<&str> {
        let name = self.git.workdir().unwrap_or(self.git.path()).file_name()?.to_str()?;
        Some(name.strip_suffix(".git").unwrap_or(name))
    }

    fn items(&self, tree: &ObjectId) -> Result<Vec<TreeEntry<ObjectId>>, ObjectError> {
        self.kind(*tree, MAX_TREE)?;
        let tree = self
            .git
            .find_tree(tree.0)
            .map_err(|source| ObjectError::of(*tree, source))?;
        let item = |entry: git2::TreeEntry<'_>| TreeEntry {
            name: String::from_utf8_lossy(entry.name_bytes()).into_owned(),
            kind: match entry.filemode() & 0o170_000 {
                0o040_000 => TreeEntryKind::Folder,
                0o120_000 => TreeEntryKind::SymbolicLink,
                0o160_000 => TreeEntryKind::Submodule,
                _ => TreeEntryKind::File,
            },
            id: ObjectId(entry.id()),
        };
        Ok(tree.iter().map(item).collect())
    }

    fn size(&self, blob: &ObjectId) -> Result<u64, ObjectError> {
        let header = catch_unwind(AssertUnwindSafe(|| self.git.odb()?.read_header(blob.0)));
        let header = header.unwrap_or_else(|_| Err(git2::Error::from_str("it has no known type")));
        let (size, _) = header.map_err(|source| ObjectError::of(*blob, source))?;
        Ok(size as u64)
    }

    fn bytes(&self, blob: &ObjectId, limit: usize) -> Result<Vec<u8>, ObjectError> {
        self.kind(*blob, limit)?;
        let blob = self
            .git
            .find_blob(blob.0)
            .map_err(|source| ObjectError::of(*blob, source))?;
        Ok(blob.content().to_vec())
    }
}
