//! A folder that a build makes, that git ignores, and that the plugin's PHP or HTML loads from: sites would miss it.
//!
//! [`warnings`](crate::build::packing::warnings) says so.

use ignore::Match;

use crate::build::packing::packing_list::PackingList;
use crate::build::remark::in_folder;
use crate::build::source::assets;
use crate::build::source::source_tree::{SourceTree, TreeEntryKind};
use countersign_model::ignore_rules::{MatchBudget, Patterns, TooManyPatterns};

/// Folders into which builds write.
const BUILT: [&str; 6] = ["build", "dist", "built", "compiled", "public", "bundle"];

/// Folders into which composer writes, and tools that give packages a namespace of the plugin's own: PHP-Scoper and Strauss.
const PACKAGES: [&str; 3] = ["vendor", "vendor-prefixed", "vendor_prefixed"];

/// Folders with other people's code, or with code that is broken on purpose.
pub(in crate::build) const OTHERS: [&str; 7] = [
    "vendor",
    "vendor-prefixed",
    "vendor_prefixed",
    "node_modules",
    "tests",
    "test",
    "fixtures",
];

/// Functions by which code looks whether a file is there before it loads it.
const GUARDS: [&[u8]; 3] = [b"file_exists", b"is_readable", b"is_file"];

/// The file in which git finds its rules.
const GITIGNORE: &str = ".gitignore";

/// Size limit in bytes of a `.gitignore` and of each file that is searched.
const MAX_FILE: usize = 1 << 20;

/// The most files to search, and the most bytes of them in all.
const MAX_FILES: usize = 5_000;
const MAX_BYTES: usize = 64 << 20;

/// The most `.gitignore` files to read.
const MAX_RULES: usize = 100;

/// The first such folder, and the file and the line that load from it, all below the plugin's folder at `path` below
/// `root`. A folder of which anything is in `list` is there. Packages that code looks for before it loads them may be absent.
pub(super) fn unbuilt<F: SourceTree>(
    files: &F,
    root: &F::Id,
    path: &str,
    list: &PackingList<F::Id>,
) -> Option<(String, String, usize)> {
    let mut ignored = Ignored::of(files, root, path, list);
    if ignored.rules.is_empty() {
        return None;
    }
    let is_there = |folder: &str| {
        let inside = format!("{folder}/");
        let first = list.files.partition_point(|file| file.name < inside);
        list.files.get(first).is_some_and(|file| file.name.starts_with(&inside))
    };
    let is_searched = |name: &str| {
        let is_code = [".php", ".html", ".htm"].iter().any(|ending| name.ends_with(ending));
        is_code && !name.split('/').any(|component| OTHERS.contains(&component))
    };
    let mut left = MAX_BYTES;
    for file in list.files.iter().filter(|file| is_searched(&file.name)).take(MAX_FILES) {
        let Ok(code) = files.bytes(&file.id, MAX_FILE.min(left)) else {
            continue;
        };
        left -= code.len();
        if !may_name_a_folder(&code) {
            continue;
        }
        let code = without_comments(code);
        let is_guarded = || GUARDS.iter().any(|guard| memchr::memmem::find(&code, guard).is_some());
        let beside = file.name.rsplit_once('/').map_or("", |(folder, _)| folder);
        let lines = code.split(|byte| *byte == b'\n').enumerate();
        for (line, text) in lines.filter(|(_, text)| may_name_a_folder(text)) {
            for named in paths(text) {
                // From the plugin's folder, or from that of the file.
                let from_root = Some(named.to_owned()).filter(|named| !named.contains(".."));
                let loaded = [from_root, resolved(beside, named)].into_iter().flatten();
                for loaded in loaded {
                    let Some(folder) = folder_in(&loaded) else { continue };
                    let is_missing = !is_there(folder) && ignored.has(path, folder, &loaded);
                    let name = folder.rsplit('/').next().unwrap_or_default();
                    if is_missing && !(PACKAGES.contains(&name) && is_guarded()) {
                        return Some((folder.to_owned(), file.name.clone(), line + 1));
                    }
                }
            }
        }
    }
    None
}

/// The `.gitignore` files that may be about such a folder, from the repository's root down into the plugin's folder, each
/// with its folder.
struct Ignored {
    rules: Vec<(String, Patterns)>,
    left: MatchBudget,
}

impl Ignored {
    fn of<F: SourceTree>(files: &F, root: &F::Id, path: &str, list: &PackingList<F::Id>) -> Self {
        let mut folders = vec![String::new()];
        for name in path.split('/').filter(|name| !name.is_empty()) {
            folders.push(in_folder(folders.last().map_or("", String::as_str), name));
        }
        let below = list
            .left_out
            .iter()
            .filter_map(|file| file.name.strip_suffix(GITIGNORE)?.strip_suffix('/'));
        folders.extend(below.take(MAX_RULES).map(|folder| in_folder(path, folder)));
        let rules = |folder: &str| {
            let items = files.items(&assets::walk(files, root.clone(), folder)?).ok()?;
            let mut items = items.iter();
            let item = items.find(|item| item.name == GITIGNORE && item.kind == TreeEntryKind::File)?;
            let text = String::from_utf8_lossy(&files.bytes(&item.id, MAX_FILE).ok()?).into_owned();
            // Most of them say nothing of such folders.
            let mut names = BUILT.iter().chain(&PACKAGES);
            names.any(|name| text.contains(name)).then_some(())?;
            Patterns::new(text.lines()).ok()
        };
        let with_rules = |folder: String| rules(&folder).map(|rules| (folder, rules));
        Self {
            rules: folders.into_iter().filter_map(with_rules).collect(),
            left: MatchBudget::default(),
        }
    }

    /// Whether git ignores a folder of the plugin's folder at `path`, or what is loaded from it; false where matching would
    /// cost too much.
    fn has(&mut self, path: &str, folder: &str, loaded: &str) -> bool {
        self.ignores(&in_folder(path, folder), true)
            || loaded != folder && self.ignores(&in_folder(path, loaded), false)
    }

    fn ignores(&mut self, name: &str, is_folder: bool) -> bool {
        for (folder, rules) in self.rules.iter().rev() {
            let below = if folder.is_empty() {
                Some(name)
            } else {
                name.strip_prefix(&**folder).and_then(|rest| rest.strip_prefix('/'))
            };
            let Some(below) = below else { continue };
            match rules.matched_or_above(below, is_folder, &mut self.left) {
                Ok(Match::None) => {}
                Ok(found) => return found.is_ignore(),
                Err(TooManyPatterns) => return false,
            }
        }
        false
    }
}

/// Quickly rejects most files and most lines: a slash is beside such a folder in every path that has one.
fn may_name_a_folder(code: &[u8]) -> bool {
    let is_beside = |at: usize, name: &&str| {
        let name = name.as_bytes();
        code[..at].ends_with(name) || code[at + 1..].starts_with(name)
    };
    memchr::memchr_iter(b'/', code).any(|at| BUILT.iter().chain(&PACKAGES).any(|name| is_beside(at, name)))
}

/// The texts in a line of code that may be paths with such a folder: `assets/dist/app.js` in `'/assets/dist/app.js'`.
fn paths(line: &[u8]) -> impl Iterator<Item = &str> {
    let is_of_path = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-./@".contains(byte);
    line.split(move |byte| !is_of_path(byte)).filter_map(|piece| {
        let text = std::str::from_utf8(piece).ok()?;
        // An address.
        if text.starts_with("//") {
            return None;
        }
        let named = text
            .trim_start_matches("./")
            .trim_start_matches('/')
            .trim_end_matches('/');
        // A word alone is no path.
        (folder_in(named).is_some() && (text.starts_with('/') || named.contains('/'))).then_some(named)
    })
}

/// The start of a path, up to the first folder into which builds or composer write: `assets/dist` of `assets/dist/app.js`.
fn folder_in(path: &str) -> Option<&str> {
    let mut end = 0;
    for component in path.split('/') {
        end += component.len();
        if BUILT.contains(&component) || PACKAGES.contains(&component) {
            return Some(&path[..end]);
        }
        end += 1;
    }
    None
}

/// A path from a folder, without `..`; `None` if it leads out of the plugin's folder.
fn resolved(folder: &str, path: &str) -> Option<String> {
    let mut components: Vec<&str> = folder.split('/').filter(|name| !name.is_empty()).collect();
    for component in path.split('/') {
        match component {
            "" | "." => {}
            ".." => drop(components.pop()?),
            name => components.push(name),
        }
    }
    Some(components.join("/"))
}

/// Where in a file the next byte is.
#[derive(Clone, Copy)]
enum CodePlace {
    Html,
    HtmlComment,
    Php,
    /// In a text, which ends with this quotation mark.
    Text(u8),
    LineComment,
    Comment,
}

/// PHP or HTML with blanks in place of comments.
fn without_comments(mut code: Vec<u8>) -> Vec<u8> {
    let mut place = CodePlace::Html;
    let mut at = 0;
    while at < code.len() {
        let rest = &code[at..];
        let (next, length) = match place {
            CodePlace::Html if rest.starts_with(b"<?") => (CodePlace::Php, 2),
            CodePlace::Html if rest.starts_with(b"<!--") => (CodePlace::HtmlComment, 1),
            CodePlace::HtmlComment if rest.starts_with(b"-->") => (CodePlace::Html, 3),
            CodePlace::Php | CodePlace::LineComment if rest.starts_with(b"?>") => (CodePlace::Html, 2),
            CodePlace::Php if rest.starts_with(b"/*") => (CodePlace::Comment, 2),
            CodePlace::Php if rest.starts_with(b"//") => (CodePlace::LineComment, 1),
            // `#[Attribute]`
            CodePlace::Php if rest[0] == b'#' && rest.get(1) != Some(&b'[') => (CodePlace::LineComment, 1),
            CodePlace::Php if matches!(rest[0], b'\'' | b'"' | b'`') => (CodePlace::Text(rest[0]), 1),
            CodePlace::Text(_) if rest[0] == b'\\' => (place, 2),
            CodePlace::Text(mark) if rest[0] == mark => (CodePlace::Php, 1),
            CodePlace::LineComment if rest[0] == b'\n' => (CodePlace::Php, 1),
            CodePlace::Comment if rest.starts_with(b"*/") => (CodePlace::Php, 2),
            _ => (place, 1),
        };
        let end = code.len().min(at + length);
        if matches!(
            next,
            CodePlace::HtmlComment | CodePlace::LineComment | CodePlace::Comment
        ) || matches!(place, CodePlace::Comment)
        {
            let comment = code[at..end].iter_mut().filter(|byte| **byte != b'\n');
            comment.for_each(|byte| *byte = b' ');
        }
        place = next;
        at = end;
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_to_built_folders_are_found_in_code_and_words_are_not() {
        let found = |line: &str| paths(line.as_bytes()).collect::<Vec<_>>().join(" ");
        assert_eq!(found("plugins_url( 'build/index.js', __FILE__ )"), "build/index.js");
        assert_eq!(found("__DIR__ . '/build'"), "build");
        assert_eq!(
            found("<script src=\"assets/dist/app.min.js\">"),
            "assets/dist/app.min.js"
        );
        assert_eq!(
            found("require './dist/a.php'; require \"/inc/compiled/b.php\";"),
            "dist/a.php inc/compiled/b.php"
        );
        assert_eq!(found("'/../build/x.js'"), "../build/x.js");
        for none in [
            "'public' => true",
            "$build = 'dist';",
            "https://example.com/dist/x.js",
            "rebuild/x",
        ] {
            assert_eq!(found(none), "", "{none}");
        }
        for (folder, path, expected) in [
            ("inc/a", "../build/x.js", Some("inc/build/x.js")),
            ("inc", "../build", Some("build")),
            ("", "../build/x.js", None),
            ("inc", "dist/./x", Some("inc/dist/x")),
        ] {
            assert_eq!(resolved(folder, path).as_deref(), expected, "{folder} {path}");
        }
    }

    #[test]
    fn comments_are_blank_and_texts_are_not() {
        for (code, expected) in [
            ("<?php a(); // b\nc", "<?php a();     \nc"),
            ("<?php # b ?> // d", "<?php     ?> // d"),
            ("<?php #[A]\n/* b\n */c", "<?php #[A]\n    \n   c"),
            (
                "<?php '// a' . \"\\\"# b\" . '\\'' // c",
                "<?php '// a' . \"\\\"# b\" . '\\''     ",
            ),
            ("a 'b <!-- c\n--> d", "a 'b       \n--> d"),
            ("<?php /* a", "<?php     "),
            ("<?php '\\", "<?php '\\"),
        ] {
            let blank = without_comments(code.as_bytes().to_vec());
            assert_eq!(String::from_utf8(blank).unwrap(), expected, "{code}");
        }
    }
}
