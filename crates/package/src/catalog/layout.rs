//! The layout of `releases/`. Paths under it are joined only here.
//!
//! Slugs and versions are safe in a path by construction. [`index`](crate::catalog::index),
//! [`verify`](crate::catalog::verify) and the build use these paths.

use std::path::{Path, PathBuf};

use countersign_model::slug::Slug;
use countersign_model::version::Version;

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
