//! What Composer learns of a plugin's releases: their versions as Composer writes them, and fields of their manifests.
//!
//! The manifests of all releases are read when the first request needs them, and once for each catalog.

use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use chrono::NaiveDate;
use serde::Deserialize;
use sha1::{Digest as _, Sha1};
use uuid::Uuid;

use crate::MAX_PACKED;
use crate::catalog::error::CatalogError;
use crate::catalog::index::{HeldPackage, PublishedRelease};
use crate::catalog::manifest::read_manifest;
use countersign_files::regular_file;
use countersign_model::channel::Channel;
use countersign_model::composer::composer_version;
use countersign_model::digest::Digest;
use countersign_model::entitlement::ComposerEntitlement;
use countersign_model::plugin::PluginKind;
use countersign_model::slug::Slug;
use countersign_model::version::Version;

/// A release that Composer can install.
#[derive(Clone, Debug)]
pub struct ComposerRelease {
    /// Its version.
    pub version: Version,
    /// The version as Composer writes it.
    pub written: String,
    /// The fields of its manifest.
    pub manifest: ComposerFields,
    /// Its package.
    pub package: HeldPackage,
    channel: Channel,
    /// The day of its tag, in UTC.
    released: NaiveDate,
}

/// The fields of a manifest that Composer shows or obeys.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs, reason = "the fields are the interface's")]
pub struct ComposerFields {
    pub description: String,
    pub homepage: String,
    /// `2026-11-20 10:17:03`, in UTC.
    pub last_updated: String,
    pub requires_php: String,
    #[serde(rename = "type", default)]
    pub kind: PluginKind,
}

/// The releases of a plugin that Composer can install, newest first.
pub(super) fn releases(
    root: &Path,
    slug: &Slug,
    published: &[PublishedRelease],
    package: impl Fn(&Version) -> Option<HeldPackage>,
) -> Result<Vec<ComposerRelease>, CatalogError> {
    let mut releases = Vec::new();
    for release in published {
        let written = composer_version(&release.version);
        let channel = release.version.channel();
        let (Some(package), Some(written), Some(channel)) = (package(&release.version), written, channel) else {
            continue;
        };
        let bytes = read_manifest(root, slug, &release.version, &release.manifest)?;
        let manifest: ComposerFields = serde_json::from_slice(&bytes).unwrap_or_else(|_| ComposerFields::empty());
        let day = manifest.last_updated.get(..10).and_then(|day| day.parse().ok());
        releases.push(ComposerRelease {
            version: release.version.clone(),
            written,
            // A release without a day is as new as can be.
            released: day.unwrap_or(NaiveDate::MAX),
            manifest,
            package,
            channel,
        });
    }
    Ok(releases)
}

impl ComposerRelease {
    /// Whether the entitlement includes it.
    pub(super) fn is_for(&self, entitlement: &ComposerEntitlement<'_>) -> bool {
        entitlement.includes(self.channel, self.released)
    }
}

impl ComposerFields {
    fn empty() -> Self {
        let none = String::new;
        Self {
            description: none(),
            homepage: none(),
            last_updated: none(),
            requires_php: none(),
            kind: PluginKind::default(),
        }
    }
}

/// The SHA-1 of marked packages, which Composer compares. A mark is near the end of a package, so the state of the hash before it is kept:
/// for another license, only the end is read again.
#[derive(Debug, Default)]
pub struct CopyDigests {
    /// By digest of the package.
    before_mark: Mutex<std::collections::HashMap<Digest, Sha1>>,
}

impl CopyDigests {
    /// The SHA-1 of a package with this mark, in hex. Waits for the disk.
    ///
    /// # Errors
    /// The file cannot be read, or is shorter than the index says.
    pub fn sha1(&self, path: &Path, package: &HeldPackage, mark: Option<Uuid>) -> io::Result<String> {
        let mut file = regular_file::open(path, MAX_PACKED)?;
        let places = package.mark.zip(mark);
        let start = places.map_or(package.size, |(places, _)| {
            places.local_crc.min(places.id).min(places.central_crc)
        });
        let known = || self.before_mark.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = known().get(&package.sha256).cloned();
        let mut hash = match kept {
            Some(hash) => hash,
            None => {
                let mut hash = Sha1::new();
                let copied = io::copy(&mut (&mut file).take(start), &mut hash)?;
                if copied != start {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                known().insert(package.sha256, hash.clone());
                hash
            }
        };
        if let Some((places, id)) = places {
            file.seek(SeekFrom::Start(start))?;
            let mut end = Vec::new();
            file.take(package.size - start).read_to_end(&mut end)?;
            if end.len() as u64 != package.size - start {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            places.patch(id).apply(start, &mut end);
            hash.update(&end);
        }
        Ok(const_hex::encode(hash.finalize()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mark::Places;

    #[test]
    fn the_sha1_of_a_marked_copy_is_that_of_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.zip");
        let mut bytes: Vec<u8> = (0..20_000_u32).map(|n| (n % 251) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let places = Places {
            local_crc: 19_000,
            id: 19_100,
            central_crc: 19_500,
        };
        let package = HeldPackage {
            size: bytes.len() as u64,
            sha256: Digest::of(&bytes),
            mark: Some(places),
        };
        let digests = CopyDigests::default();
        for id in [Uuid::from_u128(1), Uuid::from_u128(2), Uuid::from_u128(1)] {
            let found = digests.sha1(&path, &package, Some(id)).unwrap();
            places.patch(id).apply(0, &mut bytes);
            assert_eq!(found, const_hex::encode(Sha1::digest(&bytes)));
        }
        std::fs::write(&path, &bytes[..19_200]).unwrap();
        assert!(digests.sha1(&path, &package, Some(Uuid::from_u128(3))).is_err());
    }
}
