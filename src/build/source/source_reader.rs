//! Step 3: the plugin's own files at one commit: the main file or the theme's stylesheet, the readme, the changelogs.
//!
//! Files are cached by their ids, because most tags share most files. [`compose`](crate::build::compose) uses the
//! result.

mod elsewhere;

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::build::git::object::ObjectError;
use crate::build::report::outcome::Reason;
use crate::build::source::cache::Memo;
use crate::build::source::html;
use crate::build::source::plugin_header::{self, PluginHeader};
use crate::build::source::source_files::{Changelog, ReadmeFile, SourceFiles};
use crate::build::source::source_tree::{SourceTree, TreeEntry, TreeEntryKind};
use countersign_model::plugin::{Plugin, PluginKind, STYLESHEET};

/// Size limit of a PHP file or a readme in bytes.
const MAX_SOURCE: usize = 2 << 20;

/// Size limit of a changelog in bytes.
const MAX_CHANGELOG: usize = 4 << 20;

/// The most PHP files at a plugin's root in which to search for the main file.
const MAX_PHP_FILES: usize = 500;

/// How many changelog files to read, best name first.
const MAX_CHANGELOGS: usize = 3;

/// Reads the files of one plugin's releases, commit after commit.
pub(crate) struct SourceReader<'a, F: SourceTree> {
    files: &'a F,
    kind: PluginKind,
    /// The plugin's folder; empty for the root.
    path: &'a str,
    pinned: Option<&'a str>,
    /// Usual names of the main file.
    usual: Vec<String>,
    headers: Memo<F::Id, PluginHeader>,
    /// The headers of stylesheets.
    themes: Memo<F::Id, PluginHeader>,
    readmes: Memo<F::Id, ReadmeFile>,
    changelogs: Memo<F::Id, Changelog>,
}

impl<'a, F: SourceTree> SourceReader<'a, F> {
    /// A reader for `plugin`; without a source, it reads the repository's root.
    pub(crate) fn new(files: &'a F, plugin: &'a Plugin) -> Self {
        let source = plugin.source.as_ref();
        let path = source.map_or("", |source| source.path.as_str());
        let folder = path.rsplit('/').next().filter(|name| !name.is_empty()).or(files.name());
        Self {
            files,
            kind: plugin.kind,
            path,
            pinned: source.and_then(|source| source.main_file.as_deref()),
            usual: [Some(plugin.slug.as_str()), folder]
                .into_iter()
                .flatten()
                .map(|name| format!("{name}.php"))
                .collect(),
            headers: Memo::of(512),
            themes: Memo::of(64),
            readmes: Memo::of(8),
            changelogs: Memo::of(8),
        }
    }

    /// Whether the plugin's folder below the root folder `tree` has a theme, whatever the entry says.
    pub(crate) fn is_theme(&mut self, tree: &F::Id) -> bool {
        let folder = self.folder(tree, self.path).ok().flatten();
        folder.is_some_and(|folder| matches!(self.theme(&folder), Ok(Some(_))))
    }

    /// Reads the plugin's files below the root folder `tree`.
    pub(crate) fn read(&mut self, tree: &F::Id) -> Result<SourceFiles, Reason> {
        let folder = self
            .folder(tree, self.path)?
            .ok_or_else(|| Reason::PathAbsent(self.path.to_owned()))?;
        let (main_file, header) = match self.kind {
            PluginKind::Plugin => self.main_file(tree, &folder)?,
            PluginKind::Theme => self.stylesheet(&folder)?,
        };
        if header.version.is_empty() {
            return Err(Reason::NoVersion(main_file));
        }
        let mut notes = Vec::new();
        let (readme_name, readme) = self.readme(&folder, &mut notes)?.unzip();
        let readme_name = readme_name.unwrap_or_default();
        let changelogs = self.changelogs(&folder, &mut notes)?;
        Ok(SourceFiles {
            main_file,
            header,
            readme,
            readme_name,
            changelogs,
            notes,
        })
    }

    /// The content of the folder at `path`; `None` if it is missing.
    fn folder(&self, root: &F::Id, path: &str) -> Result<Option<Vec<TreeEntry<F::Id>>>, Reason> {
        let items = |tree: &F::Id, path: &str| self.files.items(tree).map_err(|error| Reason::from_object(path, error));
        let mut folder = items(root, "the root folder")?;
        let mut walked = String::new();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            walked = if walked.is_empty() {
                name.to_owned()
            } else {
                format!("{walked}/{name}")
            };
            folder = match folder.iter().find(|item| item.name == name) {
                Some(item) if item.kind == TreeEntryKind::Folder => items(&item.id, &walked)?,
                Some(item) if item.kind != TreeEntryKind::File => return Err(not_followed(&walked, item)),
                _ => return Ok(None),
            };
        }
        Ok(Some(folder))
    }

    /// The file set in the entry, if it exists at this commit; else, where there is no theme, one named like the plugin
    /// or its folder; else the only one with a plugin header.
    fn main_file(&mut self, root: &F::Id, folder: &[TreeEntry<F::Id>]) -> Result<(String, Rc<PluginHeader>), Reason> {
        if let Some(pinned) = self.pinned
            && let Some(item) = self.pinned_item(root, folder, pinned)?
        {
            let header = self.header(pinned, &item)?.ok_or(Reason::NoPluginHeader)?;
            return Ok((pinned.to_owned(), header));
        }
        // A theme may have a plugin's file beside its own.
        match self.theme(folder) {
            Ok(None) | Err(Reason::TooLarge { .. } | Reason::NotFollowed { .. }) => {}
            Ok(Some(_)) => return Err(Reason::Theme),
            Err(reason) => return Err(reason),
        }
        self.found_main_file(folder)
    }

    /// The file named like the plugin or its folder; else the only one with a plugin header.
    fn found_main_file(&mut self, folder: &[TreeEntry<F::Id>]) -> Result<(String, Rc<PluginHeader>), Reason> {
        let mut obstacle = None;
        let mut found = Vec::new();
        for name in self.usual.clone() {
            let Some(item) = folder.iter().find(|item| item.name == name) else {
                continue;
            };
            match self.header(&name, item) {
                Ok(Some(header)) => return Ok((name, header)),
                Ok(None) => {}
                Err(failure @ Reason::Unreadable { .. }) => return Err(failure),
                Err(reason) => drop(obstacle.get_or_insert(reason)),
            }
        }
        let is_php = |item: &&TreeEntry<F::Id>| item.kind == TreeEntryKind::File && item.name.ends_with(".php");
        let php_files = folder.iter().filter(is_php).count();
        if php_files > MAX_PHP_FILES {
            return Err(Reason::TooManyFiles(php_files));
        }
        for item in folder.iter().filter(is_php) {
            match self.header(&item.name, item) {
                Ok(Some(header)) => found.push((item.name.clone(), header)),
                Ok(None) => {}
                Err(failure @ Reason::Unreadable { .. }) => return Err(failure),
                Err(reason) => drop(obstacle.get_or_insert(reason)),
            }
        }
        match found.len() {
            1 => Ok(found.remove(0)),
            0 => Err(obstacle.unwrap_or(Reason::NoPluginHeader)),
            _ => Err(Reason::ambiguous(
                &found.into_iter().map(|(name, _)| name).collect::<Vec<_>>(),
            )),
        }
    }

    fn pinned_item(
        &self,
        root: &F::Id,
        folder: &[TreeEntry<F::Id>],
        pinned: &str,
    ) -> Result<Option<TreeEntry<F::Id>>, Reason> {
        let named = |items: &[TreeEntry<F::Id>], name: &str| items.iter().find(|item| item.name == name).cloned();
        match pinned.rsplit_once('/') {
            None => Ok(named(folder, pinned)),
            Some((below, name)) => {
                let items = self.folder(root, &format!("{}/{below}", self.path))?;
                Ok(items.and_then(|items| named(&items, name)))
            }
        }
    }

    /// The plugin header in a file, if it has one.
    fn header(&mut self, path: &str, item: &TreeEntry<F::Id>) -> Result<Option<Rc<PluginHeader>>, Reason> {
        if item.kind != TreeEntryKind::File {
            return Err(not_followed(path, item));
        }
        let read = || {
            let bytes = self.files.bytes(&item.id, MAX_SOURCE)?;
            Ok(plugin_header::parse(PluginKind::Plugin, &bytes))
        };
        let header = self
            .headers
            .get(&item.id, read)
            .map_err(|error| Reason::from_object(path, error))?;
        Ok((!header.name.is_empty()).then_some(header))
    }

    /// The stylesheet and its header. A plugin's file beside it changes nothing.
    fn stylesheet(&mut self, folder: &[TreeEntry<F::Id>]) -> Result<(String, Rc<PluginHeader>), Reason> {
        if let Some(header) = self.theme(folder)? {
            return Ok((STYLESHEET.to_owned(), header));
        }
        Err(match self.found_main_file(folder) {
            Ok((file, _)) => Reason::NoTheme(file),
            Err(failure @ Reason::Unreadable { .. }) => failure,
            Err(_) => Reason::NoThemeHeader,
        })
    }

    /// The header of the folder's stylesheet, if it is a theme's.
    fn theme(&mut self, folder: &[TreeEntry<F::Id>]) -> Result<Option<Rc<PluginHeader>>, Reason> {
        let Some(style) = folder.iter().find(|item| item.name == STYLESHEET) else {
            return Ok(None);
        };
        if style.kind != TreeEntryKind::File {
            return Err(not_followed(STYLESHEET, style));
        }
        let read = || {
            let bytes = self.files.bytes(&style.id, MAX_SOURCE)?;
            Ok(plugin_header::parse(PluginKind::Theme, &bytes))
        };
        let header = self
            .themes
            .get(&style.id, read)
            .map_err(|error| Reason::from_object(STYLESHEET, error))?;
        Ok((!header.name.is_empty()).then_some(header))
    }

    /// `readme.txt` before `readme.md`, in upper or lower case, as on WordPress.org.
    fn readme(
        &mut self,
        folder: &[TreeEntry<F::Id>],
        notes: &mut Vec<Reason>,
    ) -> Result<Option<(String, Rc<ReadmeFile>)>, Reason> {
        for item in by_rank(folder, |name| {
            ["readme.txt", "readme.md"].iter().position(|known| *known == name)
        }) {
            let read = || Ok(ReadmeFile::parse(&self.files.bytes(&item.id, MAX_SOURCE)?));
            if let Some(readme) = optional(item, notes, || self.readmes.get(&item.id, read))? {
                return Ok(Some((item.name.clone(), readme)));
            }
        }
        Ok(None)
    }

    fn changelogs(
        &mut self,
        folder: &[TreeEntry<F::Id>],
        notes: &mut Vec<Reason>,
    ) -> Result<Vec<Rc<Changelog>>, Reason> {
        let mut changelogs = Vec::new();
        for item in by_rank(folder, changelog_rank).into_iter().take(MAX_CHANGELOGS) {
            let read = || {
                Ok(Changelog::new(&html::decode(
                    &self.files.bytes(&item.id, MAX_CHANGELOG)?,
                )))
            };
            changelogs.extend(optional(item, notes, || self.changelogs.get(&item.id, read))?);
        }
        Ok(changelogs)
    }
}

/// A file that a release need not have. Problems become notes; only damage is an error.
fn optional<Id, T>(
    item: &TreeEntry<Id>,
    notes: &mut Vec<Reason>,
    read: impl FnOnce() -> Result<T, ObjectError>,
) -> Result<Option<T>, Reason> {
    let reason = match item.kind {
        TreeEntryKind::Folder => return Ok(None),
        TreeEntryKind::File => match read() {
            Ok(value) => return Ok(Some(value)),
            Err(error) => Reason::from_object(&item.name, error),
        },
        _ => not_followed(&item.name, item),
    };
    if let Reason::Unreadable { .. } = reason {
        return Err(reason);
    }
    notes.push(reason);
    Ok(None)
}

/// Best rank first, then by name, in lower case.
fn by_rank<Id>(folder: &[TreeEntry<Id>], rank: impl Fn(&str) -> Option<usize>) -> Vec<&TreeEntry<Id>> {
    let ranked = folder
        .iter()
        .filter_map(|item| Some(((rank(&item.name.to_ascii_lowercase())?, &item.name), item)));
    ranked.collect::<BTreeMap<_, _>>().into_values().collect()
}

/// Changelogs have many names: `CHANGELOG.md`, `changes.txt`, `HISTORY`.
fn changelog_rank(name: &str) -> Option<usize> {
    const STEMS: [&str; 7] = [
        "changelog",
        "change-log",
        "change_log",
        "changes",
        "history",
        "release-notes",
        "release_notes",
    ];
    const ENDINGS: [&str; 4] = [".md", ".txt", ".markdown", ""];
    let names = STEMS
        .iter()
        .flat_map(|stem| ENDINGS.iter().map(move |ending| (stem, ending)));
    names
        .enumerate()
        .find(|(_, (stem, ending))| name.strip_prefix(**stem) == Some(**ending))
        .map(|(rank, _)| rank)
}

fn not_followed<Id>(path: &str, item: &TreeEntry<Id>) -> Reason {
    let kind = match item.kind {
        TreeEntryKind::SymbolicLink => "symbolic link",
        TreeEntryKind::Submodule => "submodule",
        TreeEntryKind::Folder => "folder",
        TreeEntryKind::File => "file",
        TreeEntryKind::Special => Reason::SPECIAL,
    };
    Reason::NotFollowed {
        path: path.to_owned(),
        kind: kind.into(),
    }
}
