//! Retired private keys: kept beside their public halves until a person deletes them.
//!
//! A file's modification time is when its key was retired; `cp -p`, `tar` and `rsync -a` keep it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use countersign_files::durable_file::Access;
use countersign_settings::config::Paths;

use crate::commands::Failure;
use crate::commands::keys::error::{KeyCommandError, io_error};
use crate::commands::keys::files::{create_folder, put_private};
use crate::commands::keys::report::Removed;

/// The ending of a retired private key's file name.
const SUFFIX: &str = ".private.pem";

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A retired private key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retired {
    /// The key's id.
    pub key_id: String,
    /// Its file.
    pub file: PathBuf,
    /// When it was retired.
    pub since: SystemTime,
}

impl Retired {
    /// How many whole days ago it was retired.
    pub fn days(&self, now: SystemTime) -> u64 {
        now.duration_since(self.since).unwrap_or_default().as_secs() / DAY.as_secs()
    }
}

/// The retired private keys, the latest last.
pub fn all(paths: &Paths) -> Result<Vec<Retired>, KeyCommandError> {
    let folder = &paths.retired_keys;
    let failed = |source| io_error(folder, source);
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries.collect::<Result<Vec<_>, _>>().map_err(failed)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => vec![],
        Err(source) => return Err(failed(source)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let file = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(key_id) = name.strip_suffix(SUFFIX).filter(|id| !id.starts_with('.')) else {
            continue;
        };
        let since = fs::metadata(&file).and_then(|metadata| metadata.modified());
        let since = since.map_err(|source| io_error(&file, source))?;
        found.push(Retired {
            key_id: key_id.to_owned(),
            file,
            since,
        });
    }
    found.sort_by(|one, other| (one.since, &one.key_id).cmp(&(other.since, &other.key_id)));
    Ok(found)
}

/// Keys that were retired more than `days` ago.
pub fn overdue(paths: &Paths, days: u32, now: SystemTime) -> Result<Vec<Retired>, KeyCommandError> {
    Ok(all(paths)?
        .into_iter()
        .filter(|retired| retired.days(now) > u64::from(days))
        .collect())
}

/// Whether a file in the folder of retired keys is a private key.
pub(super) fn is_private(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.to_string_lossy().ends_with(SUFFIX))
}

/// Keeps the private key that is about to be replaced; returns its file.
pub(super) fn keep(paths: &Paths, key_id: &str, pem: &str) -> Result<PathBuf, KeyCommandError> {
    let file = paths.retired_keys.join(format!("{key_id}{SUFFIX}"));
    create_folder(&file, Access::Owner)?;
    put_private(&file, pem.as_bytes())?;
    Ok(file)
}

/// Which retired private keys to delete.
pub(super) enum Which<'a> {
    /// Those with these ids.
    Named(&'a [String]),
    /// Those that were retired more than this many days ago.
    Overdue {
        /// Days.
        days: u32,
    },
}

/// Deletes retired private keys, and returns the deleted files.
pub(super) fn remove(which: &Which<'_>, paths: &Paths, now: SystemTime) -> Result<Removed, Failure> {
    let chosen = match which {
        Which::Overdue { days } => overdue(paths, *days, now)?,
        Which::Named(ids) => {
            let all = all(paths)?;
            let find = |id: &String| {
                let found = all.iter().find(|retired| retired.key_id == *id).cloned();
                found.ok_or_else(|| KeyCommandError::NotRetired(paths.retired_keys.join(format!("{id}{SUFFIX}"))))
            };
            let hint = "`countersign keys list` shows which private keys are kept";
            ids.iter()
                .map(find)
                .collect::<Result<Vec<_>, _>>()
                .map_err(|error| Failure::from(error).hint(hint))?
        }
    };
    for Retired { file, .. } in &chosen {
        fs::remove_file(file).map_err(|source| io_error(file, source))?;
    }
    Ok(Removed::new(chosen.iter().map(|retired| retired.file.as_path())))
}
