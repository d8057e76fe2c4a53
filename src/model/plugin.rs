//! A plugin registry entry: what the vendor decides about one plugin.

use std::collections::BTreeMap;

use crate::model::name::Name;
use crate::model::slug::Slug;
use crate::model::tag_pattern::TagPattern;
use crate::model::version::Version;

/// One entry of `registry/plugins/<slug>.toml`.
#[derive(Clone, Debug, PartialEq)]
pub struct Plugin {
    /// The file's name without `.toml`.
    pub slug: Slug,
    /// Display name; empty where the plugin's own header shall speak.
    pub name: String,
    /// The module a license must have to get this plugin.
    pub module: Name,
    /// Where the source is; `None` means no source is configured and no update is served.
    pub source: Option<PluginSource>,
    /// Tag patterns, at least one; a tag is a release when one of them finds a version in it.
    pub tags: Vec<TagPattern>,
    /// Only versions that meet this are published.
    pub versions: semver::VersionReq,
    /// Versions that are never published.
    pub withhold: Vec<Version>,
    /// Where the CMS downloads a release, with `{slug}`, `{version}` and `{tag}` in it.
    pub download_url: String,
    /// Address of the plugin's page; empty where the header shall speak.
    pub homepage: String,
    /// Who made it; empty where the header shall speak.
    pub author: String,
    /// Address of the author; empty where the header shall speak.
    pub author_homepage: String,
    /// Icon addresses by size (`1x`, `2x`, `svg`, `default`).
    pub icons: BTreeMap<String, String>,
    /// Banner addresses by size (`low`, `high`).
    pub banners: BTreeMap<String, String>,
    /// Whether a stable tag is published although its header carries another version.
    pub allow_version_mismatch: bool,
}

/// Where a plugin's files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginSource {
    /// A path (relative to the registry file's folder, already joined) or a URL.
    pub repository: RepositoryLocation,
    /// The plugin's folder in a monorepo, without leading or trailing `/`; empty for the root.
    pub path: String,
    /// The file with the plugin's header, relative to `path`; `None` to look for it.
    pub main_file: Option<String>,
}

/// A plugin's git repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RepositoryLocation {
    /// A folder on this machine.
    Folder(std::path::PathBuf),
    /// An address git can fetch from.
    Url(url::Url),
}
