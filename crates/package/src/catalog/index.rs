//! `index.json`: every release with the digests of its manifest and its package.
//!
//! The build writes it last, [`Catalog::load`](crate::catalog::Catalog::load) reads it first.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use crate::catalog::error::CatalogError;
use crate::catalog::layout::{MAX_INDEX, index_path};
use crate::mark::Places;
use countersign_files::regular_file;
use countersign_model::digest::Digest;
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
    /// The newest release that is not a pre-release, and its position among all.
    pub(super) fn latest_release(
        &self,
        slug: &Slug,
        releases: &Path,
    ) -> Result<Option<(usize, &Release)>, CatalogError> {
        let mut offerable = self.releases.iter().enumerate();
        let newest = offerable.find(|(_, release)| !release.version.is_prerelease());
        // An index of which somebody changed this alone would take the newest release away.
        match newest.map(|(_, release)| &release.version) == self.latest.as_ref() {
            true => Ok(newest),
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
        plugins.try_for_each(|(slug, plugin)| plugin.latest_release(slug, releases).map(|_| ()))
    }

    /// Whether the two differ in nothing that sites or people see.
    pub fn shows_the_same(&self, other: &Self) -> bool {
        let same = |(a, b): (&Releases, &Releases)| {
            let releases = || a.releases.iter().zip(&b.releases);
            a.latest == b.latest && a.releases.len() == b.releases.len() && releases().all(|(a, b)| a.shows_the_same(b))
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
