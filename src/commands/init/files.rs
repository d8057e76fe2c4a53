//! Writes the files of `init`, and has its errors.

use std::io;
use std::path::{Path, PathBuf};

use crate::commands::Failure;
use crate::commands::init::demo_repository;
use countersign_files::durable_file::{self, Access};

/// Why no instance was created.
#[derive(Debug, thiserror::Error)]
pub(super) enum InitError {
    #[error("{}: already has {}", folder.display(), names.join(", "))]
    AlreadyThere { folder: PathBuf, names: Vec<&'static str> },
    #[error("{}: cannot be written", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{}: the plugin's repository cannot be written", path.display())]
    Repository {
        path: PathBuf,
        source: demo_repository::Error,
    },
}

impl From<InitError> for Failure {
    fn from(error: InitError) -> Self {
        match error {
            InitError::AlreadyThere { .. } => Self::input(error).hint("choose a new folder: countersign init DIR"),
            InitError::Write { ref source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                Self::environment(error)
                    .hint("choose a folder of your own, or have root make this one and give it to you")
            }
            _ => Self::environment(error),
        }
    }
}

/// Creates a file and its folders; fails if it exists.
pub(super) fn create(path: &Path, text: &str) -> Result<(), InitError> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let created = durable_file::create_folders(folder, Access::LikeFolder)
        .and_then(|()| durable_file::create_new(path, text.as_bytes(), Access::LikeFolder));
    created.map_err(|source| InitError::Write {
        path: path.to_owned(),
        source,
    })
}

/// Makes the folder for the secrets of shops, which a person copies into it.
pub(super) fn create_shops_folder(folder: &Path) -> Result<(), InitError> {
    let path = folder.join("keys/shops");
    durable_file::create_folders(&path, Access::Owner).map_err(|source| InitError::Write { path, source })
}
