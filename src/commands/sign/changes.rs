//! What a package changes against the last one that was signed: the signer's first question.

use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;

use serde::Serialize;
use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices, group_diff_ops};

use countersign_files::regular_file;
use countersign_model::slug::Slug;
use countersign_model::text::printable::Printable;
use countersign_model::version::Version;
use countersign_package::MAX_PACKED;
use countersign_package::archive::{Archive, ArchiveError};
use countersign_package::catalog::package_path;
use countersign_package::difference::{PackageDifference, difference};
use countersign_package::read_at::ReadAt;
use countersign_package::release::copy;
use countersign_registry::release_chain::ReleaseChain;

/// A larger file is not shown line by line.
const MAX_SHOWN: u64 = 1 << 20;

/// Lines around a change.
const CONTEXT: usize = 3;

/// The last package that was signed, if it is on this machine.
#[derive(Debug)]
pub(super) struct LastSigned {
    pub(super) version: Version,
    archive: Option<Archive<File>>,
}

/// What changed since, for `--json`.
#[derive(Debug, Serialize)]
pub(super) struct SignedChanges {
    since: Option<Version>,
    compared: bool,
    added: Vec<String>,
    removed: Vec<String>,
    changed: Vec<String>,
}

impl LastSigned {
    /// The package of the highest number that is not of this version; `None` where this is the first.
    pub(super) fn find(chain: &ReleaseChain, version: &Version, releases: &Path, slug: &Slug) -> Option<Self> {
        let mut before = chain.releases().iter().rev();
        let last = before.find(|release| !release.is_replaced && release.statement.version != *version)?;
        let found = &last.statement.version;
        let file = regular_file::open(&package_path(releases, slug, found), MAX_PACKED).ok();
        // SECURITY: the comparison is worth something with the package that was signed, and with no other.
        let signed = file.filter(|file| copy::check(file, &last.statement.package).is_ok());
        Some(Self {
            version: found.clone(),
            archive: signed.and_then(|file| Archive::check(file).ok()),
        })
    }
}

impl SignedChanges {
    /// What is in `new` and was not in the last signed package.
    pub(super) fn between<R: ReadAt>(last: Option<&LastSigned>, new: &Archive<R>) -> Self {
        let archive = last.and_then(|last| last.archive.as_ref());
        let PackageDifference {
            added,
            removed,
            changed,
        } = archive.map(|archive| difference(archive, new)).unwrap_or_default();
        Self {
            since: last.map(|last| last.version.clone()),
            compared: archive.is_some(),
            added: added.into_iter().map(|file| file.name).collect(),
            removed: removed.into_iter().map(|file| file.name).collect(),
            changed: changed.into_iter().map(|file| file.name).collect(),
        }
    }

    /// The same as text.
    pub(super) fn text(&self) -> String {
        let Some(since) = &self.since else {
            return "changes    the first release that is signed: all files are new\n".to_owned();
        };
        if !self.compared {
            return format!(
                "changes    unknown: the package of {since}, the last signed release, is not in releases/\n"
            );
        }
        let counts = [
            (self.added.len(), "added"),
            (self.changed.len(), "changed"),
            (self.removed.len(), "removed"),
        ];
        let counts = counts.map(|(count, what)| format!("{count} {what}")).join(", ");
        let mut text = format!("changes    since {since}: {counts}\n");
        for (sign, names) in [('+', &self.added), ('~', &self.changed), ('-', &self.removed)] {
            for name in names {
                // A String takes any text.
                let _ = writeln!(text, "  {sign} {}", Printable(name));
            }
        }
        text
    }
}

/// Every added or changed file line by line, as `diff -u` shows it.
///
/// # Errors
///
/// Where an archive can no longer be read.
pub(super) fn diff<R: ReadAt>(last: Option<&LastSigned>, new: &Archive<R>) -> Result<String, ArchiveError> {
    let old = last.and_then(|last| last.archive.as_ref());
    let mut text = String::new();
    for file in new.files() {
        let before = old.and_then(|old| Some((old, old.files().find(|other| other.name == file.name)?)));
        if before.is_some_and(|(_, before)| (before.size, before.crc) == (file.size, file.crc)) {
            continue;
        }
        let name = Printable(file.name.as_str());
        let is_large = file.size > MAX_SHOWN || before.is_some_and(|(_, before)| before.size > MAX_SHOWN);
        let after = match is_large {
            true => Err(()),
            false => String::from_utf8(new.read(file)?).map_err(drop),
        };
        let before = match before {
            None => Ok(String::new()),
            Some(_) if is_large => Err(()),
            Some((old, before)) => String::from_utf8(old.read(before)?).map_err(drop),
        };
        match (before, after) {
            (Ok(before), Ok(after)) => {
                let _ = write!(text, "--- {name}\n+++ {name}\n{}", unified(&before, &after));
            }
            _ => {
                let _ = writeln!(text, "{name}: not shown: no text, or larger than 1 MiB");
            }
        }
    }
    Ok(text)
}

/// The hunks of a unified diff.
fn unified(before: &str, after: &str) -> String {
    let old: Vec<_> = before.lines().collect();
    let new: Vec<_> = after.lines().collect();
    let mut text = String::new();
    for hunk in group_diff_ops(capture_diff_slices(Algorithm::Myers, &old, &new), CONTEXT) {
        let from = hunk
            .first()
            .map(|op| (op.old_range().start + 1, op.new_range().start + 1));
        let (old_line, new_line) = from.unwrap_or((1, 1));
        let _ = writeln!(text, "@@ -{old_line} +{new_line} @@");
        hunk.iter().for_each(|op| lines(&mut text, op, &old, &new));
    }
    text
}

fn lines(text: &mut String, op: &DiffOp, old: &[&str], new: &[&str]) {
    let mut write = |sign: char, lines: &[&str]| {
        for line in lines {
            let _ = writeln!(text, "{sign}{}", Printable(line));
        }
    };
    if op.tag() == DiffTag::Equal {
        return write(' ', &new[op.new_range()]);
    }
    write('-', &old[op.old_range()]);
    write('+', &new[op.new_range()]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_package::archive::testing::zip_of;

    #[test]
    fn added_and_changed_lines_are_shown_with_what_is_around_them() {
        assert_eq!(unified("a\nb\nc\n", "a\nB\nc\n"), "@@ -1 +1 @@\n a\n-b\n+B\n c\n");
        assert_eq!(unified("", "a\n"), "@@ -1 +1 @@\n+a\n");
        assert_eq!(unified("a\n", "a\n"), "");
    }

    #[test]
    fn of_the_first_package_every_file_is_new_and_no_escape_reaches_the_terminal() {
        let binary: [(&str, &[u8]); 2] = [("f/a.php", b"\x1b[2J\n"), ("f/b.png", b"\xff\xfe")];
        let bytes = zip_of(&binary);
        let archive = Archive::check(&bytes[..]).unwrap();
        let shown = diff(None, &archive).unwrap();
        assert_eq!(
            shown,
            "--- f/a.php\n+++ f/a.php\n@@ -1 +1 @@\n+\\u{1b}[2J\nf/b.png: not shown: no text, or larger than 1 MiB\n"
        );
        let changes = SignedChanges::between::<&[u8]>(None, &archive);
        assert_eq!(
            changes.text(),
            "changes    the first release that is signed: all files are new\n"
        );
    }
}
