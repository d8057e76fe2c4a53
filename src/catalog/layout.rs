//! How `releases/` is laid out: the one place that joins paths under it.
//!
//! Slugs and versions are safe in a path by construction. [`index`](crate::catalog::index) and
//! [`verify`](crate::catalog::verify) read from here, the build publishes to here.

use std::path::{Path, PathBuf};

use crate::model::slug::Slug;
use crate::model::version::Version;

/// An index larger than this is not read, in bytes: about a quarter of a million releases without packages.
pub const MAX_INDEX: u64 = 64 << 20;

/// A manifest larger than this is not read, in bytes. Its texts are cut long before: no build publishes a tenth of it.
pub const MAX_MANIFEST: u64 = 16 << 20;

/// Where the index stands under `releases/`.
pub fn index_path(releases: &Path) -> PathBuf {
    releases.join("index.json")
}

/// Where a manifest stands under `releases/`.
pub fn manifest_path(releases: &Path, slug: &Slug, version: &Version) -> PathBuf {
    releases.join(slug.as_str()).join(format!("{version}.json"))
}

/// Where a package stands under `releases/`.
pub fn package_path(releases: &Path, slug: &Slug, version: &Version) -> PathBuf {
    releases.join(slug.as_str()).join(format!("{version}.zip"))
}
