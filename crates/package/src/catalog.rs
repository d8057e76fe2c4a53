//! The catalog: the latest release of each plugin and channel in `releases/`, and the packages of all releases, in memory.
//!
//! It is loaded and replaced as a whole: if a latest manifest has the wrong digest, such as a torn one, the server keeps
//! the catalog it has. [`ReleaseIndex`] lists what is published, and `index` has the paths, too. The server reads through
//! [`Catalog::load`], and gets manifests and packages only with an [`Entitlement`].

mod composer;
mod error;
mod index;
mod manifest;
mod verify;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use bytes::Bytes;
use enum_map::EnumMap;
use foldhash::fast::RandomState;
use serde::Deserialize;

use countersign_model::channel::Channel;
use countersign_model::entitlement::{
    ComposerEntitlement, Entitlement, FirstCopyEntitlement, NoticeEntitlement, SecurityEntitlement,
};
use countersign_model::manifest::{LatestRelease, ReleaseProof};
use countersign_model::release_list::ReleaseList;
use countersign_model::slug::Slug;
use countersign_model::version::Version;

use manifest::{name_in, read_manifest};

pub use composer::{ComposerRelease, CopyDigests};
pub use error::CatalogError;
pub use index::{
    HeldPackage, HostedPackage, MAX_INDEX, MAX_MANIFEST, PublishedRelease, Release, ReleaseIndex, Releases,
    RemovedReleases, SignedStatement, index_path, manifest_path, package_path, removed_path, removed_releases,
};
pub use manifest::{LinkPlaces, published_manifest, published_name};
pub use verify::{verify_all, verify_package, verify_packages};

/// The latest releases of each plugin, and the packages of all releases.
#[derive(Debug, Default)]
pub struct Catalog {
    root: PathBuf,
    plugins: HashMap<Slug, ServedPlugin, RandomState>,
    packages: HashMap<Slug, HashMap<Version, HeldPackage, RandomState>, RandomState>,
    releases: ReleaseList,
}

/// The releases of one plugin. The latest are ready to be sent.
#[derive(Debug, Default)]
struct ServedPlugin {
    /// The plugin's name in the manifest of its latest release.
    name: Option<String>,
    /// Newest first.
    releases: Vec<PublishedRelease>,
    /// What sites of a channel are offered.
    latest: EnumMap<Channel, Option<Offered>>,
    /// The release of the channel before that, if the plugin's releases come in steps.
    before: OnceLock<EnumMap<Channel, Option<Offered>>>,
    /// What the list of releases to go back to shows of each of `releases`, once somebody has asked.
    listed: Vec<OnceLock<Option<ListedRelease>>>,
    /// What Composer learns of the releases, once somebody has asked.
    composer: OnceLock<Vec<ComposerRelease>>,
}

/// The manifest of a release, for a site.
#[derive(Clone, Debug)]
pub struct Offered {
    /// The release's version.
    pub version: Version,
    /// Whether it is a security release.
    pub security: bool,
    /// The manifest, byte for byte as published.
    pub manifest: Bytes,
    /// Where to insert the links to the package; `None` if the manifest is sent unchanged.
    pub links: Option<LinkPlaces>,
}

/// What the list of releases to go back to shows of a manifest, and what people signed of the release.
#[derive(Clone, Debug, Deserialize)]
pub struct ListedRelease {
    /// `2026-11-20 10:17:03`, in UTC.
    pub last_updated: String,
    /// The proof, where people signed it.
    #[serde(default)]
    pub release: Option<ReleaseProof>,
}

/// A package that was found by its plugin.
#[derive(Debug)]
pub struct FoundPackage<'a> {
    /// Its release.
    pub version: &'a Version,
    /// Its file.
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
            plugin.check_latest(&slug, &root)?;
            catalog.plugins.insert(slug.clone(), served(&root, &slug, &plugin)?);
        }
        catalog.root = root;
        Ok(catalog)
    }

    /// The latest manifest of a channel, if it is newer than what the caller has; `None` means there is no update.
    ///
    /// Without a `current` version the caller gets the full answer. The bytes are the file's, and are not copied.
    pub fn manifest(
        &self,
        entitlement: &Entitlement<'_>,
        channel: Channel,
        current: Option<&Version>,
    ) -> Option<&Offered> {
        let latest = self.plugins.get(entitlement.slug())?.latest[channel].as_ref()?;
        newer(latest, current)
    }

    /// The manifest of the channel's release before the latest, if it is newer than what the caller has; `None` before
    /// [`read_before`](Self::read_before).
    pub fn manifest_before(
        &self,
        entitlement: &Entitlement<'_>,
        channel: Channel,
        current: Option<&Version>,
    ) -> Option<&Offered> {
        let before = self.plugins.get(entitlement.slug())?.before.get()?[channel].as_ref()?;
        newer(before, current)
    }

    /// Reads the manifest of any published release, and verifies its digest; `None` if that version is not published. It waits for
    /// the disk.
    ///
    /// # Errors
    /// The file cannot be read or differs from the index.
    pub fn manifest_of(
        &self,
        entitlement: &Entitlement<'_>,
        version: &Version,
    ) -> Result<Option<Offered>, CatalogError> {
        self.read_manifest(entitlement.slug(), version)
    }

    /// Reads the manifest of a security release, as [`Self::manifest_of`].
    ///
    /// # Errors
    /// The file cannot be read or differs from the index.
    pub fn security_manifest(
        &self,
        entitlement: &SecurityEntitlement<'_>,
        version: &Version,
    ) -> Result<Option<Offered>, CatalogError> {
        self.read_manifest(entitlement.slug(), version)
    }

    /// Reads the manifests of a plugin's releases before the latest, unless that was done. Only sites that wait for the latest get them.
    /// Without one they wait with what they have. It waits for the disk.
    pub fn read_before(&self, slug: &Slug) {
        let Some(plugin) = self.plugins.get(slug) else { return };
        plugin.before.get_or_init(|| {
            let mut read: Vec<Offered> = Vec::new();
            EnumMap::from_fn(|channel| {
                let is_offered =
                    |release: &&PublishedRelease| release.version.channel().is_some_and(|own| own <= channel);
                let release = plugin.releases.iter().filter(is_offered).nth(1)?;
                // Channels share the bytes.
                let latest = plugin.latest.values().flatten();
                let known = latest.chain(&read).find(|known| known.version == release.version);
                if let Some(known) = known {
                    return Some(known.clone());
                }
                let is_hosted = self.hosts(slug, &release.version);
                let offered = offered(&self.root, slug, release, is_hosted).ok()?;
                read.push(offered.clone());
                Some(offered)
            })
        });
    }

    /// What the list of releases to go back to shows of a release; `None` if that version is not published, or its manifest does not
    /// say it. Waits for the disk when it is first asked.
    ///
    /// # Errors
    /// The file cannot be read or differs from the index.
    pub fn listed(
        &self,
        entitlement: &Entitlement<'_>,
        version: &Version,
    ) -> Result<Option<&ListedRelease>, CatalogError> {
        self.listed_of(entitlement.slug(), version)
    }

    fn listed_of(&self, slug: &Slug, version: &Version) -> Result<Option<&ListedRelease>, CatalogError> {
        let found = self.plugins.get(slug).and_then(|plugin| {
            let place = plugin.releases.iter().position(|release| release.version == *version)?;
            Some((&plugin.releases[place], &plugin.listed[place]))
        });
        let Some((release, listed)) = found else {
            return Ok(None);
        };
        if let Some(read) = listed.get() {
            return Ok(read.as_ref());
        }
        let bytes = read_manifest(&self.root, slug, version, &release.manifest)?;
        let read = serde_json::from_slice(&bytes).ok();
        Ok(listed.get_or_init(|| read).as_ref())
    }

    fn read_manifest(&self, slug: &Slug, version: &Version) -> Result<Option<Offered>, CatalogError> {
        let published = self.published(slug).iter().find(|release| release.version == *version);
        let is_hosted = self.hosts(slug, version);
        published
            .map(|release| offered(&self.root, slug, release, is_hosted))
            .transpose()
    }

    /// Whether this server has the package of a release.
    pub fn hosts(&self, slug: &Slug, version: &Version) -> bool {
        self.packages
            .get(slug)
            .is_some_and(|packages| packages.contains_key(version))
    }

    /// The published releases of a plugin, newest first.
    pub fn published(&self, slug: &Slug) -> &[PublishedRelease] {
        self.plugins.get(slug).map_or(&[], |plugin| &plugin.releases)
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

    /// The package of a security release, as [`Self::package`].
    pub fn security_package(
        &self,
        entitlement: &SecurityEntitlement<'_>,
        version: &Version,
    ) -> Option<(PathBuf, &HeldPackage)> {
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

    /// The releases that the entitlement includes with Composer, newest first. Waits for the disk when it is first asked.
    ///
    /// # Errors
    /// A manifest cannot be read or differs from the index.
    pub fn composer_releases(
        &self,
        entitlement: &ComposerEntitlement<'_>,
    ) -> Result<impl Iterator<Item = &ComposerRelease>, CatalogError> {
        let slug = entitlement.slug();
        let releases = match self.plugins.get(slug) {
            None => &[][..],
            Some(plugin) => match plugin.composer.get() {
                Some(read) => read,
                None => {
                    let package = |version: &Version| self.packages.get(slug)?.get(version).copied();
                    let read = composer::releases(&self.root, slug, &plugin.releases, package)?;
                    plugin.composer.get_or_init(|| read)
                }
            },
        };
        Ok(releases.iter().filter(|release| release.is_for(entitlement)))
    }

    /// Where a release's package is.
    pub fn composer_path(&self, entitlement: &ComposerEntitlement<'_>, release: &ComposerRelease) -> PathBuf {
        package_path(&self.root, entitlement.slug(), &release.version)
    }

    /// The plugins with packages, sorted by slug. Everybody may know them.
    pub fn hosted_plugins(&self) -> Vec<&Slug> {
        let mut slugs: Vec<_> = self.packages.keys().collect();
        slugs.sort_unstable();
        slugs
    }

    /// The latest release, if it is newer than what the caller has. Marked if the caller lacks a security release.
    pub fn latest(&self, entitled: &NoticeEntitlement<'_>, current: Option<&Version>) -> Option<LatestRelease> {
        let held = self.plugins.get(entitled.slug())?;
        let latest = &newer(held.latest[Channel::Stable].as_ref()?, current)?.version;
        let is_lacking = |release: &&PublishedRelease| {
            let is_newer = |version: &Version| current.is_none_or(|current| current.cmp_php(version).is_lt());
            let is_stable = release.version.channel() == Some(Channel::Stable);
            release.security && is_stable && is_newer(&release.version)
        };
        Some(LatestRelease {
            version: latest.clone(),
            security: held.releases.iter().any(|release| is_lacking(&release)),
        })
    }

    /// The latest release of a plugin; `None` if no release is published.
    pub fn newest(&self, slug: &Slug) -> Option<&Version> {
        self.newest_of(slug, Channel::Stable)
    }

    /// The latest release of a plugin for the sites of a channel; `None` if there is none.
    pub fn newest_of(&self, slug: &Slug, channel: Channel) -> Option<&Version> {
        let latest = self.plugins.get(slug)?.latest[channel].as_ref()?;
        Some(&latest.version)
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

/// The release, if it is newer than what the caller has.
fn newer<'o>(offered: &'o Offered, current: Option<&Version>) -> Option<&'o Offered> {
    let up_to_date = current.is_some_and(|current| current.cmp_php(&offered.version).is_ge());
    (!up_to_date).then_some(offered)
}

/// The releases of a plugin, and the manifests that its sites are offered. Channels share the bytes.
fn served(root: &Path, slug: &Slug, plugin: &Releases) -> Result<ServedPlugin, CatalogError> {
    let mut served = ServedPlugin {
        releases: plugin.releases.iter().map(PublishedRelease::from).collect(),
        listed: plugin.releases.iter().map(|_| OnceLock::new()).collect(),
        ..ServedPlugin::default()
    };
    let mut read: Vec<Offered> = Vec::new();
    let mut offer = |release: &Release| {
        if let Some(offered) = read.iter().find(|offered| offered.version == release.version) {
            return Ok(offered.clone());
        }
        let offered = offered(root, slug, &release.into(), release.package.is_some())?;
        read.push(offered.clone());
        Ok(offered)
    };
    for channel in Channel::ALL {
        let newest = plugin.of_channel(channel).next();
        served.latest[channel] = newest.map(&mut offer).transpose()?;
    }
    let latest = served.latest[Channel::Stable].as_ref();
    served.name = latest.and_then(|offered| name_in(&offered.manifest));
    Ok(served)
}

/// The manifest of a release, and where to insert its links.
fn offered(root: &Path, slug: &Slug, release: &PublishedRelease, is_hosted: bool) -> Result<Offered, CatalogError> {
    let PublishedRelease {
        version,
        security,
        manifest,
    } = release;
    let manifest = Bytes::from(read_manifest(root, slug, version, manifest)?);
    let links = match is_hosted {
        false => None,
        true => Some(LinkPlaces::of(&manifest).ok_or_else(|| CatalogError::Links {
            path: manifest_path(root, slug, version),
        })?),
    };
    Ok(Offered {
        version: version.clone(),
        security: *security,
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

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_model::digest::Digest;

    #[test]
    fn manifests_beside_the_latest_are_read_when_they_are_needed_and_once() {
        let folder = tempfile::tempdir().unwrap();
        let releases = folder.path();
        std::fs::create_dir(releases.join("acme")).unwrap();
        let path = |version: &str| releases.join(format!("acme/{version}.json"));
        let published = ["2.0", "1.1", "1.0"].map(|version| {
            let manifest = format!("{{\"version\":\"{version}\",\"last_updated\":\"2026-11-20 10:17:03\"}}\n");
            std::fs::write(path(version), &manifest).unwrap();
            let digest = Digest::of(manifest.as_bytes());
            serde_json::json!({ "version": version, "tag": version, "commit": "0".repeat(40), "sha256": digest })
        });
        let index = serde_json::json!({ "plugins": { "acme": { "latest": "2.0", "releases": published } } });
        std::fs::write(index_path(releases), index.to_string()).unwrap();
        let slug: Slug = "acme".parse().unwrap();
        // A damaged one holds up nothing.
        std::fs::write(path("1.0"), "torn").unwrap();
        let catalog = Catalog::load(releases).unwrap();
        let before = || {
            catalog.plugins[&slug]
                .before
                .get()
                .map(|before| before[Channel::Stable].clone())
        };
        assert!(before().is_none(), "without a rollout, nobody needs it");
        catalog.read_before(&slug);
        assert_eq!(before().flatten().unwrap().version.as_str(), "1.1");
        let listed = |version: &str| {
            let listed = catalog.listed_of(&slug, &version.parse().unwrap());
            listed.map(|listed| listed.map(|listed| listed.last_updated.clone()))
        };
        assert_eq!(listed("1.1").unwrap().as_deref(), Some("2026-11-20 10:17:03"));
        assert!(listed("1.0").is_err());
        std::fs::remove_file(path("1.1")).unwrap();
        assert_eq!(listed("1.1").unwrap().as_deref(), Some("2026-11-20 10:17:03"));
        assert_eq!(listed("0.9").unwrap(), None);
        let fresh = Catalog::load(releases).unwrap();
        fresh.read_before(&slug);
        assert!(fresh.plugins[&slug].before.get().unwrap()[Channel::Stable].is_none());
    }
}
