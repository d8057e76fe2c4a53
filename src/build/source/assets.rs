//! Images for the CMS in a plugin's repository: in `.wordpress-org/`, where WordPress.org's own tools look, or in
//! `assets/`.
//!
//! Manifests have only URLs of images; these are for [drafts](crate::build::draft).

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::build::git::repository::Repository;
use crate::build::git::working_tree::WorkingTree;
use crate::build::source::source_tree::{SourceTree, TreeEntry, TreeEntryKind};
use countersign_model::plugin::Plugin;

/// The names that WordPress.org knows, better ones first.
const NAMES: [&str; 12] = [
    "banner-1544x500.png",
    "banner-1544x500.jpg",
    "banner-1544x500.gif",
    "banner-772x250.png",
    "banner-772x250.jpg",
    "banner-772x250.gif",
    "icon.svg",
    "icon-256x256.png",
    "icon-256x256.jpg",
    "icon-128x128.png",
    "icon-128x128.jpg",
    "icon-128x128.gif",
];

/// Their folders, in the plugin's folder or at the repository's root.
pub(crate) const FOLDERS: [&str; 2] = [".wordpress-org", "assets"];

/// Size limit of an image in bytes.
const MAX_SIZE: usize = 4 << 20;

/// An image in a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artwork {
    /// One of the names that WordPress.org knows.
    pub name: String,
    /// Changes whenever the file is written.
    pub stamp: String,
}

/// The images, better ones first.
pub(crate) fn all(plugin: &Plugin, repository: &Repository) -> Vec<Artwork> {
    let root = repository.working_tree();
    match (WorkingTree::of(repository), root) {
        (Some(tree), Some(root)) => {
            let items = named(plugin, &tree, PathBuf::new()).into_iter();
            items
                .map(|item| Artwork {
                    stamp: stamp(&root.join(&item.id)),
                    name: item.name,
                })
                .collect()
        }
        _ => match repository.head() {
            Ok(Some(head)) => {
                let items = named(plugin, repository, head.tree).into_iter();
                items
                    .map(|item| Artwork {
                        stamp: item.id.to_string(),
                        name: item.name,
                    })
                    .collect()
            }
            _ => Vec::new(),
        },
    }
}

/// Size and time of a file; empty if it is gone.
fn stamp(file: &Path) -> String {
    let Ok(metadata) = file.symlink_metadata() else {
        return String::new();
    };
    format!("{}-{}.{}", metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}

/// An image's bytes; `None` if it is missing or too large.
pub(crate) fn read(plugin: &Plugin, repository: &Repository, name: &str) -> Option<Vec<u8>> {
    match WorkingTree::of(repository) {
        Some(tree) => bytes(plugin, &tree, PathBuf::new(), name),
        None => bytes(plugin, repository, repository.head().ok()??.tree, name),
    }
}

fn bytes<F: SourceTree>(plugin: &Plugin, files: &F, root: F::Id, name: &str) -> Option<Vec<u8>> {
    let item = named(plugin, files, root).into_iter().find(|item| item.name == name)?;
    files.bytes(&item.id, MAX_SIZE).ok()
}

/// The images in the first folder that has any: the plugin's own, else the one at the root.
pub(crate) fn named<F: SourceTree>(plugin: &Plugin, files: &F, root: F::Id) -> Vec<TreeEntry<F::Id>> {
    let path = plugin.source.as_ref().map_or("", |source| &source.path);
    let own = walk(files, root.clone(), path);
    let folders = own
        .into_iter()
        .chain([root])
        .flat_map(|folder| FOLDERS.map(|name| walk(files, folder.clone(), name)));
    let pictures = folders.flatten().map(|folder| {
        let items = files.items(&folder).unwrap_or_default();
        let named = |name: &&str| {
            items
                .iter()
                .find(|item| item.name == **name && item.kind == TreeEntryKind::File)
                .cloned()
        };
        NAMES.iter().filter_map(named).collect::<Vec<_>>()
    });
    pictures
        .into_iter()
        .find(|pictures| !pictures.is_empty())
        .unwrap_or_default()
}

/// The folder at `path`; links are not followed.
pub(crate) fn walk<F: SourceTree>(files: &F, root: F::Id, path: &str) -> Option<F::Id> {
    path.split('/')
        .filter(|name| !name.is_empty())
        .try_fold(root, |folder, name| {
            let items = files.items(&folder).ok()?;
            items
                .into_iter()
                .find(|item| item.name == name && item.kind == TreeEntryKind::Folder)
                .map(|item| item.id)
        })
}
