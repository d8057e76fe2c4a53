//! The catalog: the latest release of each plugin in `releases/`, read, verified and held in memory; loaded as a whole, swapped as
//! a whole.
//!
//! The one place that knows how `releases/` is laid out: `index.json` names every manifest with its SHA-256, and
//! `<slug>/<version>.json` are the manifests. The build writes through [`ReleaseIndex`] and [`manifest_path`], the server reads
//! through [`Catalog::load`]. A manifest leaves only against an [`Entitlement`].

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use foldhash::fast::RandomState;

use crate::model::digest::Digest;
use crate::model::entitlement::{Entitlement, NoticeEntitlement};
use crate::model::manifest::LatestRelease;
use crate::model::slug::Slug;
use crate::model::version::Version;
use crate::regular_file;

/// An index larger than this is not read, in bytes: about a quarter of a million releases.
pub const MAX_INDEX: u64 = 64 << 20;

/// A manifest larger than this is not read, in bytes. Its texts are cut long before: no build publishes a tenth of it.
pub const MAX_MANIFEST: u64 = 16 << 20;

/// Where the index stands under `releases/`.
pub fn index_path(releases: &Path) -> PathBuf {
    releases.join("index.json")
}

/// Where a manifest stands under `releases/`. Slugs and versions are safe in a path by construction.
pub fn manifest_path(releases: &Path, slug: &Slug, version: &Version) -> PathBuf {
    releases.join(slug.as_str()).join(format!("{version}.json"))
}

/// The contents of `index.json`, by plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseIndex {
    /// The plugins, sorted by slug.
    pub plugins: std::collections::BTreeMap<Slug, Releases>,
}

/// The releases of one plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Releases {
    /// The newest release that is no pre-release; absent where there is none.
    pub latest: Option<Version>,
    /// Every release, newest first in the order of PHP's `version_compare`.
    pub releases: Vec<Release>,
}

/// One release: a version of a plugin, tied to a tag and a commit.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// The version.
    pub version: Version,
    /// The tag's name.
    pub tag: String,
    /// The commit the tag points at, in hex.
    pub commit: String,
    /// Digest of what the build made the manifest from; absent in what older versions published. The server ignores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Digest>,
    /// Whether it is a security release; absent where it is none, and in what older versions published.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub security: bool,
    /// Digest of the manifest's bytes.
    pub sha256: Digest,
}

impl Release {
    /// Whether sites and people see no difference.
    pub fn shows_the_same(&self, other: &Self) -> bool {
        let Self {
            version,
            tag,
            commit,
            inputs: _,
            security,
            sha256,
        } = self;
        (version, tag, commit, security, sha256)
            == (
                &other.version,
                &other.tag,
                &other.commit,
                &other.security,
                &other.sha256,
            )
    }
}

impl Releases {
    /// The newest release that is no pre-release, and its place among all.
    fn latest_release(&self, slug: &Slug, releases: &Path) -> Result<Option<(usize, &Release)>, CatalogError> {
        let Some(latest) = &self.latest else { return Ok(None) };
        let found = self
            .releases
            .iter()
            .enumerate()
            .find(|(_, release)| release.version == *latest);
        let missing = || CatalogError::NoSuchLatest {
            path: index_path(releases),
            slug: slug.clone(),
        };
        found.map(Some).ok_or_else(missing)
    }
}

impl ReleaseIndex {
    /// Reads `index.json` without looking at the manifests; `None` where there is no such file.
    pub fn read(releases: &Path) -> Result<Option<Self>, CatalogError> {
        let path = index_path(releases);
        match regular_file::read(&path, MAX_INDEX) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|source| CatalogError::Index { path, source }),
            Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(CatalogError::Read { path, source }),
        }
    }

    /// Whether sites and people see no difference.
    pub fn shows_the_same(&self, other: &Self) -> bool {
        let same = |(a, b): (&Releases, &Releases)| {
            let releases = || a.releases.iter().zip(&b.releases);
            a.latest == b.latest && a.releases.len() == b.releases.len() && releases().all(|(a, b)| a.shows_the_same(b))
        };
        self.plugins.keys().eq(other.plugins.keys()) && self.plugins.values().zip(other.plugins.values()).all(same)
    }

    /// The bytes of `index.json`: for people to read in a diff, repeatable, with a final newline.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Checked texts, digests and lists of them: nothing in it can fail to serialize.
        let mut bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }
}

/// A published manifest's bytes, for the vendor's own eyes: verified, and to be compared with what a build would publish.
///
/// The server has no use for it: a site gets a manifest from the [`Catalog`], against an [`Entitlement`].
pub fn published_manifest(releases: &Path, slug: &Slug, release: &Release) -> Result<Vec<u8>, CatalogError> {
    read_manifest(releases, slug, release)
}

/// Verifies every manifest that the index names, those too that no site may get any more. Returns how many there are.
pub fn verify_all(releases: &Path) -> Result<usize, CatalogError> {
    let (root, index) = open(releases)?;
    let mut count = 0;
    for (slug, plugin) in &index.plugins {
        plugin.latest_release(slug, &root)?;
        for release in &plugin.releases {
            read_manifest(&root, slug, release)?;
            count += 1;
        }
    }
    Ok(count)
}

/// The folder and its index. The folder is resolved once, so that a `releases` which is a symbolic link and is swapped meanwhile is
/// read whole from one side.
fn open(releases: &Path) -> Result<(PathBuf, ReleaseIndex), CatalogError> {
    let no_index = || CatalogError::NoIndex {
        path: index_path(releases),
    };
    let root = match releases.canonicalize() {
        Ok(root) => root,
        Err(source) if source.kind() == io::ErrorKind::NotFound => return Err(no_index()),
        Err(source) => {
            return Err(CatalogError::Read {
                path: releases.to_owned(),
                source,
            });
        }
    };
    let index = ReleaseIndex::read(&root)?.ok_or_else(no_index)?;
    Ok((root, index))
}

fn read_manifest(releases: &Path, slug: &Slug, release: &Release) -> Result<Vec<u8>, CatalogError> {
    let path = manifest_path(releases, slug, &release.version);
    let bytes = regular_file::read(&path, MAX_MANIFEST).map_err(|source| CatalogError::Read {
        path: path.clone(),
        source,
    })?;
    if Digest::of(&bytes) == release.sha256 {
        Ok(bytes)
    } else {
        Err(CatalogError::Differs { path })
    }
}

/// The latest release of each plugin in memory.
#[derive(Debug, Default)]
pub struct Catalog {
    plugins: HashMap<Slug, ServedRelease, RandomState>,
    releases: usize,
}

/// What is held of one plugin: its latest release, ready to be sent.
#[derive(Debug)]
struct ServedRelease {
    version: Version,
    manifest: Bytes,
    /// The newest security release up to this one.
    security: Option<Version>,
}

/// Why `releases/` could not be taken over. The catalog held before stays in use.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// There is no `index.json`: nothing was built yet, or it is just being replaced.
    #[error("{}: there is no index", path.display())]
    NoIndex {
        /// The file.
        path: PathBuf,
    },
    /// A file cannot be read.
    #[error("{}: cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The index is not what `countersign build` writes.
    #[error("{}:{}:{}: not an index", path.display(), source.line(), source.column())]
    Index {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        source: serde_json::Error,
    },
    /// A manifest is not the one the index names: it was edited, or a build is under way.
    #[error("{}: its SHA-256 is not the one in the index", path.display())]
    Differs {
        /// The file.
        path: PathBuf,
    },
    /// The index names a latest version that is none of its releases.
    #[error("{}: the latest version of {slug} is not among its releases", path.display())]
    NoSuchLatest {
        /// The index.
        path: PathBuf,
        /// The plugin.
        slug: Slug,
    },
}

impl Catalog {
    /// Reads the index and the latest manifest of each plugin, and verifies its digest. [`verify_all`] looks at the others, which no
    /// site may get.
    pub fn load(releases: &Path) -> Result<Self, CatalogError> {
        let (root, index) = open(releases)?;
        let mut catalog = Self::default();
        for (slug, plugin) in index.plugins {
            catalog.releases += plugin.releases.len();
            let Some((place, latest)) = plugin.latest_release(&slug, &root)? else {
                continue;
            };
            let manifest = Bytes::from(read_manifest(&root, &slug, latest)?);
            // Newest first; a pre-release that is newer than the latest is offered to nobody.
            let mut offered = plugin.releases[place..]
                .iter()
                .filter(|release| !release.version.is_prerelease());
            let security = offered
                .find(|release| release.security)
                .map(|release| release.version.clone());
            catalog.plugins.insert(
                slug,
                ServedRelease {
                    version: latest.version.clone(),
                    manifest,
                    security,
                },
            );
        }
        Ok(catalog)
    }

    /// The latest manifest, if it is newer than what the caller has; `None` means there is no update.
    ///
    /// Without a `current` version the caller wants the full answer. The bytes are the file's, untouched and not
    /// copied.
    pub fn manifest(&self, entitlement: &Entitlement<'_>, current: Option<&Version>) -> Option<Bytes> {
        let held = self.plugins.get(entitlement.slug())?;
        let up_to_date = current.is_some_and(|current| current.cmp_php(&held.version).is_ge());
        (!up_to_date).then(|| held.manifest.clone())
    }

    /// The latest release, if it is newer than what the caller has. It is marked where the caller lacks a security release.
    pub fn latest(&self, entitled: &NoticeEntitlement<'_>, current: Option<&Version>) -> Option<LatestRelease> {
        let held = self.plugins.get(entitled.slug())?;
        let is_newer = |version: &Version| current.is_none_or(|current| current.cmp_php(version).is_lt());
        let security = held.security.as_ref().is_some_and(is_newer);
        is_newer(&held.version).then(|| LatestRelease {
            version: held.version.clone(),
            security,
        })
    }

    /// How many releases the index names.
    pub fn releases(&self) -> usize {
        self.releases
    }
}
