//! Removes files that the new index does not name.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use crate::build::error::BuildError;
use countersign_model::slug::Slug;
use countersign_model::version::Version;
use countersign_package::catalog::{Release, ReleaseIndex};

/// Removes manifests and packages of `plugins` (`None`: of all) that are not in the index.
pub(super) fn prune(root: &Path, index: &ReleaseIndex, plugins: Option<&BTreeSet<Slug>>) -> Result<(), BuildError> {
    let error = |path: &Path, source| BuildError::write(path, source);
    for entry in fs::read_dir(root).map_err(|source| error(root, source))? {
        let entry = entry.map_err(|source| error(root, source))?;
        let slug = entry.file_name().to_str().and_then(|name| name.parse::<Slug>().ok());
        let Some(slug) = slug.filter(|slug| plugins.is_none_or(|plugins| plugins.contains(slug))) else {
            continue;
        };
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let named = index
                .plugins
                .get(&slug)
                .map(|releases| &releases.releases[..])
                .unwrap_or_default();
            let named: BTreeSet<String> = named.iter().flat_map(files).collect();
            prune_folder(&entry.path(), &named).map_err(|source| error(&entry.path(), source))?;
        }
    }
    Ok(())
}

/// The names of a release's files.
fn files(release: &Release) -> impl Iterator<Item = String> {
    let package = release.package.as_ref().map(|_| format!("{}.zip", release.version));
    package.into_iter().chain([format!("{}.json", release.version)])
}

/// Removes unnamed manifests and packages, and temporary files of an interrupted build; other files stay.
fn prune_folder(folder: &Path, named: &BTreeSet<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let stem = name.strip_suffix(".json").or(name.strip_suffix(".zip"));
        let is_ours = stem.is_some_and(|stem| stem.parse::<Version>().is_ok());
        let left_over = name.starts_with('.') && name.ends_with(".new");
        // A folder with such a name is not ours, and stays.
        if entry.file_type()?.is_dir() {
            continue;
        }
        if left_over || is_ours && !named.contains(&*name) {
            fs::remove_file(entry.path())?;
        }
    }
    if fs::read_dir(folder)?.next().is_none() {
        fs::remove_dir(folder)
    } else {
        Ok(())
    }
}
