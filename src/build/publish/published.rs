//! The published releases when a build begins, whether their files are still in place, and the removal of files that the new index does
//! not name.
//!
//! The index is written after every file in it. So a file that has not changed since then has its digest, and is not
//! read again: reading and hashing manifests took 80 % of a build without changes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{fs, io};

use crate::build::error::BuildError;
use countersign_files::regular_file;
use countersign_model::digest::Digest;
use countersign_model::slug::Slug;
use countersign_model::version::Version;
use countersign_package::MAX_PACKED;
use countersign_package::catalog::{
    MAX_MANIFEST, Release, ReleaseIndex, index_path, manifest_path, package_path, verify_package,
};

/// The folder of releases as a build found it.
pub(super) struct PublishedReleases {
    root: PathBuf,
    /// The index; may be empty.
    pub index: ReleaseIndex,
    /// Every file that has not changed since this time has its digest in `index`.
    pub verified_at: SystemTime,
    /// When this build began to look at files.
    opened_at: SystemTime,
    /// Plugins whose folders have not changed since then: a file moved in from elsewhere may have an old time.
    untouched: BTreeSet<Slug>,
    /// Trust no time: read every file.
    reads_all: bool,
}

impl PublishedReleases {
    /// Reads the folder before temporary files are written to it.
    pub(super) fn of(root: &Path, reads_all: bool) -> Result<Self, BuildError> {
        let opened_at = SystemTime::now();
        // The time first, because a later time would also vouch for files of another build.
        let verified_at = index_time(root);
        let index = ReleaseIndex::read(root).map_err(BuildError::Index)?.unwrap_or_default();
        // Now, because this build's temporary files change the folders.
        let is_untouched = |slug: &&Slug| {
            fs::metadata(root.join(slug.as_str())).is_ok_and(|folder| regular_file::change_time(&folder) < verified_at)
        };
        Ok(Self {
            root: root.to_owned(),
            untouched: index.plugins.keys().filter(is_untouched).cloned().collect(),
            index,
            verified_at,
            opened_at,
            reads_all,
        })
    }

    /// Files that have not changed since this time match the index; `None` if no time can be trusted.
    pub(super) fn vouches_since(&self) -> Option<SystemTime> {
        (!self.reads_all).then_some(self.verified_at)
    }

    /// Whether the manifest of a release is in place.
    pub(super) fn holds_manifest(&self, slug: &Slug, release: &Release) -> bool {
        let place = manifest_path(&self.root, slug, &release.version);
        self.vouches_for(slug, release, &place, MAX_MANIFEST)
            || regular_file::read(&place, MAX_MANIFEST).is_ok_and(|bytes| Digest::of(&bytes) == release.sha256)
    }

    /// Whether the package of a release, if it has one, is in place.
    pub(super) fn holds_package(&self, slug: &Slug, release: &Release) -> bool {
        let Some(package) = &release.package else { return true };
        let place = package_path(&self.root, slug, &release.version);
        self.vouches_for(slug, release, &place, MAX_PACKED) || verify_package(&place, package, |_| ()).is_ok()
    }

    /// Whether another program wrote a file of `index` since this build began, perhaps after it was checked. `own`
    /// are the files that this build has put in place.
    pub(super) fn changed_meanwhile(&self, index: &ReleaseIndex, own: &[PathBuf]) -> bool {
        let own: BTreeSet<_> = own.iter().collect();
        let changed = |place: PathBuf, limit| {
            let is_old = || regular_file::changed_at(&place, limit).is_ok_and(|time| time < self.opened_at);
            !own.contains(&place) && !is_old()
        };
        let is_changed = |slug: &Slug, release: &Release| {
            let package = || changed(package_path(&self.root, slug, &release.version), MAX_PACKED);
            changed(manifest_path(&self.root, slug, &release.version), MAX_MANIFEST)
                || release.package.is_some() && package()
        };
        let mut plugins = index.plugins.iter();
        plugins.any(|(slug, plugin)| plugin.releases.iter().any(|release| is_changed(slug, release)))
    }

    /// Whether the file at `place` has not changed since the index, which has this release, was written.
    fn vouches_for(&self, slug: &Slug, release: &Release, place: &Path, limit: u64) -> bool {
        let is_unchanged = || {
            let changed_at = regular_file::changed_at(place, limit);
            self.untouched.contains(slug) && changed_at.is_ok_and(|time| time < self.verified_at)
        };
        let is_published = || {
            let releases = &self.index.plugins.get(slug)?.releases;
            let found = releases
                .binary_search_by(|probe| release.version.cmp_php(&probe.version))
                .ok()?;
            Some(releases[found] == *release)
        };
        !self.reads_all && is_unchanged() && is_published().unwrap_or(false)
    }
}

/// When the index was written; long ago if there is none, or if a time of it is in the future because a clock was set
/// back.
fn index_time(root: &Path) -> SystemTime {
    let times = || {
        let metadata = fs::metadata(index_path(root))?;
        io::Result::Ok([metadata.modified()?, regular_file::change_time(&metadata)])
    };
    let now = SystemTime::now();
    match times() {
        Ok([modified, changed]) if modified <= now && changed <= now => modified.min(changed),
        _ => SystemTime::UNIX_EPOCH,
    }
}

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
