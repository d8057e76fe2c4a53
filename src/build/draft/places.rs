//! The paths on which a draft depends: the plugin's own files and git's references.

use std::path::{Path, PathBuf};

use crate::build::git::repository::Repository;
use crate::build::source::assets;
use countersign_model::plugin::Plugin;

/// A folder to watch; it need not exist.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WatchedFolder {
    /// Where it is.
    pub folder: PathBuf,
    /// Whether to watch its subfolders, too.
    pub and_below: bool,
}

/// The paths of the plugin's own files and of git's references.
pub(super) fn places(plugin: &Plugin, repository: &Repository) -> Vec<WatchedFolder> {
    let flat = |folder: PathBuf| WatchedFolder {
        folder,
        and_below: false,
    };
    let [own, shared] = repository.reference_folders();
    let mut places = vec![flat(own.into()), flat(shared.into())];
    places.push(WatchedFolder {
        folder: shared.join("refs"),
        and_below: true,
    });
    if let (Some(root), Some(source)) = (repository.working_tree(), &plugin.source) {
        let folder = root.join(&source.path);
        let pinned = source
            .main_file
            .as_ref()
            .and_then(|file| folder.join(file).parent().map(Path::to_owned));
        places.extend(assets::FOLDERS.map(|name| flat(root.join(name))));
        places.extend(assets::FOLDERS.map(|name| flat(folder.join(name))));
        places.extend([root.into(), folder].map(flat));
        places.extend(pinned.map(flat));
    }
    places.sort();
    places.dedup();
    places
}
