//! Searches for a plugin or a theme that is not in its place, for example because it moved into a subfolder.

use std::collections::{HashSet, VecDeque};

use crate::build::report::outcome::Reason;
use crate::build::source::source_reader::SourceReader;
use crate::build::source::source_tree::{MAX_PATH, SourceTree, TreeEntry, TreeEntryKind};
use countersign_model::plugin::PluginKind;

/// How many folders to search.
const MAX_FOLDERS: usize = 200;

/// How many PHP files to read in each of them.
const MAX_PHP_FILES_ELSEWHERE: usize = 20;

impl<F: SourceTree> SourceReader<'_, F> {
    /// The reason that says where the plugin seems to be, if `reason` says that it is not in its place.
    pub(crate) fn moved(&mut self, tree: &F::Id, reason: &Reason) -> Option<Reason> {
        let is_absent = matches!(
            reason,
            Reason::NoPluginHeader | Reason::NoThemeHeader | Reason::PathAbsent(_)
        );
        is_absent.then(|| self.elsewhere(tree)).flatten().map(Reason::Moved)
    }

    /// The folder where the header seems to be: one that has a file of a usual name with a plugin header, else the only one
    /// with a header. Searches only a few folders.
    fn elsewhere(&mut self, tree: &F::Id) -> Option<String> {
        let mut waiting = VecDeque::from([(String::new(), tree.clone())]);
        let mut known = HashSet::from([tree.clone()]);
        let mut found = Vec::new();
        let mut looked_into = 0;
        while let Some((path, id)) = waiting.pop_front().filter(|_| looked_into < MAX_FOLDERS) {
            looked_into += 1;
            let Ok(items) = self.files.items(&id) else { continue };
            if path != self.path && self.kind == PluginKind::Theme {
                let is_theme = matches!(self.theme(&items), Ok(Some(_)));
                found.extend(is_theme.then(|| path.clone()));
            } else if path != self.path {
                let usual = self.usual.clone();
                let is_php = |item: &&TreeEntry<F::Id>| item.kind == TreeEntryKind::File && item.name.ends_with(".php");
                let with_header: Vec<_> = items
                    .iter()
                    .filter(is_php)
                    .take(MAX_PHP_FILES_ELSEWHERE)
                    .filter(|item| matches!(self.header(&item.name, item), Ok(Some(_))))
                    .collect();
                if with_header.iter().any(|item| usual.contains(&item.name)) {
                    return Some(path);
                }
                found.extend((!with_header.is_empty()).then(|| path.clone()));
            }
            let is_deep = path.matches('/').count() >= 2;
            let is_place = |item: &&TreeEntry<F::Id>| {
                item.kind == TreeEntryKind::Folder
                    && !item.name.starts_with('.')
                    && !["vendor", "node_modules", "tests"].contains(&&*item.name)
            };
            for item in items.iter().filter(is_place).filter(|_| !is_deep) {
                // A few trees of git can expand to very many folders.
                if !known.insert(item.id.clone()) || path.len() + item.name.len() > MAX_PATH {
                    continue;
                }
                let below = if path.is_empty() {
                    item.name.clone()
                } else {
                    format!("{path}/{}", item.name)
                };
                waiting.push_back((below, item.id.clone()));
            }
        }
        found.pop().filter(|_| found.is_empty())
    }
}
