//! Plugins: the settings of a plugin registry entry.

use std::collections::BTreeMap;

use crate::channel::ChannelRights;
use crate::edd_items::EddItems;
use crate::name::Name;
use crate::release_key::ReleaseKey;
use crate::release_rules::{BackRules, SecurityRules};
use crate::rollout::RolloutSettings;
use crate::slug::Slug;
use crate::tag_pattern::TagPattern;
use crate::version::{Version, has_version};

/// One entry of `registry/plugins/<slug>.toml`.
#[derive(Clone, Debug, PartialEq)]
pub struct Plugin {
    /// The file's name without `.toml`.
    pub slug: Slug,
    /// What it is on a site.
    pub kind: PluginKind,
    /// Display name; empty to use the one in the plugin's header.
    pub name: String,
    /// The module a license must have to get this plugin.
    pub module: Name,
    /// Where the source is; `None` if no source is configured, so that there are no updates.
    pub source: Option<PluginSource>,
    /// Tag patterns, at least one. A tag is a release if it matches one of them.
    pub tags: Vec<TagPattern>,
    /// Only versions that meet this requirement are published.
    pub versions: semver::VersionReq,
    /// Versions that are never published.
    pub withhold: Vec<Version>,
    /// Who may have pre-releases.
    pub channels: ChannelRights,
    /// What Composer installs for licenses that have expired.
    pub after_expiry: AfterExpiry,
    /// Where the CMS downloads a release, with `{slug}`, `{version}` and `{tag}` in it; empty if this server has the
    /// packages.
    pub download_url: String,
    /// How to make packages; `None` if `download_url` is set.
    pub package: Option<PackageSettings>,
    /// Who must sign a release before it is published; `None` where nobody has to.
    pub signing: Option<SigningSettings>,
    /// Security releases, and who gets them.
    pub security: SecurityRules,
    /// Which older releases a site may go back to.
    pub back: BackRules,
    /// The steps in which a release reaches sites; `None` if all sites get it at once.
    pub rollout: Option<RolloutSettings>,
    /// URL of the plugin's page; empty to use the one in the header.
    pub homepage: String,
    /// The author; empty to use the one in the header.
    pub author: String,
    /// URL of the author; empty to use the one in the header.
    pub author_homepage: String,
    /// Icon addresses by size (`1x`, `2x`, `svg`, `default`).
    pub icons: BTreeMap<String, String>,
    /// Banner addresses by size (`low`, `high`).
    pub banners: BTreeMap<String, String>,
    /// Whether a stable tag is published even if its header has another version.
    pub allow_version_mismatch: bool,
    /// What Easy Digital Downloads calls it.
    pub edd: EddItems,
}

impl Plugin {
    /// Whether the entry withholds this version, however either is written: `1.2` is `1.2.0` here.
    pub fn withholds(&self, version: &Version) -> bool {
        has_version(&self.withhold, version)
    }

    /// Whether this server has its packages.
    pub fn hosts_packages(&self) -> bool {
        self.source.is_some() && self.package.is_some()
    }

    /// Its name for people: that of the entry, or else the `published` one, or else the slug.
    pub fn shown_name<'a>(&'a self, published: Option<&'a str>) -> &'a str {
        match self.name.as_str() {
            "" => published.unwrap_or(self.slug.as_str()),
            name => name,
        }
    }
}

/// What a product is on a site. Unless a text says otherwise, the word plugin means both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PluginKind {
    /// A plugin: a PHP file of its folder has the header.
    #[default]
    Plugin,
    /// A theme, or a child theme: its `style.css` has the header.
    Theme,
}

impl PluginKind {
    /// Whether it is a plugin in the narrow sense.
    pub fn is_plugin(&self) -> bool {
        *self == Self::Plugin
    }

    /// The word for it in a sentence, which is also its name in an entry and in a manifest.
    pub fn word(self) -> &'static str {
        match self {
            Self::Plugin => "plugin",
            Self::Theme => "theme",
        }
    }
}

/// The file of a theme that has its header.
pub const STYLESHEET: &str = "style.css";

/// Without one of these files, WordPress calls a theme broken, unless it is a child theme.
pub const INDEX_TEMPLATES: [&str; 3] = ["index.php", "templates/index.html", "block-templates/index.html"];

/// What an expired license still gets of a plugin with Composer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterExpiry {
    /// Nothing.
    #[default]
    Nothing,
    /// What was released before its end, so that a lock file can still be installed.
    Earlier,
}

/// Table `[package]`: how to make the packages of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageSettings {
    /// What a package is made of.
    pub from: PackageOrigin,
    /// The top-level folder, by which the CMS knows the plugin.
    pub folder: Name,
    /// Files to leave out, in gitignore syntax.
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
    /// Sites that run one of these versions may be left behind by a release that their keys did not sign.
    pub leave_behind: Option<semver::VersionReq>,
}

/// What packages are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackageOrigin {
    /// The plugin's folder at the tag.
    Tag,
    /// An archive from the vendor's own build.
    File,
}

impl PackageSettings {
    /// The defaults of table `[package]`.
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
    /// The file with the plugin's header, relative to `path`; `None` to search for it. A theme has none.
    pub main_file: Option<String>,
}

/// A plugin's git repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RepositoryLocation {
    /// A folder on this machine.
    Folder(std::path::PathBuf),
    /// A URL that git can fetch from.
    Url(url::Url),
}
