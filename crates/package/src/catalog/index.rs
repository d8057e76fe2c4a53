//! `index.json`: every release with the digests of its manifest and its package. Also the layout of `releases/`: paths under it are
//! joined only here, and slugs and versions are safe in a path by construction.
//!
//! The build writes the index last, [`Catalog::load`](crate::catalog::Catalog::load) reads it first.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::catalog::error::CatalogError;
use crate::mark::Places;
use countersign_files::regular_file;
use countersign_model::channel::Channel;
use countersign_model::digest::Digest;
use countersign_model::release_list::ReleaseList;
use countersign_model::slug::Slug;
use countersign_model::version::Version;

/// The contents of `index.json`, by plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseIndex {
    /// The plugins, sorted by slug.
    pub plugins: BTreeMap<Slug, Releases>,
}

/// The releases of one plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Releases {
    /// The newest release that is not a pre-release, if there is one.
    pub latest: Option<Version>,
    /// The newest release for the sites of a channel of pre-releases, where it is newer than `latest`; empty in indexes of older
    /// versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub channels: BTreeMap<Channel, Version>,
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
    /// Digest of the manifest's sources; absent in indexes of older versions. The server ignores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Digest>,
    /// Whether it is a security release; absent if not, and in indexes of older versions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub security: bool,
    /// Digest of the manifest's bytes.
    pub sha256: Digest,
    /// The package; absent if the plugin's entry has a `download_url` instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<HostedPackage>,
    /// What people signed of it; `None` for a release that needed no signatures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed: Option<SignedStatement>,
}

/// The release statement that a release was published with.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedStatement {
    /// Its number.
    pub number: u64,
    /// Digest of its bytes.
    pub statement: Digest,
    /// Digest of the file with its signatures.
    pub signatures: Digest,
}

/// The package of a release: what a download needs, and its sources.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostedPackage {
    /// The number of the normal form it has.
    pub form: u32,
    /// Size in bytes.
    pub size: u64,
    /// Digest of its bytes.
    pub sha256: Digest,
    /// Where its mark is; `None` if downloads have no mark.
    pub mark: Option<Places>,
    /// The id of git's tree of the plugin's folder at the tag, in hex.
    pub tree: String,
    /// Digest of the archive under `packages/` it was made from; absent if it was made from the tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<Digest>,
}

/// What a download needs to know about a package, from the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldPackage {
    /// Size in bytes.
    pub size: u64,
    /// Digest of its bytes.
    pub sha256: Digest,
    /// Where the mark is; `None` if downloads have no mark.
    pub mark: Option<Places>,
}

/// A release that is published.
#[derive(Clone, Debug)]
pub struct PublishedRelease {
    /// Its version.
    pub version: Version,
    /// Whether it is a security release.
    pub security: bool,
    /// Digest of its manifest's bytes.
    pub manifest: Digest,
}

impl From<&Release> for PublishedRelease {
    fn from(release: &Release) -> Self {
        Self {
            version: release.version.clone(),
            security: release.security,
            manifest: release.sha256,
        }
    }
}

impl Release {
    /// Whether the two differ in nothing that sites or people see.
    pub fn shows_the_same(&self, other: &Self) -> bool {
        let Self {
            version,
            tag,
            commit,
            inputs: _,
            security,
            sha256,
            package,
            signed,
        } = self;
        (version, tag, commit, security, sha256, package, signed)
            == (
                &other.version,
                &other.tag,
                &other.commit,
                &other.security,
                &other.sha256,
                &other.package,
                &other.signed,
            )
    }
}

impl Releases {
    /// The releases that sites of this channel may be offered, newest first: its own, and those of all calmer ones.
    pub(super) fn of_channel(&self, channel: Channel) -> impl Iterator<Item = &Release> {
        let is_offered = move |release: &&Release| release.version.channel().is_some_and(|own| own <= channel);
        self.releases.iter().filter(is_offered)
    }

    /// Sets the latest release, and those of the channels, from the list.
    pub fn choose_latest(&mut self) {
        let newest = |channel| self.of_channel(channel).next().map(|release| release.version.clone());
        let latest = newest(Channel::Stable);
        let channels = Channel::PRERELEASES.map(|channel| (channel, newest(channel)));
        let differing = channels.into_iter().filter(|(_, version)| *version != latest);
        self.channels = differing
            .filter_map(|(channel, version)| Some((channel, version?)))
            .collect();
        self.latest = latest;
    }

    /// Checks what a digest does not show: an index of which somebody changed the latest versions alone would take the newest
    /// releases away.
    pub(super) fn check_latest(&self, slug: &Slug, releases: &Path) -> Result<(), CatalogError> {
        let newest = |channel| self.of_channel(channel).next().map(|release| &release.version);
        let mut written = self.channels.iter().map(|(channel, version)| (*channel, Some(version)));
        let is_newest = |(channel, version)| newest(channel) == version;
        match is_newest((Channel::Stable, self.latest.as_ref())) && written.all(is_newest) {
            true => Ok(()),
            false => Err(CatalogError::NotTheLatest {
                path: index_path(releases),
                slug: slug.clone(),
            }),
        }
    }
}

impl ReleaseIndex {
    /// Reads `index.json`, but no manifests; `None` if there is no such file.
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

    /// Checks what a digest does not show: the latest version of each plugin is its newest. `releases` is its folder, for messages.
    ///
    /// # Errors
    /// [`CatalogError::NotTheLatest`]
    pub fn check(&self, releases: &Path) -> Result<(), CatalogError> {
        let mut plugins = self.plugins.iter();
        plugins.try_for_each(|(slug, plugin)| plugin.check_latest(slug, releases))
    }

    /// Whether the two differ in nothing that sites or people see.
    pub fn shows_the_same(&self, other: &Self) -> bool {
        let same = |(a, b): (&Releases, &Releases)| {
            let releases = || a.releases.iter().zip(&b.releases);
            (&a.latest, &a.channels) == (&b.latest, &b.channels)
                && a.releases.len() == b.releases.len()
                && releases().all(|(a, b)| a.shows_the_same(b))
        };
        self.plugins.keys().eq(other.plugins.keys()) && self.plugins.values().zip(other.plugins.values()).all(same)
    }

    /// The bytes of `index.json`: readable in a diff, reproducible, with a final newline.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Checked texts, digests and lists of them always serialize.
        let mut bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }
}

/// The releases that builds have removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemovedReleases {
    /// When a build changed the list.
    pub time: DateTime<Utc>,
    /// The list.
    pub releases: ReleaseList,
}

/// The releases that builds have removed; none if the file is missing or damaged.
pub fn removed_releases(releases: &Path) -> RemovedReleases {
    let bytes = regular_file::read(&removed_path(releases), MAX_INDEX);
    bytes
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default()
}

/// Size limit of an index in bytes: enough for about a quarter of a million releases without packages.
pub const MAX_INDEX: u64 = 64 << 20;

/// Size limit of a manifest in bytes. A build cuts its texts much earlier and never publishes a tenth of it.
pub const MAX_MANIFEST: u64 = 16 << 20;

/// The path of the index.
pub fn index_path(releases: &Path) -> PathBuf {
    releases.join("index.json")
}

/// The path of the list of removed releases.
pub fn removed_path(releases: &Path) -> PathBuf {
    releases.join("removed.json")
}

/// The path of a manifest.
pub fn manifest_path(releases: &Path, slug: &Slug, version: &Version) -> PathBuf {
    releases.join(slug.as_str()).join(format!("{version}.json"))
}

/// The path of a package.
pub fn package_path(releases: &Path, slug: &Slug, version: &Version) -> PathBuf {
    releases.join(slug.as_str()).join(format!("{version}.zip"))
}
