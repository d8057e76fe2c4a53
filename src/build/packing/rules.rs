//! Which files of a plugin's folder are not packed, and by which rule.
//!
//! `.git*` and what is [never packed](is_never_packed) everywhere; `export-ignore` in any `.gitattributes`, as `git archive` has it; `.distignore` in the plugin's folder, as
//! `wp dist-archive` reads it; `exclude` of the entry. What one of them leaves out is left out.
//! [`packing_list`](mod@crate::build::packing::packing_list) walks the folder with these.

use std::fmt;
use std::rc::Rc;

use ignore::Match;

use crate::build::packing::attributes::{self, AttributeMacros};
use crate::build::remark::in_folder;
use countersign_model::ignore_rules::{MatchBudget, Patterns, TooManyPatterns};
use countersign_package::entry_name::is_never_packed;

/// The files with the rules of git.
pub(crate) const ATTRIBUTES: &str = ".gitattributes";

/// The file in which `wp dist-archive` finds its rules.
pub(crate) const DISTIGNORE: &str = ".distignore";

/// The member of an entry with rules.
pub(crate) const EXCLUDE: &str = "exclude";

/// The most bytes of all files with rules in a plugin's folder. The library compiles them in about a second.
const MAX_RULES: usize = 1 << 20;

/// The most `.gitattributes` that hold in one folder.
const MAX_NESTED: usize = 32;

/// Why a file or a folder is not packed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LeaveOut {
    /// Its name begins with `.git`.
    Git,
    /// File managers leave it behind, or it is for WordPress.org.
    Never,
    /// It has the attribute `export-ignore`, in this `.gitattributes`, by this pattern.
    ExportIgnore {
        /// The file, from the repository's root.
        file: String,
        /// The pattern.
        pattern: String,
    },
    /// It is `.distignore`, or this line of it fits.
    Distignore(String),
    /// This pattern of the entry's `exclude` fits.
    Exclude(String),
}

impl fmt::Display for LeaveOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Git => f.write_str(".git*"),
            Self::Never => f.write_str("never packed"),
            Self::ExportIgnore { file, pattern } => write!(f, "export-ignore in {file}: {pattern}"),
            Self::Distignore(pattern) => write!(f, "{DISTIGNORE}: {pattern}"),
            Self::Exclude(pattern) => write!(f, "exclude: {pattern}"),
        }
    }
}

/// The rules that hold in one folder, those of the folders above it among them.
pub(crate) struct Rules {
    /// Of each `.gitattributes` from the root down: its folder and its lines.
    attributes: Vec<(String, Rc<Patterns>)>,
    macros: AttributeMacros,
    /// Its path from the repository's root, and its lines.
    distignore: Option<(String, Patterns)>,
    exclude: Patterns,
    /// How many bytes of files were read.
    read: usize,
    left: MatchBudget,
}

impl Rules {
    /// The rules of an entry, before any file of the repository was read.
    pub(crate) fn new(exclude: &[String]) -> Result<Self, TooManyPatterns> {
        Ok(Self {
            attributes: Vec::new(),
            macros: AttributeMacros::new(),
            distignore: None,
            exclude: Patterns::new(exclude.iter().map(String::as_str))?,
            read: 0,
            left: MatchBudget::default(),
        })
    }

    /// Reads a `.gitattributes`. Only one at the repository's root (`is_root`) may define macros, for all others.
    pub(crate) fn read(&mut self, attributes: &[u8], is_root: bool) -> Result<Rc<Patterns>, TooManyPatterns> {
        self.count(attributes)?;
        let text = String::from_utf8_lossy(attributes);
        let lines = attributes::export_ignore(&text, is_root, &mut self.macros);
        Patterns::new(lines.iter().map(String::as_str)).map(Rc::new)
    }

    /// Applies a `.gitattributes` to its folder. `folder` is a path from the repository's root, empty for the root itself.
    pub(crate) fn enter(&mut self, folder: &str, attributes: Rc<Patterns>) -> Result<(), TooManyPatterns> {
        if attributes.is_empty() {
            return Ok(());
        }
        if self.attributes.len() == MAX_NESTED {
            return Err(TooManyPatterns);
        }
        self.attributes.push((folder.to_owned(), attributes));
        Ok(())
    }

    /// How many `.gitattributes` there are; for [`leave`](Self::leave).
    pub(crate) fn depth(&self) -> usize {
        self.attributes.len()
    }

    /// Forgets the `.gitattributes` of folders that were entered since.
    pub(crate) fn leave(&mut self, depth: usize) {
        self.attributes.truncate(depth);
    }

    /// Sets the `.distignore` of the plugin's folder, which is the file `path`.
    pub(crate) fn set_distignore(&mut self, path: &str, distignore: &[u8]) -> Result<(), TooManyPatterns> {
        self.count(distignore)?;
        let patterns = Patterns::new(String::from_utf8_lossy(distignore).lines())?;
        self.distignore = Some((path.to_owned(), patterns));
        Ok(())
    }

    fn count(&mut self, file: &[u8]) -> Result<(), TooManyPatterns> {
        self.read += file.len();
        if self.read > MAX_RULES {
            Err(TooManyPatterns)
        } else {
            Ok(())
        }
    }

    /// Why something is not packed: `path` from the repository's root, and `name` from the plugin's folder. Whatever is above
    /// it was asked for before, and is packed.
    ///
    /// # Errors
    /// All names asked for so far cost more than matching may cost; and the file whose patterns are in turn.
    pub(crate) fn leave_out(
        &mut self,
        path: &str,
        name: &str,
        is_folder: bool,
    ) -> Result<Option<LeaveOut>, (String, TooManyPatterns)> {
        let own_name = name.rsplit('/').next().unwrap_or(name);
        if own_name.starts_with(".git") {
            return Ok(Some(LeaveOut::Git));
        }
        if is_never_packed(own_name) {
            return Ok(Some(LeaveOut::Never));
        }
        if name == DISTIGNORE {
            return Ok(Some(LeaveOut::Distignore(DISTIGNORE.to_owned())));
        }
        // The innermost file that says anything decides.
        for (folder, patterns) in self.attributes.iter().rev() {
            let below = if folder.is_empty() {
                Some(path)
            } else {
                path.strip_prefix(folder.as_str())
                    .and_then(|rest| rest.strip_prefix('/'))
            };
            let Some(below) = below else { continue };
            let file = || in_folder(folder, ATTRIBUTES);
            let found = patterns.matched(below, is_folder, &mut self.left);
            match found.map_err(|error| (file(), error))? {
                Match::Ignore(glob) => {
                    let pattern = glob.original().to_owned();
                    return Ok(Some(LeaveOut::ExportIgnore { file: file(), pattern }));
                }
                Match::Whitelist(_) => break,
                Match::None => {}
            }
        }
        if let Some((file, patterns)) = &self.distignore {
            let found = patterns.matched(name, is_folder, &mut self.left);
            if let Match::Ignore(glob) = found.map_err(|error| (file.clone(), error))? {
                return Ok(Some(LeaveOut::Distignore(glob.original().to_owned())));
            }
        }
        let found = self.exclude.matched(name, is_folder, &mut self.left);
        match found.map_err(|error| (EXCLUDE.to_owned(), error))? {
            Match::Ignore(glob) => Ok(Some(LeaveOut::Exclude(glob.original().to_owned()))),
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(rules: &mut Rules, folder: &str, attributes: &str) {
        let attributes = rules.read(attributes.as_bytes(), folder.is_empty()).unwrap();
        rules.enter(folder, attributes).unwrap();
    }

    fn rule_for(rules: &mut Rules, name: &str, is_folder: bool) -> String {
        let rule = rules.leave_out(name, name, is_folder).unwrap();
        rule.map(|rule| rule.to_string()).unwrap_or_default()
    }

    #[test]
    fn each_rule_leaves_out_what_it_names() {
        let mut rules = Rules::new(&["/docs".to_owned(), "*.map".to_owned(), "!keep.map".to_owned()]).unwrap();
        enter(&mut rules, "", "/tests export-ignore\n*.md export-ignore\n");
        rules
            .set_distignore(".distignore", b"# comment\nnode_modules\n/build/*.log\n")
            .unwrap();
        for (name, is_folder, expected) in [
            (".gitignore", false, ".git*"),
            ("a/.github", true, ".git*"),
            ("a/.DS_Store", false, "never packed"),
            (".wordpress-org", true, "never packed"),
            ("tests", true, "export-ignore in .gitattributes: /tests"),
            ("a/tests", true, ""),
            ("a/readme.md", false, "export-ignore in .gitattributes: *.md"),
            ("docs", true, "exclude: /docs"),
            ("a/docs", true, ""),
            ("a/x.map", false, "exclude: *.map"),
            ("a/keep.map", false, ""),
            ("a/node_modules", true, ".distignore: node_modules"),
            ("build/x.log", false, ".distignore: /build/*.log"),
            (".distignore", false, ".distignore: .distignore"),
            ("acme.php", false, ""),
            ("git.php", false, ""),
        ] {
            assert_eq!(rule_for(&mut rules, name, is_folder), expected, "{name}");
        }
    }

    #[test]
    fn the_innermost_attributes_decide_and_paths_are_those_of_their_folder() {
        let mut rules = Rules::new(&[]).unwrap();
        enter(&mut rules, "", "*.md export-ignore\n/a/b/c.txt export-ignore\n");
        let outside = rules.depth();
        enter(&mut rules, "a", "keep.md -export-ignore\n/b/d.txt export-ignore\n");
        assert_eq!(rule_for(&mut rules, "a/keep.md", false), "");
        assert_eq!(
            rule_for(&mut rules, "a/x.md", false),
            "export-ignore in .gitattributes: *.md"
        );
        assert_eq!(
            rule_for(&mut rules, "a/b/d.txt", false),
            "export-ignore in a/.gitattributes: /b/d.txt"
        );
        assert_eq!(
            rule_for(&mut rules, "a/b/c.txt", false),
            "export-ignore in .gitattributes: /a/b/c.txt"
        );
        rules.leave(outside);
        assert_eq!(
            rule_for(&mut rules, "keep.md", false),
            "export-ignore in .gitattributes: *.md"
        );
    }
}
