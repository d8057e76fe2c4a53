//! Repositories that tests make: written through git2 into a temporary folder, with fixed names and times.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use git2::{Index, IndexEntry, IndexTime, ObjectType, Oid, Signature, Time};

pub(super) use crate::build::NoProgress as Silent;
use crate::build::package_folder::PackageFolder;
use crate::build::{BuildReport, Mirrors, Options, PackingOptions, PluginReport};
use countersign_model::channel::ChannelRights;
use countersign_model::plugin::{AfterExpiry, Plugin, PluginSource, RepositoryLocation};
use countersign_model::slug::Slug;
use countersign_model::tag_pattern::TagPattern;
use countersign_registry::plugins::PluginEntry;

/// 2026-11-20 10:17:03 UTC: when every commit is made.
pub(super) const COMMITTED: i64 = 1_795_169_823;

/// A repository in a temporary folder, and a folder to publish to beside it.
pub(super) struct Fixture {
    folder: tempfile::TempDir,
    pub git: git2::Repository,
}

pub(super) const FILE: u32 = 0o100_644;
pub(super) const LINK: u32 = 0o120_000;
pub(super) const SUBMODULE: u32 = 0o160_000;

impl Fixture {
    /// An empty repository in a folder called `acme-repository`; HEAD stays unborn.
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let git = git2::Repository::init(folder.path().join("acme-repository")).unwrap();
        Self { folder, git }
    }

    pub(super) fn repository(&self) -> PathBuf {
        self.git.workdir().unwrap().to_owned()
    }

    /// Where archives are handed over.
    pub(super) fn packages(&self) -> PathBuf {
        self.folder.path().join("packages")
    }

    pub(super) fn releases(&self) -> PathBuf {
        self.folder.path().join("releases")
    }

    /// A commit with these files and nothing else.
    pub(super) fn commit(&self, files: &[(&str, &str)]) -> Oid {
        let files: Vec<_> = files
            .iter()
            .map(|(path, text)| (*path, FILE, text.as_bytes()))
            .collect();
        self.commit_of(&files)
    }

    /// A commit with these entries: path, mode, contents.
    pub(super) fn commit_of(&self, files: &[(&str, u32, &[u8])]) -> Oid {
        let mut index = Index::new().unwrap();
        for (path, mode, contents) in files {
            let zero = IndexTime::new(0, 0);
            let id = if *mode == SUBMODULE {
                Oid::hash_object(ObjectType::Blob, contents).unwrap()
            } else {
                self.git.blob(contents).unwrap()
            };
            let path = path.as_bytes().to_vec();
            let entry = IndexEntry {
                ctime: zero,
                mtime: zero,
                dev: 0,
                ino: 0,
                mode: *mode,
                uid: 0,
                gid: 0,
                file_size: 0,
                id,
                flags: 0,
                flags_extended: 0,
                path,
            };
            index.add(&entry).unwrap();
        }
        let tree = self.git.find_tree(index.write_tree_to(&self.git).unwrap()).unwrap();
        let who = signature(COMMITTED);
        self.git.commit(None, &who, &who, "Work", &tree, &[]).unwrap()
    }

    pub(super) fn tag(&self, name: &str, target: Oid) {
        self.git
            .reference(&format!("refs/tags/{name}"), target, true, "")
            .unwrap();
    }

    /// An annotated tag; gives the tag object.
    pub(super) fn annotate(&self, name: &str, target: Oid, message: &str, time: i64) -> Oid {
        let target = self.git.find_object(target, None).unwrap();
        self.git.tag(name, &target, &signature(time), message, true).unwrap()
    }

    /// A commit with a plugin of this version, and a lightweight tag on it.
    pub(super) fn release(&self, tag: &str, version: &str) -> Oid {
        let commit = self.commit(&[("acme.php", &header(version))]);
        self.tag(tag, commit);
        commit
    }

    /// The entry of the plugin `acme` in this repository.
    pub(super) fn plugin(&self) -> Plugin {
        let slug: Slug = "acme".parse().unwrap();
        Plugin {
            name: String::new(),
            module: (&slug).into(),
            kind: Default::default(),
            slug,
            source: Some(PluginSource {
                repository: RepositoryLocation::Folder(self.repository()),
                path: String::new(),
                main_file: None,
            }),
            tags: TagPattern::defaults(),
            versions: semver::VersionReq::STAR,
            channels: ChannelRights::default(),
            security: Default::default(),
            back: Default::default(),
            after_expiry: AfterExpiry::default(),
            withhold: Vec::new(),
            download_url: "https://example.com/{slug}/{tag}/{slug}-{version}.zip".into(),
            package: None,
            signing: None,
            rollout: None,
            homepage: String::new(),
            author: String::new(),
            author_homepage: String::new(),
            icons: Default::default(),
            banners: Default::default(),
            allow_version_mismatch: false,
            edd: Default::default(),
        }
    }

    /// Builds one plugin and gives what became of it.
    pub(super) fn build(&self, plugin: Plugin) -> PluginReport {
        self.run(&[entry(plugin)], false, &[]).plugins.remove(0)
    }

    pub(super) fn run(&self, entries: &[PluginEntry], check: bool, only: &[&str]) -> BuildReport {
        crate::build::run(entries, &self.options(check, only), Arc::new(Silent)).unwrap()
    }

    pub(super) fn options(&self, check: bool, only: &[&str]) -> Options {
        Options {
            releases: self.releases(),
            check,
            all: false,
            accepts_removed: true,
            parse_php: false,
            only: only.iter().map(|slug| slug.parse().unwrap()).collect(),
            mirrors: Mirrors {
                cache: self.folder.path().join("cache"),
                offline: false,
                timeout: Duration::from_secs(60),
                limit: u64::MAX,
                allowed: vec!["file://".parse().unwrap()],
                credentials: None,
            },
            packing: PackingOptions {
                installed: None,
                folder: PackageFolder::new(&self.packages()),
                replace: HashSet::new(),
                signed: None,
                cache: Some(self.folder.path().join("cache")),
            },
            read_timeout: Duration::from_secs(60),
        }
    }

    /// Every published file and its contents, sorted; without the list of what was removed.
    pub(super) fn published(&self) -> Vec<(String, String)> {
        let mut files = files(&self.releases());
        files.retain(|(name, _)| name != "removed.json");
        files
    }

    /// A field of a published manifest.
    pub(super) fn field(&self, version: &str, pointer: &str) -> String {
        let bytes = std::fs::read(self.releases().join(format!("acme/{version}.json"))).unwrap();
        let manifest: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        manifest.pointer(pointer).unwrap().as_str().unwrap().to_owned()
    }
}

/// Every file below a folder and its contents, sorted.
pub(super) fn files(folder: &Path) -> Vec<(String, String)> {
    let mut files = Vec::new();
    collect(folder, folder, &mut files);
    files.sort();
    files
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(root, &path, files);
        } else {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            let bytes = std::fs::read(path).unwrap();
            files.push((name, String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
}

pub(super) fn entry(plugin: Plugin) -> PluginEntry {
    PluginEntry {
        file: format!("registry/plugins/{}.toml", plugin.slug).into(),
        slug: Some(plugin.slug.clone()),
        plugin: Ok(plugin),
    }
}

/// A PHP file with a plugin header.
pub(super) fn header(version: &str) -> String {
    format!("<?php\n/*\n * Plugin Name: Acme\n * Version: {version}\n * Requires PHP: 8.1\n */\n")
}

pub(super) fn signature(time: i64) -> Signature<'static> {
    Signature::new("Ada", "ada@example.com", &Time::new(time, 120)).unwrap()
}
