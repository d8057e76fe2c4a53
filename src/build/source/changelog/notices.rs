//! Removes upgrade notices from changelog files, because another field has them.

use std::borrow::Cow;

use crate::build::source::changelog::entries::is_version_heading;
use crate::build::source::changelog::heading::{self, Mark};
use crate::build::source::markdown::BlockLines;

/// The changelog without its section of upgrade notices.
///
/// A section counts if it has version headings of its own. An "Upgrade Notice" inside a version's entry has none and
/// stays.
pub fn without_notices(markdown: &str) -> Cow<'_, str> {
    let mut kept: Cow<'_, str> = markdown.into();
    // Reading every line as a heading costs as much as the rest of a readme, and most changelogs have no notices.
    if !names_notices(markdown) {
        return kept;
    }
    while let Some((start, end)) = section(&kept) {
        kept = format!("{}{}", &kept[..start], &kept[end..]).into();
    }
    kept
}

fn names_notices(markdown: &str) -> bool {
    const NAME: &[u8] = b"upgrade notice";
    let bytes = markdown.as_bytes();
    let mut starts = memchr::memchr2_iter(b'u', b'U', bytes);
    starts.any(|at| {
        bytes[at..]
            .get(..NAME.len())
            .is_some_and(|name| name.eq_ignore_ascii_case(NAME))
    })
}

/// Where the first section of notices starts and ends.
fn section(markdown: &str) -> Option<(usize, usize)> {
    let mut start: Option<(usize, usize)> = None;
    let mut version_above = false;
    let mut has_deeper_versions = false;
    let mut has_versions_beside = false;
    let blocks = BlockLines::of(markdown);
    for NoticeLine { at, line, below } in lines(markdown) {
        if !blocks.may_be_heading(at, line) {
            continue;
        }
        let is_version = is_version_heading(line, below);
        let Some((level, title)) = titled(line, below) else {
            continue;
        };
        match start {
            None if !is_version && is_notice(&title) => start = Some((at, level)),
            None => version_above |= is_version,
            Some((_, own)) if is_version && level > own => has_deeper_versions = true,
            Some((_, own)) if is_version && level == own => has_versions_beside = true,
            Some((_, own)) if level > own => {}
            Some((from, _)) => {
                let is_section = if has_versions_beside {
                    !version_above && !is_version && is_changelog(&title)
                } else {
                    has_deeper_versions
                };
                if is_section {
                    return Some((from, at));
                }
                version_above |= is_version;
                has_deeper_versions = false;
                has_versions_beside = false;
                start = (!is_version && is_notice(&title)).then_some((at, level));
            }
        }
    }
    let (from, _) = start.filter(|_| has_deeper_versions && !has_versions_beside)?;
    Some((from, markdown.len()))
}

/// The level of a heading, 1 for the highest, and its title in lower case.
fn titled(line: &str, below: &str) -> Option<(usize, String)> {
    let (Mark::Heading(marks), title) = heading::unmark(line, below) else {
        return None;
    };
    // WordPress counts the other way round: `== Section ==` is above `= 1.2 =`.
    let level = if line.trim_start().starts_with('=') {
        4 - marks.min(3)
    } else {
        marks
    };
    let title = title.trim_matches(['#', '=', '*', ':', ' ', '\t']);
    Some((level, title.to_ascii_lowercase()))
}

fn is_notice(title: &str) -> bool {
    matches!(title, "upgrade notice" | "upgrade notices")
}

fn is_changelog(title: &str) -> bool {
    matches!(
        title,
        "changelog" | "change log" | "changes" | "history" | "release notes"
    )
}

struct NoticeLine<'a> {
    at: usize,
    line: &'a str,
    below: &'a str,
}

fn lines(markdown: &str) -> impl Iterator<Item = NoticeLine<'_>> {
    let mut rest = markdown.split_inclusive('\n').peekable();
    let mut at = 0;
    std::iter::from_fn(move || {
        let line = rest.next()?;
        let found = NoticeLine {
            at,
            line: line.trim_end(),
            below: rest.peek().map_or("", |below| below.trim_end()),
        };
        at += line.len();
        Some(found)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::source::changelog::of_version;

    #[test]
    fn notices_of_several_versions_are_no_changelog() {
        for (notices, changelog) in [
            (
                "## Upgrade Notice\n\n### 1.2\n\nBack up.\n\n### 1.1\n\nOld.\n\n",
                "## Changelog\n\n### 1.2\n\n* a\n\n### 1.1\n\n* b\n",
            ),
            ("# Upgrade Notice\n## 1.2\nBack up.\n", "# Changelog\n## 1.2\n* a\n"),
            (
                "== Upgrade Notice ==\n= 1.2 =\nBack up.\n",
                "== Changelog ==\n= 1.2 =\n* a\n",
            ),
            (
                "Upgrade Notices\n---\n### 1.2\nBack up.\n",
                "Changelog\n---\n### 1.2\n* a\n",
            ),
            (
                "## Upgrade Notice\n## 1.2\nBack up.\n## 1.1\nOld.\n",
                "## Changelog\n## 1.2\n* a\n",
            ),
        ] {
            for markdown in [
                format!("{notices}{changelog}"),
                format!("# Acme Forms\n\n{notices}{changelog}"),
            ] {
                let kept = without_notices(&markdown);
                assert!(
                    !kept.contains("Back up") && kept.ends_with(changelog),
                    "{markdown}\n{kept}"
                );
                let entry = of_version(&*kept, &"1.2".parse().unwrap()).unwrap();
                assert_eq!(entry.text, "- a", "{markdown}");
            }
        }
        let behind = "# Changelog\n## 1.2\n* a\n# Upgrade Notice\n## 1.2\nBack up.\n";
        assert_eq!(without_notices(behind), "# Changelog\n## 1.2\n* a\n");
    }

    #[test]
    fn a_notice_inside_an_entry_stays() {
        for markdown in [
            "## 1.2\n### Upgrade Notice\nBack up.\n### Fixed\n* a\n## 1.1\n### Upgrade Notice\nOld.\n",
            "## Upgrade Notice\n## 1.2\n* a\n",
            "## 1.2\n## Upgrade Notice\nBack up.\n## 1.1\n* b\n## Changelog\n",
            "# Changelog\n\n= 1.2 =\n* Upgrade Notice\n",
        ] {
            assert_eq!(without_notices(markdown), markdown);
        }
    }
}
