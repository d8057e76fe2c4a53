//! Warnings about a release before it is published, which stop nothing. `build` and `preview` show the same ones.
//!
//! [`remarks`] is about what was built, and fast; [`inspect`] looks into the plugin's folder, for the newest releases
//! only.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use crate::build::client_copy;
use crate::build::manifest_sink::BuiltRelease;
use crate::build::packing::unbuilt::OTHERS;
use crate::build::packing::warnings::{self, HAND_OVER};
use crate::build::remark::{Remark, in_folder};
use crate::build::source::assets;
use crate::build::source::php_syntax;
use crate::build::source::readme::ReadmeWarning;
use crate::build::source::source_tree::{MAX_LOOKED_AT, MAX_PATH, SourceTree, TreeEntry, TreeEntryKind};
use countersign_model::plugin::{PackageOrigin, Plugin, PluginKind};
use countersign_model::version::Version;

/// The most PHP files to parse, and the most bytes of them in all.
const MAX_PHP_FILES: usize = 5_000;
const MAX_PHP_BYTES: usize = 64 << 20;

/// Size limit of a PHP file to parse, in bytes.
const MAX_PHP_FILE: usize = 2 << 20;

/// How deep to descend into folders.
const MAX_DEPTH: usize = 24;

/// How many files to name; the rest is counted.
const NAMED: usize = 5;

/// Which releases of a plugin have been reviewed: the newest, and the newest stable one.
#[derive(Default)]
pub(super) struct Reviewed {
    any: bool,
    stable: bool,
}

impl Reviewed {
    /// Whether to review this one; called from the newest version on.
    pub(super) fn is_due(&mut self, version: &Version) -> bool {
        let is_stable = !version.is_prerelease();
        let is_due = !self.any || is_stable && !self.stable;
        self.any = true;
        self.stable |= is_stable;
        is_due
    }
}

/// All remarks about a release: from its own texts, and what [`inspect`] found. `folder` is the plugin's in its
/// repository.
pub(super) fn remarks(built: &BuiltRelease, folder: &str) -> Vec<Remark> {
    let files = &built.files;
    let line = files.header.version_line;
    let notes = built
        .notes
        .iter()
        .map(|note| Remark::of(note, folder, &files.main_file, line));
    let readme = files.readme.iter().flat_map(|readme| &readme.fields.warnings);
    let header = files.header.warnings.iter().map(|warning| (&files.main_file, warning));
    let warnings = header.chain(readme.map(|warning| (&files.readme_name, warning)));
    let remark = |(file, warning): (&String, &ReadmeWarning)| Remark {
        line: warning.line,
        ..Remark::about(&in_folder(folder, file), &warning.message)
    };
    let inspected = built.inspected.iter().cloned();
    notes
        .chain(warnings.map(remark))
        .chain(absent(built))
        .chain(inspected)
        .collect()
}

/// Fields that the CMS needs. Of a theme, it shows neither a readme nor the version that it was tested with, but the page at
/// its URL.
fn absent(built: &BuiltRelease) -> impl Iterator<Item = Remark> {
    let manifest = &built.manifest;
    let is_theme = manifest.kind == PluginKind::Theme;
    let has_readme = built.files.readme.is_some();
    [
        (
            !is_theme || !manifest.url.is_empty(),
            "there is no Theme URI: WordPress opens that page when somebody looks at the details of an update"
                .to_owned(),
        ),
        (
            is_theme || has_readme,
            "there is no readme.txt: the details window shows only the plugin header".to_owned(),
        ),
        (
            !manifest.changelog.is_empty(),
            format!("no changelog has an entry for {}", manifest.version),
        ),
        (
            is_theme || !manifest.tested.is_empty(),
            "the CMS version it was tested with is missing (Tested up to)".to_owned(),
        ),
        (
            !manifest.requires.is_empty(),
            "the CMS version it requires is missing (Requires at least)".to_owned(),
        ),
    ]
    .into_iter()
    .filter(|(is_there, _)| !is_there)
    .map(|(_, message)| Remark::about("", message))
}

/// What a look into the plugin's folder gave.
pub(super) struct Inspected<Id> {
    pub(super) remarks: Vec<Remark>,
    /// The PHP files that the review read. Packing takes them from here.
    pub(super) read: HashMap<Id, Vec<u8>>,
}

/// Looks into the plugin's folder below `root`. Parses PHP files if `parses_php`.
pub(super) fn inspect<F: SourceTree>(plugin: &Plugin, files: &F, root: &F::Id, parses_php: bool) -> Inspected<F::Id> {
    let path = plugin.source.as_ref().map_or("", |source| &source.path);
    let folder = assets::walk(files, root.clone(), path);
    let items = folder
        .as_ref()
        .and_then(|folder| files.items(folder).ok())
        .unwrap_or_default();
    // The CMS shows a screenshot of a theme, which is in its folder.
    let has_pictures = plugin.kind == PluginKind::Plugin;
    let pictures = has_pictures.then(|| pictures(plugin, files, root)).flatten();
    let mut remarks: Vec<_> = pictures.into_iter().collect();
    let of_package = warnings::warnings(plugin, files, root, path, &items);
    remarks.extend(composer(plugin, files, &items, path, &of_package));
    remarks.extend(of_package);
    let mut read = HashMap::new();
    if parses_php {
        let mut found = PhpFiles::new();
        found.collect(files, &items, path, 0);
        remarks.extend(php(plugin, &found));
        read.extend(found.ids.into_iter().zip(found.contents));
    }
    Inspected { remarks, read }
}

/// Images need a URL that every site can load, which the build cannot know for those in a repository.
fn pictures<F: SourceTree>(plugin: &Plugin, files: &F, root: &F::Id) -> Option<Remark> {
    let kinds = [("icon", plugin.icons.is_empty()), ("banner", plugin.banners.is_empty())];
    let missing: Vec<&str> = kinds
        .iter()
        .filter(|(_, is_missing)| *is_missing)
        .map(|(kind, _)| *kind)
        .collect();
    if missing.is_empty() {
        return None;
    }
    let tables = missing
        .iter()
        .map(|kind| format!("[{kind}s]"))
        .collect::<Vec<_>>()
        .join(" and ");
    let words = missing
        .iter()
        .map(|kind| format!("no {kind}s"))
        .collect::<Vec<_>>()
        .join(" and ");
    let named = assets::named(plugin, files, root.clone());
    let there = named
        .iter()
        .filter(|item| missing.iter().any(|kind| item.name.starts_with(kind)));
    let there: Vec<&str> = there.map(|item| &*item.name).collect();
    let hint = match there[..] {
        [] => format!("set their URLs in {tables} of the entry"),
        [first, ..] => format!(
            "the repository has {first}{}; upload them and set their URLs in {tables} of the entry",
            if there.len() > 1 {
                format!(" and {} more", there.len() - 1)
            } else {
                String::new()
            }
        ),
    };
    Some(Remark::about("", format!("the CMS shows {words}: {hint}")))
}

/// A plugin of composer that only says where packages of WordPress go; a site needs nothing of it.
const INSTALLERS: &str = "composer/installers";

/// Folders into which tools put packages under a namespace of the plugin's own, by their settings.
const OWN_PACKAGES: [&str; 3] = [
    "/extra/strauss/target_directory",
    "/extra/mozart/dep_directory",
    "/extra/wpify-scoper/folder",
];

/// Packages that composer must install and that are missing. `packing` has the remarks on the package.
fn composer<F: SourceTree>(
    plugin: &Plugin,
    files: &F,
    items: &[TreeEntry<F::Id>],
    folder: &str,
    packing: &[Remark],
) -> Option<Remark> {
    // What is handed over was built elsewhere.
    let origin = plugin.package.as_ref().map(|package| package.from);
    if origin == Some(PackageOrigin::File) {
        return None;
    }
    let json = warnings::composer_json(files, items)?;
    let vendor = warnings::vendor_folder(&json);
    let is_there = |path: &str| {
        let (first, below) = path.split_once('/').unwrap_or((path, ""));
        let mut items = items.iter();
        let first = items.find(|item| item.name == first && item.kind == TreeEntryKind::Folder);
        first.is_some_and(|first| assets::walk(files, first.id.clone(), below).is_some())
    };
    let mut own = OWN_PACKAGES
        .iter()
        .filter_map(|setting| json.pointer(setting)?.as_str());
    let is_own_name = |name: &str| matches!(name, "third-party" | "third_party" | "scoped" | "deps" | "dependencies");
    let mut folders = items.iter().filter(|item| item.kind == TreeEntryKind::Folder);
    if is_there(&vendor)
        || own.any(|own| is_there(warnings::folder_name(own)))
        || folders.any(|item| is_own_name(&item.name) || item.name.starts_with("vendor") && item.name != "vendor")
        || packing.iter().any(|remark| remark.file == in_folder(folder, &vendor))
    {
        return None;
    }
    // A platform package has no slash: php, ext-json, lib-curl, composer-plugin-api.
    let packages: Vec<&String> = json
        .get("require")?
        .as_object()?
        .keys()
        .filter(|name| name.contains('/') && *name != INSTALLERS)
        .collect();
    let first = packages.first()?;
    let more = if packages.len() > 1 {
        format!(" and {} more", packages.len() - 1)
    } else {
        String::new()
    };
    let hint = match origin {
        Some(_) => format!("; {HAND_OVER}"),
        None => String::new(),
    };
    let message =
        format!("requires {first}{more}, but there is no {vendor} folder: a package of this tag lacks them{hint}");
    Some(Remark::about(&in_folder(folder, "composer.json"), message))
}

/// The plugin's own PHP files that do not parse, and what is wrong with its copy of the client.
fn php<Id>(plugin: &Plugin, found: &PhpFiles<Id>) -> Vec<Remark> {
    let PhpFiles { paths, contents, .. } = found;
    let of_client = match plugin.package {
        Some(_) => client_copy::remarks(paths, contents),
        None => Vec::new(),
    };
    let errors = paths
        .iter()
        .zip(php_syntax::errors(contents))
        .filter_map(|(path, error)| Some((path, error?)));
    let mut remarks: Vec<_> = errors
        .map(|(path, error)| Remark {
            line: error.line,
            ..Remark::about(path, format!("does not parse: {}", error.message))
        })
        .collect();
    if let Some(more) = remarks.len().checked_sub(NAMED).filter(|more| *more > 0) {
        remarks.truncate(NAMED);
        remarks.push(Remark::about("", format!("{more} more PHP files do not parse")));
    }
    remarks.extend(of_client);
    remarks
}

/// PHP files with their contents, up to the limits. A folder that is there several times is read once: a few trees of git can
/// expand to very many folders.
struct PhpFiles<Id> {
    paths: Vec<String>,
    ids: Vec<Id>,
    contents: Vec<Vec<u8>>,
    bytes: usize,
    looked_at: usize,
    known: HashSet<Id>,
}

impl<Id: Clone + Eq + Hash> PhpFiles<Id> {
    fn new() -> Self {
        Self {
            paths: Vec::new(),
            ids: Vec::new(),
            contents: Vec::new(),
            bytes: 0,
            looked_at: 0,
            known: HashSet::new(),
        }
    }

    fn collect<F: SourceTree<Id = Id>>(&mut self, files: &F, items: &[TreeEntry<Id>], folder: &str, depth: usize) {
        self.looked_at += items.len();
        for item in items {
            if self.paths.len() >= MAX_PHP_FILES || self.bytes >= MAX_PHP_BYTES || self.looked_at > MAX_LOOKED_AT {
                return;
            }
            let path = in_folder(folder, &item.name);
            let is_own = !item.name.starts_with('.') && !OTHERS.contains(&&*item.name);
            match item.kind {
                _ if path.len() > MAX_PATH => {}
                TreeEntryKind::Folder if is_own && depth < MAX_DEPTH && self.known.insert(item.id.clone()) => {
                    let below = files.items(&item.id).unwrap_or_default();
                    self.collect(files, &below, &path, depth + 1);
                }
                TreeEntryKind::File if item.name.ends_with(".php") => {
                    let Ok(bytes) = files.bytes(&item.id, MAX_PHP_FILE) else {
                        continue;
                    };
                    self.bytes += bytes.len();
                    self.contents.push(bytes);
                    self.ids.push(item.id.clone());
                    self.paths.push(path);
                }
                _ => {}
            }
        }
    }
}
