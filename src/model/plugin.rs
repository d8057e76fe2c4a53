//! A plugin registry entry: what the vendor decides about one plugin.

use std::collections::BTreeMap;

use crate::model::name::Name;
use crate::model::release_key::ReleaseKey;
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
    /// Where the CMS downloads a release, with `{slug}`, `{version}` and `{tag}` in it; empty where packages are hosted here.
    pub download_url: String,
    /// How its packages come to be; `None` where `download_url` names somebody else's.
    pub package: Option<PackageSettings>,
    /// Who must sign a release before it is published; `None` where nobody has to.
    pub signing: Option<SigningSettings>,
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

/// Table `[package]`: how the packages of a plugin come to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageSettings {
    /// What a package is made of.
    pub from: PackageOrigin,
    /// The folder on top, by which the CMS knows the plugin.
    pub folder: Name,
    /// Files that are not packed, in gitignore syntax.
    pub exclude: Vec<String>,
    /// Whether every download carries a build id.
    pub mark: bool,
}

/// Table `[signing]`: whose signatures a release needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningSettings {
    /// The keys of those who may sign, with their comments; no two with the same 32 bytes.
    pub keys: Vec<ReleaseKey>,
    /// How many different keys must have signed: from 1 to the number of keys.
    pub threshold: usize,
}

/// What packages are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackageOrigin {
    /// The plugin's folder at the tag.
    Tag,
    /// An archive that somebody's own build made.
    File,
}

impl PackageSettings {
    /// What holds where the entry has no table `[package]`.
    pub fn defaults(slug: &Slug) -> Self {
        Self {
            from: PackageOrigin::Tag,
            folder: slug.into(),
            exclude: Vec::new(),
            mark: true,
        }
    }
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
