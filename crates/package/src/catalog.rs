//! The catalog: the latest release of each plugin in `releases/`, and the packages of all releases, in memory.
//!
//! It is loaded and replaced as a whole: if a latest manifest has the wrong digest, such as a torn one, the server keeps
//! the catalog it has. `layout` has the paths; [`ReleaseIndex`] lists what is published. The server reads through
//! [`Catalog::load`], and gets manifests and packages only with an [`Entitlement`].

mod error;
mod index;
mod layout;
mod link_places;
mod published_name;
mod removed;
mod verify;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use foldhash::fast::RandomState;

use crate::mark::Places;
use countersign_model::digest::Digest;
use countersign_model::entitlement::{Entitlement, FirstCopyEntitlement, NoticeEntitlement};
use countersign_model::manifest::LatestRelease;
use countersign_model::release_list::ReleaseList;
use countersign_model::slug::Slug;
use countersign_model::version::Version;

use published_name::name_in;

pub use error::CatalogError;
pub use index::{HostedPackage, Release, ReleaseIndex, Releases, SignedStatement};
pub use layout::{MAX_INDEX, MAX_MANIFEST, index_path, manifest_path, package_path, removed_path};
pub use link_places::LinkPlaces;
pub use published_name::published_name;
pub use removed::{RemovedReleases, removed_releases};
pub use verify::{published_manifest, verify_all, verify_package, verify_packages};

/// The latest release of each plugin, and the packages of all releases.
#[derive(Debug, Default)]
pub struct Catalog {
    root: PathBuf,
    plugins: HashMap<Slug, ServedRelease, RandomState>,
    packages: HashMap<Slug, HashMap<Version, HeldPackage, RandomState>, RandomState>,
    releases: ReleaseList,
}

/// The latest release of one plugin, ready to be sent.
#[derive(Debug)]
struct ServedRelease {
    offered: Offered,
    /// The plugin's name in the manifest.
    name: Option<String>,
    /// The newest security release that is not newer than the latest.
    security: Option<Version>,
}

/// The manifest of a plugin's latest release.
#[derive(Clone, Debug)]
pub struct Offered {
    /// The release's version.
    pub version: Version,
    /// The manifest, byte for byte as published.
    pub manifest: Bytes,
    /// Where to insert the links to the package; `None` if the manifest is sent unchanged.
    pub links: Option<LinkPlaces>,
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

/// A package that was found by its plugin.
#[derive(Debug)]
pub struct FoundPackage<'a> {
    /// Its release.
    pub version: &'a Version,
    /// Where it stands.
    pub path: PathBuf,
    /// What it is.
    pub package: &'a HeldPackage,
}

impl Catalog {
    /// Reads the index and the latest manifest of each plugin, and verifies the manifests' digests. [`verify_all`]
    /// verifies the other manifests, and [`verify_packages`] the packages.
    pub fn load(releases: &Path) -> Result<Self, CatalogError> {
        let (root, index) = verify::open(releases)?;
        let mut catalog = Self::default();
        for (slug, plugin) in index.plugins {
            for release in &plugin.releases {
                catalog.releases.add(&slug, &release.version);
            }
            let packages = held_packages(&plugin);
            if !packages.is_empty() {
                catalog.packages.insert(slug.clone(), packages);
            }
            let Some((place, latest)) = plugin.latest_release(&slug, &root)? else {
                continue;
            };
            let offered = offered(&root, &slug, latest)?;
            // Newest first. A pre-release that is newer than the latest is never offered.
            let mut offerable = plugin.releases[place..]
                .iter()
                .filter(|release| !release.version.is_prerelease());
            let security = offerable
                .find(|release| release.security)
                .map(|release| release.version.clone());
            let served = ServedRelease {
                name: name_in(&offered.manifest),
                offered,
                security,
            };
            catalog.plugins.insert(slug, served);
        }
        catalog.root = root;
        Ok(catalog)
    }

    /// The latest manifest, if it is newer than what the caller has; `None` means there is no update.
    ///
    /// Without a `current` version the caller gets the full answer. The bytes are the file's, and are not copied.
    pub fn manifest(&self, entitlement: &Entitlement<'_>, current: Option<&Version>) -> Option<&Offered> {
        let offered = &self.plugins.get(entitlement.slug())?.offered;
        let up_to_date = current.is_some_and(|current| current.cmp_php(&offered.version).is_ge());
        (!up_to_date).then_some(offered)
    }

    /// The folder of releases.
    pub fn folder(&self) -> &Path {
        &self.root
    }

    /// The package of a published release, and its path; `None` if there is no such release or it has no package.
    pub fn package(&self, entitlement: &Entitlement<'_>, version: &Version) -> Option<(PathBuf, &HeldPackage)> {
        let slug = entitlement.slug();
        let package = self.packages.get(slug)?.get(version)?;
        Some((package_path(&self.root, slug, version), package))
    }

    /// The newest package of a stable release that `is_wanted`, for a first copy; `None` if there is none.
    pub fn newest_package(
        &self,
        entitlement: &FirstCopyEntitlement<'_>,
        is_wanted: impl Fn(&Version) -> bool,
    ) -> Option<FoundPackage<'_>> {
        let slug = entitlement.slug();
        let stable = self.packages.get(slug)?.iter();
        let stable = stable.filter(|(version, _)| !version.is_prerelease() && is_wanted(version));
        let (version, package) = stable.max_by(|(one, _), (other, _)| one.cmp_php(other))?;
        Some(FoundPackage {
            version,
            path: package_path(&self.root, slug, version),
            package,
        })
    }

    /// The latest release, if it is newer than what the caller has. Marked if the caller lacks a security release.
    pub fn latest(&self, entitled: &NoticeEntitlement<'_>, current: Option<&Version>) -> Option<LatestRelease> {
        let held = self.plugins.get(entitled.slug())?;
        let is_newer = |version: &Version| current.is_none_or(|current| current.cmp_php(version).is_lt());
        let security = held.security.as_ref().is_some_and(is_newer);
        is_newer(&held.offered.version).then(|| LatestRelease {
            version: held.offered.version.clone(),
            security,
        })
    }

    /// The latest release of a plugin; `None` if no release is published.
    pub fn newest(&self, slug: &Slug) -> Option<&Version> {
        Some(&self.plugins.get(slug)?.offered.version)
    }

    /// The plugin's name in its latest release, as sites show it; `None` if no release is published.
    pub fn plugin_name(&self, slug: &Slug) -> Option<&str> {
        self.plugins.get(slug)?.name.as_deref()
    }

    /// The releases in the index.
    pub fn releases(&self) -> &ReleaseList {
        &self.releases
    }

    /// The number of releases with a package.
    pub fn packages(&self) -> usize {
        self.packages.values().map(HashMap::len).sum()
    }
}

/// The manifest of a latest release, and where to insert its links.
fn offered(root: &Path, slug: &Slug, latest: &Release) -> Result<Offered, CatalogError> {
    let manifest = Bytes::from(verify::read_manifest(root, slug, latest)?);
    let links = match &latest.package {
        None => None,
        Some(_) => Some(LinkPlaces::of(&manifest).ok_or_else(|| CatalogError::Links {
            path: manifest_path(root, slug, &latest.version),
        })?),
    };
    Ok(Offered {
        version: latest.version.clone(),
        manifest,
        links,
    })
}

fn held_packages(plugin: &Releases) -> HashMap<Version, HeldPackage, RandomState> {
    let held = |release: &Release| {
        let package = release.package.as_ref()?;
        let held = HeldPackage {
            size: package.size,
            sha256: package.sha256,
            mark: package.mark,
        };
        Some((release.version.clone(), held))
    };
    plugin.releases.iter().filter_map(held).collect()
}
