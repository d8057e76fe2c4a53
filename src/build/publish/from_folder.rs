//! Publishes a folder of releases that a build made elsewhere, as another machine's CI does.
//!
//! The files come as they would from a build: each is copied beside its place, the copy is compared with the index, and
//! [`Publisher`] puts all of them into place, the index last. A release that is published here goes or changes only if somebody
//! says so: the folder came from outside, and may be that of an older pipeline.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::{self, Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use crate::build::error::BuildError;
use crate::build::manifest_sink::ManifestSink as _;
use crate::build::publish::Publisher;
use crate::build::report::listing::{counted, listed};
use countersign_files::regular_file;
use countersign_model::digest::Digest;
use countersign_model::release_list::ReleaseList;
use countersign_model::slug::Slug;
use countersign_model::version::Version;
use countersign_package::MAX_PACKED;
use countersign_package::catalog::{
    CatalogError, HostedPackage, LinkPlaces, MAX_MANIFEST, Release, ReleaseIndex, index_path, manifest_path,
    package_path, verify_package,
};
use countersign_package::file_digest::digest_of;

/// What to publish, and where.
pub struct FolderOptions<'a> {
    /// The folder with the new index and its files.
    pub from: PathBuf,
    /// The folder to publish to.
    pub to: PathBuf,
    /// Write nothing, only verify and report.
    pub check: bool,
    /// Published releases that may be missing or have another package.
    pub withdraw: ReleaseList,
    /// Whether the registry withholds a release; such a one may be missing.
    pub is_withheld: &'a dyn Fn(&Slug, &Version) -> bool,
    /// How long to wait for another publication.
    pub patience: Duration,
}

/// Why a folder was not published. The published files are unchanged, except if the message names one of them.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// As for a build.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The folder lacks an index, or a file in it is not as the index says.
    #[error("this folder cannot be published")]
    Unsound(#[source] CatalogError),
    /// One of the two folders is in the other, or they are the same.
    #[error("{} and {} must be two folders, neither in the other", from.display(), to.display())]
    Nested {
        /// The folder to read.
        from: PathBuf,
        /// The folder to publish to.
        to: PathBuf,
    },
    /// Published releases would go or change.
    #[error("{}: {}", index.display(), taken_back(lacking, changing))]
    TakesBack {
        /// The new index.
        index: PathBuf,
        /// Those that it lacks.
        lacking: Vec<PublishedName>,
        /// Those that have another package in it.
        changing: Vec<PublishedName>,
    },
    /// Releases that were to be withdrawn are in the new index as they are published.
    #[error("{}: still has {} as published", index.display(), listed(releases))]
    NotWithdrawn {
        /// The new index.
        index: PathBuf,
        /// The releases.
        releases: Vec<PublishedName>,
    },
}

fn taken_back(lacking: &[PublishedName], changing: &[PublishedName]) -> String {
    let of = |verb, releases: &[PublishedName]| {
        let count = counted(releases.len(), "published release");
        (!releases.is_empty()).then(|| format!("{verb} {count} ({})", listed(releases)))
    };
    let parts = [of("lacks", lacking), of("changes the package of", changing)];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", and ")
}

/// A release as `--withdraw` and reports name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct PublishedName {
    /// The plugin.
    pub plugin: Slug,
    /// The version.
    pub version: Version,
}

impl fmt::Display for PublishedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.plugin, self.version)
    }
}

/// What publishing did, or would do with `--check`. Each list in the order of the index.
#[derive(Debug, Serialize)]
pub struct FolderReport {
    /// Whether nothing was written.
    pub check: bool,
    /// Whether a published file changes.
    pub differs: bool,
    /// Releases that are new here.
    pub added: Vec<PublishedName>,
    /// Releases whose manifest or package changes.
    pub changed: Vec<PublishedName>,
    /// Releases that are no longer published.
    pub removed: Vec<PublishedName>,
    /// Releases of which a published file was missing or damaged, and is put back.
    pub restored: Vec<PublishedName>,
    /// How many releases stay as they are.
    pub unchanged: usize,
}

/// Verifies the folder, and publishes it unless it is only to be checked.
pub fn publish_folder(options: &FolderOptions<'_>) -> Result<FolderReport, FolderError> {
    let unreadable = |source| {
        FolderError::Unsound(CatalogError::Read {
            path: options.from.clone(),
            source,
        })
    };
    // If it is a symbolic link that is replaced meanwhile, everything comes from one side.
    let from = options.from.canonicalize().map_err(unreadable)?;
    if let Ok(to) = options.to.canonicalize()
        && (to.starts_with(&from) || from.starts_with(&to))
    {
        return Err(FolderError::Nested {
            from: options.from.clone(),
            to: options.to.clone(),
        });
    }
    let index = ReleaseIndex::read(&from).map_err(FolderError::Unsound)?;
    let index = index.ok_or_else(|| {
        FolderError::Unsound(CatalogError::NoIndex {
            path: index_path(&options.from),
        })
    })?;
    index.check(&from).map_err(FolderError::Unsound)?;
    let publisher = Publisher::open(&options.to, options.check, false)?;
    let done = publish_index(&publisher, &from, &index, options);
    publisher.close();
    done
}

fn publish_index(
    publisher: &Publisher,
    from: &Path,
    index: &ReleaseIndex,
    options: &FolderOptions<'_>,
) -> Result<FolderReport, FolderError> {
    let publication = publisher.lock(None, options.patience)?;
    let mut report = compare(publication.old(), index, from, options)?;
    let listed: HashSet<PublishedName> = report.added.iter().chain(&report.changed).cloned().collect();
    for (slug, releases) in &index.plugins {
        for release in &releases.releases {
            let manifest = bring_manifest(publisher, from, slug, release)?;
            let package = match &release.package {
                Some(package) => bring_package(publisher, from, slug, release, package)?,
                None => false,
            };
            let name = name(slug, release);
            if (manifest || package) && !listed.contains(&name) {
                report.restored.push(name);
            }
        }
    }
    report.unchanged -= report.restored.len();
    report.differs = !report.restored.is_empty() || publisher.index_changes(index);
    publisher.publish(&publication, index, true, None)?;
    Ok(report)
}

/// What changes from one index to the other, if all of it may.
fn compare(
    old: &ReleaseIndex,
    new: &ReleaseIndex,
    from: &Path,
    options: &FolderOptions<'_>,
) -> Result<FolderReport, FolderError> {
    let mut report = FolderReport {
        check: options.check,
        differs: false,
        added: Vec::new(),
        changed: Vec::new(),
        removed: Vec::new(),
        restored: Vec::new(),
        unchanged: 0,
    };
    let published = by_name(old);
    let coming = by_name(new);
    let mut lacking = Vec::new();
    let mut changing = Vec::new();
    let mut not_withdrawn = Vec::new();
    for (slug, releases) in &old.plugins {
        for release in &releases.releases {
            let name = name(slug, release);
            let is_named = options.withdraw.has(slug, &release.version);
            let Some(next) = coming.get(&(slug, &release.version)) else {
                if !is_named && !(options.is_withheld)(slug, &release.version) {
                    lacking.push(name.clone());
                }
                report.removed.push(name);
                continue;
            };
            let digest = |release: &Release| release.package.as_ref().map(|package| package.sha256);
            // A change of the entry, such as another name, makes other manifests of all releases.
            match release.package.is_some() && digest(release) != digest(next) {
                true if !is_named => changing.push(name.clone()),
                false if is_named => not_withdrawn.push(name.clone()),
                _ => {}
            }
            match release.shows_the_same(next) {
                true => report.unchanged += 1,
                false => report.changed.push(name),
            }
        }
    }
    for (slug, releases) in &new.plugins {
        let is_new = |release: &&Release| !published.contains_key(&(slug, &release.version));
        let added = releases.releases.iter().filter(is_new);
        report.added.extend(added.map(|release| name(slug, release)));
    }
    let index = index_path(from);
    match (lacking.is_empty() && changing.is_empty(), not_withdrawn.is_empty()) {
        (true, true) => Ok(report),
        (true, false) => Err(FolderError::NotWithdrawn {
            index,
            releases: not_withdrawn,
        }),
        (false, _) => Err(FolderError::TakesBack {
            index,
            lacking,
            changing,
        }),
    }
}

fn name(slug: &Slug, release: &Release) -> PublishedName {
    PublishedName {
        plugin: slug.clone(),
        version: release.version.clone(),
    }
}

fn by_name(index: &ReleaseIndex) -> HashMap<(&Slug, &Version), &Release> {
    let plugins = index.plugins.iter();
    let releases = plugins.flat_map(|(slug, plugin)| plugin.releases.iter().map(move |release| (slug, release)));
    releases
        .map(|(slug, release)| ((slug, &release.version), release))
        .collect()
}

/// Verifies a manifest that is not in place, and writes it beside its place. Whether it was not in place.
fn bring_manifest(publisher: &Publisher, from: &Path, slug: &Slug, release: &Release) -> Result<bool, FolderError> {
    if publisher.holds_manifest(slug, release) {
        return Ok(false);
    }
    let path = manifest_path(from, slug, &release.version);
    let bytes = match regular_file::read(&path, MAX_MANIFEST) {
        Ok(bytes) => bytes,
        Err(source) => return Err(FolderError::Unsound(CatalogError::Read { path, source })),
    };
    if Digest::of(&bytes) != release.sha256 {
        return Err(FolderError::Unsound(CatalogError::Differs { path }));
    }
    if release.package.is_some() && LinkPlaces::of(&bytes).is_none() {
        return Err(FolderError::Unsound(CatalogError::Links { path }));
    }
    if publisher.folder.is_some() {
        let place = manifest_path(&publisher.root, slug, &release.version);
        let written = publisher.staging.write(&place, release.sha256, &bytes);
        written.map_err(|source| BuildError::write(&place, source))?;
    }
    Ok(true)
}

/// Copies a package that is not in place beside its place, and verifies the copy. Whether it was not in place.
fn bring_package(
    publisher: &Publisher,
    from: &Path,
    slug: &Slug,
    release: &Release,
    package: &HostedPackage,
) -> Result<bool, FolderError> {
    if publisher.holds_package(slug, release) {
        return Ok(false);
    }
    let path = package_path(from, slug, &release.version);
    if publisher.folder.is_none() {
        verify_package(&path, package, |_| ()).map_err(FolderError::Unsound)?;
        return Ok(true);
    }
    let place = package_path(&publisher.root, slug, &release.version);
    let failed = |source| BuildError::write(&place, source);
    let Some(mut copy) = publisher.staging.create(&place).map_err(failed)? else {
        return Ok(true);
    };
    let unreadable = |source| {
        FolderError::Unsound(CatalogError::Read {
            path: path.clone(),
            source,
        })
    };
    let original = regular_file::open(&path, MAX_PACKED).map_err(unreadable)?;
    let found = original.metadata().map_err(unreadable)?.len();
    if found != package.size {
        return Err(FolderError::Unsound(CatalogError::Size {
            path,
            found,
            expected: package.size,
        }));
    }
    // Somebody may still be writing the original, so what is compared is the copy.
    io::copy(&mut original.take(package.size), &mut copy).map_err(failed)?;
    copy.rewind().map_err(failed)?;
    if digest_of(&copy, |_| ()).map_err(failed)? != package.sha256 {
        return Err(FolderError::Unsound(CatalogError::Differs { path }));
    }
    publisher.staging.finish(&place, package.sha256);
    Ok(true)
}
