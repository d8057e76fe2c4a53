//! What is published when a build begins, and whether the files that the index names still stand.
//!
//! The index is written after every file that it names. A file that has not changed since is therefore the one of its
//! digest, and is not read again: reading and hashing manifests was 8 of 10 parts of a build in which nothing changed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::build::error::BuildError;
use crate::build::publish::index_time::index_time;
use crate::catalog::{MAX_MANIFEST, Release, ReleaseIndex, manifest_path, package_path, verify_package};
use crate::model::digest::Digest;
use crate::model::slug::Slug;
use crate::package::MAX_PACKED;
use crate::regular_file;

/// The folder of releases as a build found it.
pub(super) struct PublishedReleases {
    root: PathBuf,
    /// The index; empty where there is none.
    pub index: ReleaseIndex,
    /// Every file that has not changed since this moment is the one of its digest in `index`.
    pub verified_at: SystemTime,
    /// When this build began to look at files.
    opened_at: SystemTime,
    /// Plugins into whose folders nothing was moved since then: a file from elsewhere may bring an old time.
    untouched: BTreeSet<Slug>,
    /// Trust no time: read every file.
    reads_all: bool,
}

impl PublishedReleases {
    /// Looks at the folder, before anything is staged in it.
    pub(super) fn of(root: &Path, reads_all: bool) -> Result<Self, BuildError> {
        let opened_at = SystemTime::now();
        // The time first: a later one would vouch for what another build puts there meanwhile.
        let verified_at = index_time(root);
        let index = ReleaseIndex::read(root).map_err(BuildError::Index)?.unwrap_or_default();
        // Now, because what this build stages changes the folders.
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

    /// What has not changed since this moment is what the index says; `None` where no time is trusted.
    pub(super) fn vouches_since(&self) -> Option<SystemTime> {
        (!self.reads_all).then_some(self.verified_at)
    }

    /// Whether the manifest of a release stands in its place.
    pub(super) fn holds_manifest(&self, slug: &Slug, release: &Release) -> bool {
        let place = manifest_path(&self.root, slug, &release.version);
        self.vouches_for(slug, release, &place, MAX_MANIFEST)
            || regular_file::read(&place, MAX_MANIFEST).is_ok_and(|bytes| Digest::of(&bytes) == release.sha256)
    }

    /// Whether the package of a release stands in its place, where it has one.
    pub(super) fn holds_package(&self, slug: &Slug, release: &Release) -> bool {
        let Some(package) = &release.package else { return true };
        let place = package_path(&self.root, slug, &release.version);
        self.vouches_for(slug, release, &place, MAX_PACKED) || verify_package(&place, package, |_| ()).is_ok()
    }

    /// Whether somebody else wrote a file that `index` names since this build began, perhaps after it was looked at. `own`
    /// are those that this build has put there.
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

    /// Whether the file at `place` has not changed since the index was written, which names this release.
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
