//! What to preview: the plugins of an instance, or a repository without an instance.
//!
//! [`PreviewSnapshot`](crate::preview::snapshot::PreviewSnapshot) reads it. Everything is local, and nothing is
//! written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::build::draft::{self, Draft};
use countersign_mail::texts;
use countersign_model::channel::ChannelRights;
use countersign_model::plugin::{AfterExpiry, Plugin, PluginKind, PluginSource, RepositoryLocation};
use countersign_model::slug::Slug;
use countersign_model::tag_pattern::TagPattern;
use countersign_registry::plugins::{self, PluginEntry};
use countersign_registry::{RegistryError, RegistryFiles};

/// Where the plugins, mirrors and published releases are.
#[derive(Clone, Debug)]
pub struct Target {
    /// Where the plugins are listed.
    pub plugins: Plugins,
    /// The folder of published releases, if there is one.
    pub releases: Option<PathBuf>,
    /// The mirrors of remote repositories.
    pub cache: PathBuf,
    /// Time limit for reading one repository.
    pub read_timeout: Duration,
}

/// Where the plugins are listed.
#[derive(Clone, Debug)]
pub enum Plugins {
    /// The registry in this folder: all plugins, or one.
    Registry(PathBuf, Option<Slug>),
    /// Nowhere: an entry is assumed.
    Assumed(Box<Plugin>),
}

/// Why a folder cannot be previewed.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// It does not exist.
    #[error("{}: cannot be opened", path.display())]
    Absent {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is a file.
    #[error("{}: not a folder", path.display())]
    NoFolder {
        /// The file.
        path: PathBuf,
    },
    /// Neither it nor a parent is a repository.
    #[error("{}: not in a git repository", path.display())]
    NoRepository {
        /// The folder.
        path: PathBuf,
    },
}

impl Target {
    /// The plugin in a repository, or in a folder of it, without an instance.
    pub fn repository(path: &Path, read_timeout: Duration) -> Result<Self, TargetError> {
        let absent = |source| TargetError::Absent {
            path: path.to_owned(),
            source,
        };
        let folder = path.canonicalize().map_err(absent)?;
        if !folder.is_dir() {
            return Err(TargetError::NoFolder { path: path.to_owned() });
        }
        let is_gits_own = |folder: &&Path| folder.file_name().is_some_and(|name| name == ".git");
        let folder = folder
            .ancestors()
            .find(is_gits_own)
            .and_then(Path::parent)
            .unwrap_or(&folder);
        let is_repository = |folder: &&Path| folder.join(".git").exists() || folder.join("HEAD").is_file();
        let root = folder.ancestors().find(is_repository);
        let root = root.ok_or_else(|| TargetError::NoRepository { path: path.to_owned() })?;
        let below = folder
            .strip_prefix(root)
            .unwrap_or(Path::new(""))
            .to_string_lossy()
            .into_owned();
        let plugin = assumed(root, below, read_timeout);
        let plugins = Plugins::Assumed(Box::new(plugin));
        Ok(Self {
            plugins,
            releases: None,
            cache: PathBuf::new(),
            read_timeout,
        })
    }

    /// The current entries.
    pub fn entries(&self) -> Result<Vec<PluginEntry>, RegistryError> {
        match &self.plugins {
            Plugins::Registry(folder, only) => {
                let wanted = |entry: &PluginEntry| only.is_none() || entry.slug == *only;
                let entries = plugins::load(&RegistryFiles::folder(folder))?;
                Ok(entries.into_iter().filter(wanted).collect())
            }
            Plugins::Assumed(plugin) => Ok(vec![entry(plugin)]),
        }
    }

    /// The registry, if there is an instance.
    pub fn registry(&self) -> Option<&Path> {
        match &self.plugins {
            Plugins::Registry(folder, _) => Some(folder),
            Plugins::Assumed(_) => None,
        }
    }

    /// The assumptions made without a registry entry, one sentence each.
    pub fn assumptions(&self) -> Vec<String> {
        let Plugins::Assumed(plugin) = &self.plugins else {
            return Vec::new();
        };
        let mut assumptions = vec![
            match folder_slug(plugin) {
                Some(_) => format!("the slug is {}, the name of the folder", plugin.slug),
                None => format!("the slug is {}, because the folder's name is not a slug", plugin.slug),
            },
            "tags are called 1.2.3 or v1.2.3".to_owned(),
            format!("the package is at {}", plugin.download_url),
            "nothing is published yet".to_owned(),
        ];
        if plugin.kind == PluginKind::Theme {
            assumptions.push("it is a theme, because its style.css says so".to_owned());
        }
        if !plugin.banners.is_empty() || !plugin.icons.is_empty() {
            assumptions.push("icons and banners are those of the repository".to_owned());
        }
        assumptions
    }

    /// Paths to watch besides the repositories.
    pub fn places(&self) -> Vec<PathBuf> {
        let registry = match &self.plugins {
            Plugins::Registry(folder, _) => vec![folder.clone(), folder.join("plugins"), folder.join(texts::FOLDER)],
            Plugins::Assumed(_) => Vec::new(),
        };
        registry.into_iter().chain(self.releases.clone()).collect()
    }
}

/// The entry that a vendor would begin with.
fn assumed(root: &Path, folder: String, read_timeout: Duration) -> Plugin {
    // A slug by construction.
    let slug = slug_of(root, &folder)
        .or_else(|| "plugin".parse().ok())
        .unwrap_or_else(|| unreachable!());
    let mut plugin = Plugin {
        name: String::new(),
        module: (&slug).into(),
        kind: Default::default(),
        source: Some(PluginSource {
            repository: RepositoryLocation::Folder(root.to_owned()),
            path: folder,
            main_file: None,
        }),
        tags: TagPattern::defaults(),
        versions: semver::VersionReq::STAR,
        withhold: Vec::new(),
        channels: ChannelRights::default(),
        security: Default::default(),
        back: Default::default(),
        after_expiry: AfterExpiry::default(),
        download_url: format!("https://example.com/{slug}-{{version}}.zip"),
        package: None,
        signing: None,
        rollout: None,
        homepage: String::new(),
        author: String::new(),
        author_homepage: String::new(),
        icons: BTreeMap::new(),
        banners: BTreeMap::new(),
        allow_version_mismatch: false,
        edd: Default::default(),
        slug,
    };
    plugin.kind = draft::kind(&entry(&plugin), read_timeout);
    let Draft { artwork, .. } = draft::draft(&entry(&plugin), None, Path::new(""), read_timeout, None);
    let address = |name: &str| format!("https://example.com/{}/{name}", plugin.slug);
    let names = || artwork.iter().map(|artwork| &*artwork.name);
    let first = |start: &str| names().find(|name| name.starts_with(start)).map(address);
    let named = |sizes: [(&str, &str); 2]| -> BTreeMap<String, String> {
        sizes
            .into_iter()
            .filter_map(|(size, start)| Some((size.to_owned(), first(start)?)))
            .collect()
    };
    let icons = named([("1x", "icon-128x128"), ("2x", "icon-256x256")]);
    let banners = named([("low", "banner-772x250"), ("high", "banner-1544x500")]);
    plugin.icons = icons
        .into_iter()
        .chain(first("icon.svg").map(|address| ("svg".to_owned(), address)))
        .collect();
    plugin.banners = banners;
    plugin
}

fn entry(plugin: &Plugin) -> PluginEntry {
    let file = match plugin.source.as_ref().map(|source| &source.repository) {
        Some(RepositoryLocation::Folder(folder)) => folder.clone(),
        _ => PathBuf::new(),
    };
    PluginEntry {
        file,
        slug: Some(plugin.slug.clone()),
        plugin: Ok(plugin.clone()),
    }
}

/// The slug from the folder's name; `None` if it has nothing to make one of.
fn folder_slug(plugin: &Plugin) -> Option<Slug> {
    match plugin.source.as_ref()? {
        PluginSource {
            repository: RepositoryLocation::Folder(root),
            path,
            ..
        } => slug_of(root, path),
        _ => None,
    }
}

fn slug_of(root: &Path, folder: &str) -> Option<Slug> {
    let folder = if folder.is_empty() { root } else { Path::new(folder) };
    slug(&folder.file_name()?.to_string_lossy())
}

/// `My_Plugin.git` → `my-plugin`.
fn slug(name: &str) -> Option<Slug> {
    let name = name.strip_suffix(".git").unwrap_or(name).to_ascii_lowercase();
    let plain: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(64)
        .collect();
    plain.trim_matches('-').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folders_name_becomes_a_slug() {
        for (name, expected) in [
            ("Acme_Forms.git", Some("acme-forms")),
            ("-x", Some("x")),
            ("ß", None),
            ("", None),
        ] {
            assert_eq!(slug(name).as_ref().map(Slug::as_str), expected, "{name}");
        }
        assert_eq!(slug(&"a".repeat(100)).unwrap().as_str().len(), 64);
    }
}
