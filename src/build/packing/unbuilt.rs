//! A folder that a build makes, that git ignores, and that the plugin's PHP or HTML loads from: sites would miss it.
//!
//! [`warnings`](crate::build::packing::warnings) says so.

use ignore::gitignore::Gitignore;

use crate::build::packing::packing_list::PackingList;
use crate::build::remark::in_folder;
use crate::build::source::assets;
use crate::build::source::source_tree::{SourceTree, TreeEntryKind};
use crate::model::ignore_rules::matcher;

/// Folders into which builds write.
const BUILT: [&str; 6] = ["build", "dist", "built", "compiled", "public", "bundle"];

/// Folders with other people's code, or with code that is broken on purpose.
pub(in crate::build) const OTHERS: [&str; 5] = ["vendor", "node_modules", "tests", "test", "fixtures"];

/// The file in which git finds its rules.
const GITIGNORE: &str = ".gitignore";

/// Size limit in bytes of a `.gitignore` and of each file that is searched.
const MAX_FILE: usize = 1 << 20;

/// The most files to search, and the most bytes of them in all.
const MAX_FILES: usize = 5_000;
const MAX_BYTES: usize = 64 << 20;

/// The first such folder, and the file and the line that load from it, all below the plugin's folder at `path` below
/// `root`. A folder of which anything is in `list` is there.
pub(super) fn unbuilt<F: SourceTree>(
    files: &F,
    root: &F::Id,
    path: &str,
    list: &PackingList<F::Id>,
) -> Option<(String, String, usize)> {
    let ignored = Ignored::of(files, root, path);
    if ignored.0.is_empty() {
        return None;
    }
    let is_there = |folder: &str| {
        let mut packed = list.files.iter();
        packed.any(|file| file.name.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')))
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
        let beside = file.name.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (line, text) in code.split(|byte| *byte == b'\n').enumerate() {
            for folder in named(text) {
                // From the plugin's folder, or from that of the file.
                for folder in [folder.clone(), in_folder(beside, &folder)] {
                    if !is_there(&folder) && ignored.has(&in_folder(path, &folder)) {
                        return Some((folder, file.name.clone(), line + 1));
                    }
                }
            }
        }
    }
    None
}

/// The `.gitignore` files that may be about such a folder, from the repository's root down to the plugin's folder, each
/// with its folder.
struct Ignored(Vec<(String, Gitignore)>);

impl Ignored {
    fn of<F: SourceTree>(files: &F, root: &F::Id, path: &str) -> Self {
        let mut found = Vec::new();
        let mut folder = String::new();
        let mut below = path.split('/').filter(|name| !name.is_empty());
        loop {
            let text = assets::walk(files, root.clone(), &folder).and_then(|tree| {
                let items = files.items(&tree).ok()?;
                let is_rules = |kind| kind == TreeEntryKind::File;
                let item = items
                    .iter()
                    .find(|item| item.name == GITIGNORE && is_rules(item.kind))?;
                files.bytes(&item.id, MAX_FILE).ok()
            });
            let text = String::from_utf8_lossy(&text.unwrap_or_default()).into_owned();
            if BUILT.iter().any(|name| text.contains(name))
                && let Ok(rules) = matcher(text.lines())
            {
                found.push((folder.clone(), rules));
            }
            match below.next() {
                Some(name) => folder = in_folder(&folder, name),
                None => return Self(found),
            }
        }
    }

    /// Whether git ignores a folder: its path from the repository's root.
    fn has(&self, path: &str) -> bool {
        self.0.iter().any(|(folder, rules)| {
            let below = if folder.is_empty() {
                Some(path)
            } else {
                path.strip_prefix(&**folder).and_then(|rest| rest.strip_prefix('/'))
            };
            below.is_some_and(|below| rules.matched_path_or_any_parents(below, true).is_ignore())
        })
    }
}

/// The folders in a line of code into which builds write: `assets/dist` in `'/assets/dist/app.js'`.
fn named(line: &[u8]) -> Vec<String> {
    let is_of_path = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-./@".contains(byte);
    let mut found = Vec::new();
    // Each piece of the line that may be a path.
    for piece in line.split(|byte| !is_of_path(byte)) {
        let Ok(text) = std::str::from_utf8(piece) else { continue };
        // An address, or a file above: nothing of this folder.
        if text.starts_with("//") || text.contains("..") {
            continue;
        }
        let is_below = text.starts_with('/');
        let text = text.trim_start_matches("./").trim_start_matches('/');
        let components: Vec<_> = text.split('/').collect();
        let Some(at) = components.iter().position(|component| BUILT.contains(component)) else {
            continue;
        };
        // A word alone is no path.
        if is_below || components.len() > 1 {
            found.push(components[..=at].join("/"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_to_built_folders_are_found_in_code_and_words_are_not() {
        let found = |line: &str| named(line.as_bytes()).join(" ");
        assert_eq!(found("plugins_url( 'build/index.js', __FILE__ )"), "build");
        assert_eq!(found("__DIR__ . '/build'"), "build");
        assert_eq!(found("<script src=\"assets/dist/app.min.js\">"), "assets/dist");
        assert_eq!(
            found("require './dist/a.php'; require \"/inc/compiled/b.php\";"),
            "dist inc/compiled"
        );
        for none in [
            "'public' => true",
            "$build = 'dist';",
            "https://example.com/dist/x.js",
            "'../build/x.js'",
            "rebuild/x",
        ] {
            assert_eq!(found(none), "", "{none}");
        }
    }
}
