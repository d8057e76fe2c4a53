//! Finds each plugin's repository on this machine: a local folder, or a mirror, which is updated first.
//!
//! [`plugin_build`](crate::build::plugin_build) reads the repositories.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use url::Url;

use crate::build::error::BuildError;
use crate::build::git::mirror::{self, Mirrors};
use crate::build::git::repository::Repository;
use crate::build::progress::Progress;
use crate::build::side_by_side::side_by_side;
use countersign_model::plugin::{self, Plugin};
use countersign_model::text::ErrorChain;
use countersign_registry::plugins::PluginEntry;

/// How many remote repositories are fetched in parallel.
const FETCHES: usize = 4;

/// Remote repositories by URL: the folder of the mirror, or an error in one line.
pub(super) type Fetched = HashMap<Url, Result<PathBuf, String>>;

/// Updates the mirrors of all remote repositories; plugins of a monorepo share one.
pub(super) fn fetch(
    entries: &[&PluginEntry],
    mirrors: &Mirrors,
    progress: &dyn Progress,
) -> Result<Fetched, BuildError> {
    let sources = entries
        .iter()
        .filter_map(|entry| entry.plugin.as_ref().ok()?.source.as_ref());
    let addresses: BTreeSet<&Url> = sources
        .filter_map(|source| match &source.repository {
            plugin::RepositoryLocation::Url(url) => Some(url),
            plugin::RepositoryLocation::Folder(_) => None,
        })
        .collect();
    let addresses: Vec<_> = addresses.into_iter().collect();
    let fetched = side_by_side(&addresses, FETCHES, |&url| {
        let address = mirror::shown(url);
        if !mirrors.offline {
            progress.fetching(&address);
        }
        let mirror = mirrors
            .update(url)
            .map_err(|error| format!("{address}: {}", ErrorChain(&error)));
        Ok((url.clone(), mirror))
    })?;
    Ok(fetched.into_iter().collect())
}

/// The plugin's repository, or an error in one line.
pub(super) fn open(plugin: &Plugin, fetched: &Fetched) -> Result<Repository, String> {
    let repository = plugin.source.as_ref().map(|source| &source.repository);
    let is_mirror = matches!(repository, Some(plugin::RepositoryLocation::Url(_)));
    let folder = match repository {
        Some(plugin::RepositoryLocation::Folder(folder)) => folder,
        Some(plugin::RepositoryLocation::Url(url)) => {
            fetched.get(url).ok_or("not fetched")?.as_ref().map_err(String::clone)?
        }
        None => return Err("no source configured".into()),
    };
    let opened = if is_mirror {
        Repository::open_mirror(folder)
    } else {
        Repository::open(folder)
    };
    opened.map_err(|error| ErrorChain(&error).to_string())
}

/// The name of the plugin's repository in messages.
pub(super) fn repository_of(entry: &PluginEntry) -> String {
    let source = entry.plugin.as_ref().ok().and_then(|plugin| plugin.source.as_ref());
    match source.map(|source| &source.repository) {
        Some(plugin::RepositoryLocation::Folder(folder)) => folder.display().to_string(),
        Some(plugin::RepositoryLocation::Url(url)) => mirror::shown(url),
        None => entry.file.display().to_string(),
    }
}
