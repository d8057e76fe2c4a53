//! The `git status` of the registry's checkout: its branch, how far it is behind, and what is not committed.
//!
//! [`checkout`](crate::commands::license::checkout) uses it.

use std::path::Path;

use crate::commands::license::git;

/// The result of `git status`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct GitStatus {
    /// The upstream branch.
    pub upstream: String,
    /// Upstream commits that are missing here, as of the last fetch.
    pub behind: usize,
    /// Changed files of the registry, relative to the work tree.
    pub changed: Vec<String>,
}

impl GitStatus {
    /// Runs `git status` on the folder of the registry.
    ///
    /// # Errors
    ///
    /// Why the git status cannot be read.
    pub(super) fn read(registry: &Path) -> Result<Self, String> {
        // A submodule has a configuration of its own, and no license files.
        let arguments = [
            "status",
            "--porcelain=v2",
            "--branch",
            "--untracked-files=all",
            "--ignore-submodules=all",
            "-z",
        ];
        let text = git::look(registry, &arguments, Path::new("."))?;
        Ok(parse(&text.unwrap_or_default()))
    }
}

/// Parses git-status(1), porcelain version 2 with `-z`.
fn parse(text: &str) -> GitStatus {
    let mut status = GitStatus::default();
    let mut records = text.split('\0');
    while let Some(record) = records.next() {
        if let Some(upstream) = record.strip_prefix("# branch.upstream ") {
            status.upstream = upstream.to_owned();
        } else if let Some(counts) = record.strip_prefix("# branch.ab ") {
            status.behind = counts
                .split_once(" -")
                .and_then(|(_, behind)| behind.parse().ok())
                .unwrap_or(0);
        } else {
            // The name follows this many fields; the old name of a renamed file is a record of its own.
            let fields = match record.get(..2) {
                Some("1 ") => 8,
                Some("2 ") => 9,
                Some("u ") => 10,
                Some("? ") => 1,
                _ => continue,
            };
            status
                .changed
                .extend(record.splitn(fields + 1, ' ').nth(fields).map(str::to_owned));
            if fields == 9 {
                status.changed.extend(records.next().map(str::to_owned));
            }
        }
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_says_of_a_checkout_is_read_whatever_the_names_are() {
        let text = "# branch.oid 1\0# branch.head main\0# branch.upstream origin/main\0# branch.ab +1 -12\0\
            1 .M N... 100644 100644 100644 a b licenses/a b.toml\0\
            2 R. N... 100644 100644 100644 a b R100 new\nname\0old\0\
            u UU N... 100644 100644 100644 100644 a b c both\0? licenses/new.toml\0! ignored\0";
        let GitStatus {
            upstream,
            behind,
            changed,
        } = parse(text);
        assert_eq!((upstream.as_str(), behind), ("origin/main", 12));
        assert_eq!(
            changed,
            ["licenses/a b.toml", "new\nname", "old", "both", "licenses/new.toml"]
        );
        assert_eq!(parse(""), GitStatus::default());
    }
}
