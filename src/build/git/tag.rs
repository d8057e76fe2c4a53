//! Tags of a repository, and the commits they name.
//!
//! [`repository`](crate::build::git::repository) reads them; [`tags`](crate::build::tags) turns them into versions.

use std::path::Path;

use crate::build::git::object::ObjectId;

/// A reference under `refs/tags/`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Tag {
    /// Its name after `refs/tags/`. Bytes that are not UTF-8 are replaced.
    pub name: String,
    /// The object; `None` if the reference is damaged.
    pub(super) target: Option<ObjectId>,
}

impl Tag {
    /// The object it points at: an annotated tag or a commit; `None` if the reference is damaged.
    pub(crate) fn target(&self) -> Option<ObjectId> {
        self.target
    }
}

/// The commit of a tag.
#[derive(Clone, Debug)]
pub(crate) struct Tagged {
    /// The commit.
    pub commit: ObjectId,
    /// The commit's root folder.
    pub tree: ObjectId,
    /// The time of the annotated tag, else of the commit, in seconds since 1970.
    pub time: i64,
    /// The annotated tag's message without its signature; `None` for a lightweight tag.
    pub message: Option<Vec<u8>>,
}

/// The names of all files under `refs/tags`. libgit2 silently skips those that it cannot parse.
pub(super) fn loose_names(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    // Not by recursion: folders can be 2,000 deep.
    let mut folders = vec![(folder.to_owned(), String::new())];
    while let Some((folder, prefix)) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push((entry.path(), format!("{name}/"))),
                Ok(kind) if kind.is_file() && !name.ends_with(".lock") => names.push(name),
                _ => {}
            }
        }
    }
    names
}

/// A signed tag has its signature at the end of its message (gitformat-signature(5)).
pub(super) fn without_signature(message: &[u8]) -> &[u8] {
    const MARKS: [&[u8]; 4] = [
        b"-----BEGIN PGP SIGNATURE-----",
        b"-----BEGIN PGP MESSAGE-----",
        b"-----BEGIN SSH SIGNATURE-----",
        b"-----BEGIN SIGNED MESSAGE-----",
    ];
    let mut end = 0;
    for line in message.split_inclusive(|&byte| byte == b'\n') {
        if MARKS.iter().any(|mark| line.starts_with(mark)) {
            break;
        }
        end += line.len();
    }
    &message[..end]
}
