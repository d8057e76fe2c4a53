//! The name of a plugin in the manifest of its latest release: what sites show.

use std::path::Path;

use serde::Deserialize;

use crate::catalog::index::Releases;
use crate::catalog::verify::read_manifest;
use countersign_model::channel::Channel;
use countersign_model::slug::Slug;

/// The used field of a manifest.
#[derive(Deserialize)]
struct NamedManifest {
    name: String,
}

/// The plugin's name; `None` if no release is published, or its manifest cannot be read.
pub fn published_name(folder: &Path, slug: &Slug, releases: &Releases) -> Option<String> {
    releases.check_latest(slug, folder).ok()?;
    let latest = releases.of_channel(Channel::Stable).next()?;
    name_in(&read_manifest(folder, slug, &latest.version, &latest.sha256).ok()?)
}

/// The name in a manifest.
pub(super) fn name_in(manifest: &[u8]) -> Option<String> {
    let NamedManifest { name } = serde_json::from_slice(manifest).ok()?;
    (!name.is_empty()).then_some(name)
}
