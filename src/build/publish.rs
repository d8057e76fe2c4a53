//! Step 5: packages and manifests are written to temporary names beside their places, then renamed into place, the
//! index last.
//!
//! Nothing is written in place. Until the index is renamed, a reader gets the old folder, or refuses all of it
//! because digests differ. Files that are not in the new index are removed afterwards. `countersign serve` reads the
//! folder.

pub(super) mod from_folder;
mod published;
mod staging;

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, Seek as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use chrono::{TimeDelta, Utc};

use crate::build::error::BuildError;
use crate::build::manifest_sink::{BuiltRelease, ManifestSink, NewPackage, PackFailure};
use crate::build::publish::published::PublishedReleases;
use crate::build::publish::staging::Staging;
use crate::build::report::outcome::Reason;
use countersign_files::durable_file::{self, Access};
use countersign_files::folder_lock::{self, HeldLock};
use countersign_files::regular_file;
use countersign_model::digest::Digest;
use countersign_model::release_list::ReleaseList;
use countersign_model::slug::Slug;
use countersign_model::version::Version;
use countersign_package::catalog::{
    MAX_INDEX, MAX_MANIFEST, Release, ReleaseIndex, Releases, RemovedReleases, index_path, manifest_path, package_path,
    removed_path, removed_releases,
};
use countersign_package::file_digest::digest_of;
use countersign_package::writer::Package;

/// The folder of releases. One build at a time publishes to it.
pub(super) struct Publisher {
    root: PathBuf,
    published: PublishedReleases,
    /// Make everything again, whatever the index says.
    all: bool,
    /// The open folder; `None` with `--check`, which writes nothing.
    folder: Option<File>,
    staging: Staging,
}

/// The folder, locked for publishing.
pub(super) struct Publication {
    old: ReleaseIndex,
    _lock: Option<HeldLock>,
}

impl Publication {
    /// The published index; may be empty.
    pub(super) fn old(&self) -> &ReleaseIndex {
        &self.old
    }
}

impl Publisher {
    /// Opens the folder. It is [locked](Publisher::lock) only to publish, because reading tags may take long.
    pub(super) fn open(releases: &Path, check: bool, all: bool) -> Result<Self, BuildError> {
        if !check {
            durable_file::create_folders(releases, Access::LikeFolder)
                .map_err(|source| BuildError::write(releases, source))?;
        }
        // If `releases` is a symbolic link that is replaced meanwhile, everything goes to one side.
        let root = releases.canonicalize().unwrap_or_else(|_| releases.to_owned());
        let open = || regular_file::open_folder(&root).map_err(|source| BuildError::write(&root, source));
        let folder = if check { None } else { Some(open()?) };
        let published = PublishedReleases::of(&root, all)?;
        let staging = Staging::new().map_err(|source| BuildError::write(&root, source))?;
        Ok(Self {
            root,
            published,
            all,
            folder,
            staging,
        })
    }

    /// Locks the folder for publishing; waits up to `patience` for another build that publishes.
    ///
    /// # Errors
    /// Another build is still publishing, or has published another state of `plugins` (`None`: of all) since
    /// this one began: what this build read may then be older than what is published.
    pub(super) fn lock(&self, plugins: Option<&BTreeSet<Slug>>, patience: Duration) -> Result<Publication, BuildError> {
        if self.folder.is_none() {
            return Ok(Publication {
                old: self.published.index.clone(),
                _lock: None,
            });
        }
        let root = regular_file::open_folder(&self.root).map_err(|source| BuildError::write(&self.root, source))?;
        // The wait is not reported, because that would disturb the progress bar.
        let lock = match folder_lock::wait(root, patience, || ()) {
            Ok(held) => Some(held),
            Err(TryLockError::WouldBlock) => {
                return Err(BuildError::Busy {
                    path: self.root.clone(),
                });
            }
            // Some network file systems have no locks; vendors build on one machine.
            Err(TryLockError::Error(_)) => None,
        };
        let old = ReleaseIndex::read(&self.root)
            .map_err(BuildError::Index)?
            .unwrap_or_default();
        let same = |slug: &Slug| old.plugins.get(slug) == self.published.index.plugins.get(slug);
        match plugins.map_or(old == self.published.index, |plugins| plugins.iter().all(same)) {
            true => Ok(Publication { old, _lock: lock }),
            false => Err(BuildError::Overtaken {
                path: self.root.clone(),
            }),
        }
    }

    /// Removes temporary files, and accepts no more.
    pub(super) fn close(&self) {
        self.staging.close();
    }

    /// Whether the manifest of a published release is in place.
    pub(super) fn holds_manifest(&self, slug: &Slug, release: &Release) -> bool {
        self.published.holds_manifest(slug, release)
    }

    /// Renames the files of `index` into place, packages first, then the index; then removes files of `plugins`
    /// (`None`: of all) that are not in the index. `is_whole` says that every file has the digest of the index.
    pub(super) fn publish(
        &self,
        _held: &Publication,
        index: &ReleaseIndex,
        is_whole: bool,
        plugins: Option<&BTreeSet<Slug>>,
    ) -> Result<(), BuildError> {
        let Some(root) = &self.folder else { return Ok(()) };
        let mut packages = Vec::new();
        let mut places = Vec::new();
        for (slug, releases) in &index.plugins {
            for release in &releases.releases {
                let manifest = manifest_path(&self.root, slug, &release.version);
                if self.staging.has(&manifest, release.sha256) {
                    places.push(manifest);
                }
                let place = package_path(&self.root, slug, &release.version);
                if let Some(package) = &release.package
                    && self.staging.has(&place, package.sha256)
                {
                    packages.push(place);
                }
            }
        }
        // The package of a new manifest is already in place.
        packages.append(&mut places);
        let places = packages;
        // Everything is on the disk before anything that sites get is replaced.
        let staged_index = self.stage_index(index)?;
        self.staging
            .sync(root, &places)
            .map_err(|source| BuildError::write(&self.root, source))?;
        for place in &places {
            self.staging
                .put(place)
                .map_err(|source| BuildError::write(place, source))?;
        }
        let folders: BTreeSet<_> = places.iter().filter_map(|place| place.parent()).collect();
        for folder in folders.into_iter().chain([&*self.root]) {
            durable_file::sync_folder(folder).map_err(|source| BuildError::write(folder, source))?;
        }
        self.note_removed(index)?;
        if let Some(staged) = staged_index {
            let is_whole = is_whole && !self.published.changed_meanwhile(index, &places);
            self.put_index(&staged, is_whole)
                .map_err(|source| BuildError::write(&index_path(&self.root), source))?;
        }
        published::prune(&self.root, index, plugins)
    }

    /// Lists the releases that go with the new index, and strikes those that are back. Before the index, so that a server
    /// finds the list beside it.
    fn note_removed(&self, index: &ReleaseIndex) -> Result<(), BuildError> {
        let mut published = ReleaseList::default();
        for (slug, releases) in &index.plugins {
            releases
                .releases
                .iter()
                .for_each(|release| published.add(slug, &release.version));
        }
        let before = removed_releases(&self.root);
        let mut removed = before.releases.clone();
        for (slug, releases) in &self.published.index.plugins {
            releases
                .releases
                .iter()
                .for_each(|release| removed.add(slug, &release.version));
        }
        removed.retain(|slug, version| !published.has(slug, version));
        if removed == before.releases {
            return Ok(());
        }
        // Later than the list before, whatever the clock says.
        let after = before.time.checked_add_signed(TimeDelta::milliseconds(1));
        let removed = RemovedReleases {
            time: Utc::now().max(after.unwrap_or_default()),
            releases: removed,
        };
        let place = removed_path(&self.root);
        let write = || {
            let mut bytes = serde_json::to_vec_pretty(&removed)?;
            bytes.push(b'\n');
            durable_file::replace(&place, &bytes)
        };
        write().map_err(|source| BuildError::write(&place, source))
    }

    /// Whether the index differs from the published one.
    pub(super) fn index_changes(&self, index: &ReleaseIndex) -> bool {
        regular_file::read(&index_path(&self.root), MAX_INDEX).map_or(true, |held| held != index.to_bytes())
    }

    /// Only the build that holds the lock writes it.
    fn temporary_index(&self) -> PathBuf {
        index_path(&self.root).with_file_name(".index.json.new")
    }

    /// Writes the index under a temporary name; `None` if it is the published one.
    fn stage_index(&self, index: &ReleaseIndex) -> Result<Option<File>, BuildError> {
        if !self.index_changes(index) {
            return Ok(None);
        }
        let temporary = self.temporary_index();
        let write = || {
            durable_file::write_like_folder(&temporary, &index.to_bytes())?;
            let file = regular_file::open_to_write(&temporary)?;
            file.sync_all()?;
            Ok(file)
        };
        write()
            .map(Some)
            .map_err(|source| BuildError::write(&temporary, source))
    }

    /// Puts the index in place. Its time tells when all manifests had the right digests.
    fn put_index(&self, staged: &File, is_whole: bool) -> io::Result<()> {
        // Every build must report a damaged manifest, not only this one.
        staged.set_modified(if is_whole {
            SystemTime::now()
        } else {
            self.published.verified_at
        })?;
        fs::rename(self.temporary_index(), index_path(&self.root))?;
        durable_file::sync_folder(&self.root)
    }
}

impl ManifestSink for Publisher {
    type Error = BuildError;

    fn published(&self, slug: &Slug) -> Option<&Releases> {
        self.published.index.plugins.get(slug)
    }

    fn is_in_place(&self, slug: &Slug, release: &Release) -> bool {
        !self.all && self.holds_manifest(slug, release) && self.holds_package(slug, release)
    }

    fn holds_package(&self, slug: &Slug, release: &Release) -> bool {
        self.published.holds_package(slug, release)
    }

    fn vouches_since(&self) -> Option<SystemTime> {
        self.published.vouches_since()
    }

    /// Writes the package under a temporary name, unless it is already in place. With `--check`, writes to an unnamed
    /// file.
    fn package(
        &self,
        slug: &Slug,
        version: &Version,
        published: Option<&Release>,
        pack: &mut dyn FnMut(&File) -> Result<Package, PackFailure>,
    ) -> Result<Result<NewPackage, Reason>, BuildError> {
        let place = package_path(&self.root, slug, version);
        let failed = |source| BuildError::write(&place, source);
        let staged = match &self.folder {
            None => None,
            Some(_) => self.staging.create(&place).map_err(failed)?,
        };
        let is_staged = staged.is_some();
        let file = match staged {
            Some(file) => file,
            None => regular_file::create_nameless().map_err(failed)?,
        };
        let packed = match pack(&file) {
            Ok(packed) => packed,
            Err(PackFailure::Release(reason)) => {
                self.staging.discard(&place);
                return Ok(Err(reason));
            }
            Err(PackFailure::Output(source)) => return Err(failed(source)),
        };
        (&file).rewind().map_err(failed)?;
        let new = NewPackage {
            size: packed.size,
            sha256: digest_of(&file, |_| ()).map_err(failed)?,
            mark: packed.mark,
        };
        // A check writes nothing; `holds_package` looks at what is in place.
        let is_same = |release: &&Release| release.package.as_ref().is_some_and(|old| old.sha256 == new.sha256);
        if is_staged
            && published
                .filter(is_same)
                .is_some_and(|old| self.holds_package(slug, old))
        {
            self.staging.discard(&place);
        } else if is_staged {
            self.staging.finish(&place, new.sha256);
        }
        Ok(Ok(new))
    }

    /// Writes the manifest under a temporary name, unless it is already in place.
    fn take(&self, slug: &Slug, built: BuiltRelease) -> Result<(Digest, bool), BuildError> {
        let bytes = built.manifest.to_bytes();
        let digest = Digest::of(&bytes);
        let place = manifest_path(&self.root, slug, &built.version);
        let held = regular_file::read(&place, MAX_MANIFEST).is_ok_and(|held| held == bytes);
        if self.folder.is_some() && !held {
            let written = self.staging.write(&place, digest, &bytes);
            written.map_err(|source| BuildError::write(&place, source))?;
        }
        Ok((digest, held))
    }
}
