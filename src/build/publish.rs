//! Step 5: manifests are staged next to their place while they are built, then renamed into it, the index last.
//!
//! Nothing is written in place. Until the index is renamed a reader finds the old folder or refuses it whole, because
//! digests differ; manifests that the new index does not name are removed after it. `countersign serve` reads the folder.
//!
//! The index is written after every manifest that it names. A manifest that has not changed since is therefore the one of
//! its digest, and is not read again: reading and hashing them was 8 of 10 parts of a build in which nothing changed.

mod index_time;
mod prune;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use crate::build::error::BuildError;
use crate::build::manifest_sink::{BuiltRelease, ManifestSink};
use crate::catalog::{MAX_INDEX, MAX_MANIFEST, Release, ReleaseIndex, Releases, index_path, manifest_path};
use crate::durable_file::{self, Access};
use crate::folder_lock;
use crate::model::digest::Digest;
use crate::model::slug::Slug;
use crate::regular_file;

/// More files than this are made durable together.
const MANY: usize = 100;

/// The folder of releases: looked at, staged to, and published to by one build at a time.
pub(super) struct Publisher {
    root: PathBuf,
    old: ReleaseIndex,
    /// Every manifest that has not changed since this moment is the one of its digest in `old`.
    verified_at: SystemTime,
    /// When this build began to look at manifests.
    opened_at: SystemTime,
    /// Plugins into whose folders nothing was moved since then: a file from elsewhere may bring an old time.
    untouched: BTreeSet<Slug>,
    /// Make every manifest again, whatever the index says.
    all: bool,
    /// The open folder; `None` where nothing is written: `--check`.
    folder: Option<File>,
    /// What temporary names of this build end in, so that builds can stage at the same time.
    token: String,
    /// Digests of the manifests that wait under a temporary name, by their place.
    staged: Mutex<BTreeMap<PathBuf, Digest>>,
    /// Nothing is staged any more; a reading that was abandoned may still want to.
    closed: AtomicBool,
}

/// The folder while one build publishes and no other can.
pub(super) struct Publication {
    old: ReleaseIndex,
    _lock: Option<File>,
}

impl Publication {
    /// The index that is published now; empty where there is none.
    pub(super) fn old(&self) -> &ReleaseIndex {
        &self.old
    }
}

impl Publisher {
    /// Looks at the folder. It is held only while something is [published](Publisher::lock): reading may take long.
    pub(super) fn open(releases: &Path, check: bool, all: bool) -> Result<Self, BuildError> {
        if !check {
            durable_file::create_folders(releases, Access::LikeFolder)
                .map_err(|source| BuildError::write(releases, source))?;
        }
        // A `releases` that is a symbolic link and is swapped meanwhile: everything goes to one side.
        let root = releases.canonicalize().unwrap_or_else(|_| releases.to_owned());
        let open = || regular_file::open_folder(&root).map_err(|source| BuildError::write(&root, source));
        let folder = if check { None } else { Some(open()?) };
        let opened_at = SystemTime::now();
        // The time first: a later one would vouch for what another build puts there meanwhile.
        let verified_at = index_time::index_time(&root);
        let old = ReleaseIndex::read(&root)
            .map_err(BuildError::Index)?
            .unwrap_or_default();
        // Now, because what this build stages changes the folders.
        let is_untouched = |slug: &&Slug| {
            fs::metadata(root.join(slug.as_str())).is_ok_and(|folder| regular_file::change_time(&folder) < verified_at)
        };
        let untouched = old.plugins.keys().filter(is_untouched).cloned().collect();
        let token = format!(
            "{:016x}",
            getrandom::u64().map_err(|error| BuildError::write(&root, io::Error::other(error)))?
        );
        Ok(Self {
            root,
            old,
            verified_at,
            opened_at,
            untouched,
            all,
            folder,
            token,
            staged: Mutex::default(),
            closed: AtomicBool::new(false),
        })
    }

    /// Holds the folder for publishing; waits for another build that publishes as long as `patience`.
    ///
    /// # Errors
    /// Another build still publishes, or has published something else of `plugins` (`None`: of all) since this one began:
    /// what was read is then perhaps older than what is published.
    pub(super) fn lock(&self, plugins: Option<&BTreeSet<Slug>>, patience: Duration) -> Result<Publication, BuildError> {
        if self.folder.is_none() {
            return Ok(Publication {
                old: self.old.clone(),
                _lock: None,
            });
        }
        let lock = regular_file::open_folder(&self.root).map_err(|source| BuildError::write(&self.root, source))?;
        // Nothing is told of the wait: the line would stand in the middle of a progress bar.
        if let Err(TryLockError::WouldBlock) = folder_lock::wait(&lock, patience, || ()) {
            return Err(BuildError::Busy {
                path: self.root.clone(),
            });
        }
        // Some network file systems have no locks; a vendor builds on one machine.
        let old = ReleaseIndex::read(&self.root)
            .map_err(BuildError::Index)?
            .unwrap_or_default();
        let same = |slug: &Slug| old.plugins.get(slug) == self.old.plugins.get(slug);
        match plugins.map_or(old == self.old, |plugins| plugins.iter().all(same)) {
            true => Ok(Publication { old, _lock: Some(lock) }),
            false => Err(BuildError::Overtaken {
                path: self.root.clone(),
            }),
        }
    }

    /// Removes what was staged and not published, and stages nothing more.
    pub(super) fn close(&self) {
        let staged = self.staged();
        self.closed.store(true, Ordering::Relaxed);
        for place in staged.keys() {
            let _ = fs::remove_file(self.temporary(place));
            // Goes only where it is empty.
            let _ = place.parent().map(fs::remove_dir);
        }
    }

    /// `.1.2.json.<token>.new`: no version starts with a dot.
    fn temporary(&self, place: &Path) -> PathBuf {
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        place.with_file_name(format!(".{name}.{}.new", self.token))
    }

    /// Whether the manifest of a published release stands in its place.
    pub(super) fn holds(&self, slug: &Slug, release: &Release) -> bool {
        let place = manifest_path(&self.root, slug, &release.version);
        let is_unchanged = || {
            let changed_at = regular_file::changed_at(&place, MAX_MANIFEST);
            self.untouched.contains(slug) && changed_at.is_ok_and(|time| time < self.verified_at)
        };
        let is_published = || {
            let old = &self.old.plugins.get(slug)?.releases;
            let found = old
                .binary_search_by(|probe| release.version.cmp_php(&probe.version))
                .ok()?;
            Some(old[found] == *release)
        };
        !self.all && is_unchanged() && is_published().unwrap_or(false)
            || regular_file::read(&place, MAX_MANIFEST).is_ok_and(|bytes| Digest::of(&bytes) == release.sha256)
    }

    /// Renames what `index` names into place, then the index, then removes manifests of `plugins` (`None`: of all) that the
    /// index does not name. `is_whole` says that every manifest was found to be the one of its digest.
    pub(super) fn publish(
        &self,
        _held: &Publication,
        index: &ReleaseIndex,
        is_whole: bool,
        plugins: Option<&BTreeSet<Slug>>,
    ) -> Result<(), BuildError> {
        let Some(root) = &self.folder else { return Ok(()) };
        let mut places = Vec::new();
        let mut folders = BTreeSet::new();
        for (slug, releases) in &index.plugins {
            for release in &releases.releases {
                let place = manifest_path(&self.root, slug, &release.version);
                if self.staged().get(&place) == Some(&release.sha256) {
                    places.push(place);
                    folders.insert(self.root.join(slug.as_str()));
                }
            }
        }
        // All that takes room on the disk stands there before anything that sites get is exchanged.
        let staged_index = self.stage_index(index)?;
        self.sync_temporary(root, &places)
            .map_err(|source| BuildError::write(&self.root, source))?;
        for place in &places {
            fs::rename(self.temporary(place), place).map_err(|source| BuildError::write(place, source))?;
            self.staged().remove(place);
        }
        for folder in folders.iter().chain([&self.root]) {
            durable_file::sync_folder(folder).map_err(|source| BuildError::write(folder, source))?;
        }
        if let Some(staged) = staged_index {
            let is_whole = is_whole && !self.changed_meanwhile(index, &places);
            self.put_index(&staged, is_whole)
                .map_err(|source| BuildError::write(&index_path(&self.root), source))?;
        }
        prune::prune(&self.root, index, plugins)
    }

    /// Whether the index is not, byte for byte, the one that is published.
    pub(super) fn index_changes(&self, index: &ReleaseIndex) -> bool {
        regular_file::read(&index_path(&self.root), MAX_INDEX).map_or(true, |held| held != index.to_bytes())
    }

    /// Only who holds the folder writes it.
    fn temporary_index(&self) -> PathBuf {
        index_path(&self.root).with_file_name(".index.json.new")
    }

    /// Writes the index under a temporary name; `None` where it is the one that is published.
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

    /// Puts the index in its place. Its time says when all manifests were the ones of their digests.
    fn put_index(&self, staged: &File, is_whole: bool) -> io::Result<()> {
        // A damaged manifest is told by every build, not only by this one.
        staged.set_modified(if is_whole { SystemTime::now() } else { self.verified_at })?;
        fs::rename(self.temporary_index(), index_path(&self.root))?;
        durable_file::sync_folder(&self.root)
    }

    /// Whether somebody else wrote a manifest since this build began, perhaps after it was looked at.
    fn changed_meanwhile(&self, index: &ReleaseIndex, own: &[PathBuf]) -> bool {
        let own: BTreeSet<_> = own.iter().collect();
        let named = index.plugins.iter().flat_map(|(slug, plugin)| {
            plugin
                .releases
                .iter()
                .map(move |release| manifest_path(&self.root, slug, &release.version))
        });
        let changed =
            |place: PathBuf| regular_file::changed_at(&place, MAX_MANIFEST).map_or(true, |time| time >= self.opened_at);
        named.filter(|place| !own.contains(place)).any(changed)
    }

    /// Makes the temporary files of `places` durable.
    ///
    /// One by one, 10,000 of them take longer than all the rest of a build. Many are therefore written together with whatever
    /// else the file system of `root` holds back. `root` was opened before the first was written, so that no failed write is
    /// missed (syncfs(2), since Linux 5.8).
    fn sync_temporary(&self, root: &File, places: &[PathBuf]) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        if places.len() > MANY {
            return Ok(rustix::fs::syncfs(root)?);
        }
        places
            .iter()
            .try_for_each(|place| regular_file::open_to_write(&self.temporary(place))?.sync_all())
    }

    fn staged(&self) -> std::sync::MutexGuard<'_, BTreeMap<PathBuf, Digest>> {
        // A map is whole after a panic in another thread, too.
        self.staged.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl ManifestSink for Publisher {
    type Error = BuildError;

    fn published(&self, slug: &Slug) -> Option<&Releases> {
        self.old.plugins.get(slug)
    }

    fn stands(&self, slug: &Slug, release: &Release) -> bool {
        !self.all && self.holds(slug, release)
    }

    /// Writes the manifest under a temporary name, unless it stands in its place already.
    fn take(&self, slug: &Slug, built: BuiltRelease) -> Result<(Digest, bool), BuildError> {
        let bytes = built.manifest.to_bytes();
        let digest = Digest::of(&bytes);
        let place = manifest_path(&self.root, slug, &built.version);
        let held = regular_file::read(&place, MAX_MANIFEST).is_ok_and(|held| held == bytes);
        if self.folder.is_some() && !held {
            let mut staged = self.staged();
            if self.closed.load(Ordering::Relaxed) {
                return Ok((digest, held));
            }

            // Noted first, so that whatever was begun is cleaned up.
            staged.insert(place.clone(), digest);
            drop(staged);
            let temporary = self.temporary(&place);
            let write = || durable_file::write_like_folder(&temporary, &bytes);
            let written = write().or_else(|error| match error.kind() {
                io::ErrorKind::NotFound => {
                    durable_file::create_folders(&self.root.join(slug.as_str()), Access::LikeFolder)
                        .and_then(|()| write())
                }
                _ => Err(error),
            });
            written.map_err(|source| BuildError::write(&place, source))?;
        }
        Ok((digest, held))
    }
}
