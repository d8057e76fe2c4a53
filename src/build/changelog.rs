//! Changelogs: the entry of exactly one version, and the latest entries as HTML.
//!
//! Takes the readme's section, a changelog file or a tag's message. What is found goes to the manifest's `changelog` and
//! `sections.changelog`. `heading` knows what a version heading looks like.

mod heading;
mod known;
mod title;

use std::borrow::Cow;
use std::rc::Rc;

use crate::model::version::Version;

use super::html;
use heading::{Heading, Mark};
use known::Known;

/// The longest plain-text entry, in bytes; a longer one is cut at a line.
pub const ENTRY_LIMIT: usize = 16 * 1024;

/// What stands under one version heading.
struct Entry<'a> {
    heading: Heading,
    /// Markdown.
    body: Cow<'a, str>,
}

/// The entry of exactly this version as plain text; `None` where there is none, or it is empty or only a link.
///
/// A heading that leaves out zeros (`1.2` for 1.2.0) or adds them counts where no heading is exact and no other differs only so.
/// An entry ends at the next version heading, whatever its style. At most [`ENTRY_LIMIT`] bytes.
pub fn of_version(changelog_markdown: &str, version: &Version) -> Option<String> {
    find(changelog_markdown, version).and_then(|markdown| entry_text(&markdown))
}

/// The latest entries as sanitized HTML: as many whole ones as `limit_bytes` hold, in the order of the changelog.
///
/// A changelog without version headings is taken as one entry; one that is only a link is empty.
pub fn to_html(changelog_markdown: &str, limit_bytes: usize) -> String {
    let mut html = String::new();
    let mut found = false;
    let mut entries = entries(changelog_markdown);
    while let Some(piece) = entries.next_html() {
        found = true;
        if html.len() + piece.len() + 1 > limit_bytes {
            return html;
        }
        html.push_str(&piece);
        html.push('\n');
    }
    if found || points_elsewhere(&html::to_plain_text(changelog_markdown)) {
        return html;
    }
    let whole = html::from_markdown(changelog_markdown);
    if whole.len() <= limit_bytes { whole.to_string() } else { String::new() }
}

/// What an annotated tag's message says beyond the version, as plain text. Signatures are cut off.
pub fn from_tag_message(message: &str, version: &Version) -> Option<String> {
    let message = ["-----BEGIN PGP", "-----BEGIN SSH"]
        .iter()
        .filter_map(|armor| message.find(armor))
        .min()
        .map_or(message, |end| &message[..end])
        .trim();
    of_version(message, version).or_else(|| {
        let body = match message.split_once('\n') {
            Some((first, rest)) if repeats(first, version) => rest,
            None if repeats(message, version) => "",
            _ => message,
        };
        let is_of_others = Entries::new(body, false).next().is_some();
        if is_of_others { None } else { entry_text(body) }
    })
}

/// An entry as plain text.
fn entry_text(markdown: &str) -> Option<String> {
    let text = html::to_plain_text(markdown);
    (!text.is_empty() && !points_elsewhere(&text)).then(|| html::cut_at_line(&text, ENTRY_LIMIT).to_owned())
}

/// Whether the line names the version in a few words and says nothing else: `Release 1.2.3`, `Acme Forms v1.2.3`.
fn repeats(line: &str, version: &Version) -> bool {
    let line = line.trim().trim_end_matches(['.', '!']);
    let is_heading = || {
        heading::read(line, "", false).is_some_and(|heading| {
            heading.text == heading.title.len() && heading.versions.iter().any(|named| named == version.as_str())
        })
    };
    line.split_whitespace().count() <= 5 && (line.ends_with(version.as_str()) || is_heading())
}

/// The Markdown under the headings of this version, also where it is empty.
pub(super) fn find(markdown: &str, version: &Version) -> Option<String> {
    let wanted = canonical(version.as_str());
    let mut exact = Vec::new();
    let mut equivalent = Vec::new();
    for entry in entries(markdown) {
        let named = |same: &dyn Fn(&str) -> bool| entry.heading.versions.iter().any(|version| same(version));
        if named(&|other| other.eq_ignore_ascii_case(version.as_str())) {
            exact.push(entry.body);
        } else if !exact.is_empty() {
            break;
        } else if named(&|other| canonical(other) == wanted) {
            equivalent.push(entry.body);
        }
    }
    match (exact.is_empty(), equivalent.len()) {
        (false, _) => Some(exact.join("\n\n")),
        (true, 1) => equivalent.pop().map(Cow::into_owned),
        _ => None,
    }
}

/// A version with at least three numbers, no signs and no capitals: `1.2-RC.1` and `1.2.0 rc1` are both `1.2.0rc1`.
///
/// A fourth number stays: 1.1.8.0 is not 1.1.8.
fn canonical(version: &str) -> String {
    let end = version.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(version.len());
    let (numbers, suffix) = version.split_at(end);
    let numbers = numbers.trim_end_matches('.');
    let zeros = ".0".repeat(2_usize.saturating_sub(numbers.matches('.').count()));
    let suffix = suffix.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase());
    numbers.chars().chain(zeros.chars()).chain(suffix).collect()
}

/// The entries in the order of the changelog. What stands before the first version heading is left out.
fn entries(markdown: &str) -> Entries<'_> {
    // Lists such as `* 1.1 Fixed a bug` count only where nothing better does: in other changelogs they are content.
    let entries = Entries::new(markdown, false);
    if entries.next.is_some() { entries } else { Entries::new(markdown, true) }
}

/// Walks from heading to heading.
struct Entries<'a> {
    markdown: &'a str,
    loose: bool,
    /// Where the line of the next heading begins, and the heading unless it was not read this time.
    next: Option<(usize, Option<Heading>)>,
}

impl<'a> Entries<'a> {
    fn new(markdown: &'a str, loose: bool) -> Self {
        let mut entries = Self { markdown, loose, next: None };
        entries.next = entries.text_and_heading(0, None).1;
        entries
    }

    /// The text from `start` up to the next heading that may follow `open`, and that heading.
    fn text_and_heading(&self, start: usize, open: Option<&Heading>) -> (&'a str, Option<(usize, Option<Heading>)>) {
        let mut lines = self.markdown[start..].split_inclusive('\n').peekable();
        let mut at = start;
        let mut closed = None;
        while let Some(line) = lines.next() {
            let below = lines.peek().copied().unwrap_or_default();
            // A heading in other words parts two entries only where it looks like theirs.
            let parts =
                |heading: &Heading| !heading.versions.is_empty() || open.is_some_and(|open| open.mark == heading.mark);
            if let Some(heading) = heading::read(without_end(line), below, self.loose).filter(parts) {
                return (&self.markdown[start..closed.unwrap_or(at)], Some((at, Some(heading))));
            }
            if closed.is_none() && closes(line, below) {
                closed = Some(at);
            }
            at += line.len();
        }
        (&self.markdown[start..closed.unwrap_or(at)], None)
    }

    /// The next entry as HTML. Most entries come back from tag to tag, and are not even read again.
    fn next_html(&mut self) -> Option<Rc<str>> {
        let start = self.next.as_ref()?.0;
        // In a loose changelog lines are read in another way.
        if let Some(known) = Known::of(&self.markdown[start..]).filter(|_| !self.loose) {
            self.next = Some((start + known.length, None));
            return Some(known.html);
        }
        let entry = self.next()?;
        let html = html::from_markdown(&format!("#### {}\n\n{}", entry.heading.title, entry.body));
        if let (Some((next, _)), false) = (&self.next, self.loose) {
            Known { length: next - start, html: html.clone() }.keep(&self.markdown[start..]);
        }
        Some(html)
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        let (start, heading) = self.next.take()?;
        let mut lines = self.markdown[start..].split_inclusive('\n');
        let (line, below) = (lines.next()?, lines.next().unwrap_or_default());
        let heading = heading.or_else(|| heading::read(without_end(line), below, self.loose))?;
        let underline = if is_underline(below) { below.len() } else { 0 };
        let (text, next) = self.text_and_heading(start + line.len() + underline, Some(&heading));
        self.next = next;
        let beside = &heading.title[heading.text..];
        let body = if beside.is_empty() { text.into() } else { format!("{beside}\n{text}").into() };
        Some(Entry { heading, body })
    }
}

fn without_end(line: &str) -> &str {
    line.trim_end_matches(['\r', '\n'])
}

/// Whether a heading without a version ends the entry: `= Older versions =` below the oldest one.
fn closes(line: &str, below: &str) -> bool {
    let (mark, title) = heading::unmark(line, below);
    if !matches!(mark, Mark::Heading(_) | Mark::Emphasis) {
        return false;
    }
    let first = title.split(|c: char| !c.is_alphabetic()).find(|word| !word.is_empty()).unwrap_or_default();
    ["older", "earlier", "previous", "past", "prior", "archive", "archived", "full"]
        .contains(&&*first.to_ascii_lowercase())
}

/// Whether a text is one sentence that only says where the changelog is.
fn points_elsewhere(text: &str) -> bool {
    const VERBS: [&str; 14] = [
        "see",
        "view",
        "read",
        "check",
        "visit",
        "please",
        "for",
        "full",
        "the",
        "complete",
        "refer",
        "find",
        "click",
        "changelog",
    ];
    const PLACES: [&str; 6] = ["changelog", "change log", "release notes", "releases", "history", "://"];
    let text = text.trim().to_ascii_lowercase();
    let is_long = text.len() > 300 || text.contains(". ") || text.lines().count() > 3 || text.starts_with("- ");
    let first = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    let is_link = text.starts_with("http") && !text.contains(char::is_whitespace);
    !is_long && (is_link || VERBS.contains(&first) && PLACES.iter().any(|place| text.contains(place)))
}

/// Whether a changelog counts the line as a version heading; `below` is the next line.
pub(super) fn is_version_heading(line: &str, below: &str) -> bool {
    heading::read(line, below, false).is_some_and(|heading| !heading.versions.is_empty())
}

/// Whether the line underlines a heading.
pub(super) fn is_underline(line: &str) -> bool {
    heading::underline_level(line).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::{Duration, Instant};

    fn entry(markdown: &str, version: &str) -> Option<String> {
        of_version(markdown, &version.parse().unwrap())
    }

    #[test]
    fn an_entry_is_found_under_any_style_of_heading() {
        for (above, own, below) in [
            ("= 1.3 =", "= 1.2 =", "= 1.1 ="),
            ("## [1.3]", "## [1.2](https://example.com/1.1...1.2) (2024-01-01)", "## [1.1]"),
            ("**1.3**", "**1.2**", "*1.1*"),
            ("1.3\n---", "Version 1.2\n-----------", "1.1\n---"),
            ("### 1.3", "1.2 / 2024-01-01", "<h4>1.1</h4>"),
            ("* 1.3", "* 1.2", "* 1.1"),
            ("= 1.3 =", "= 1.2 & 1.2.1 =", "beta-1.1:"),
            ("= 1.3 =", "= 1.2 =", "= Something about 1.1 or so ="),
            ("= 1.3 =", "= 1.2 =", "= Older versions ="),
        ] {
            let markdown = format!("Intro\n\n{above}\n  * new\n\n{own}\n  * mine\n  * PHP 8.1\n\n{below}\n  * old\n");
            assert_eq!(entry(&markdown, "1.2").as_deref(), Some("- mine\n- PHP 8.1"), "{own}");
        }
    }

    #[test]
    fn one_line_entries_are_found() {
        let items = "* 1.2: Second line\n* 1.1 - Fixed a bug\n* 1.1 - Fixed another\n* 1.0 First release";
        assert_eq!(entry(items, "1.2").as_deref(), Some("Second line"));
        assert_eq!(entry(items, "1.1").as_deref(), Some("Fixed a bug\n\nFixed another"));
        assert_eq!(entry(items, "1.0").as_deref(), Some("First release"));
        assert_eq!(entry("1.1 - 2024-01-01 - Fixed\n1.0 - First", "1.1").as_deref(), Some("Fixed"));
    }

    #[test]
    fn another_versions_text_is_never_taken() {
        let markdown = "= 1.1.8.0 =\na\n= 1.0 RC1 =\nb\n= 2.0 =\nc\n= 2.0.0 =\nd\n= 3.0.0 =\ne\n= 1.10 =\nf";
        for (version, expected) in [
            ("1.1.8", None),
            ("1.1.8.0", Some("a")),
            ("3.0.0.0", None),
            ("1.1", None),
            ("1.0", None),
            ("1.0-rc.1", Some("b")),
            ("2.0", Some("c")),
            ("2.0.0", Some("d")),
            ("2", None),
            ("3", Some("e")),
            ("1.1.0", None),
            ("1.10.0", Some("f")),
            ("1", None),
        ] {
            assert_eq!(entry(markdown, version).as_deref(), expected, "{version}");
        }
    }

    #[test]
    fn an_entry_without_text_of_its_own_is_none() {
        for body in [
            "",
            "https://example.com/changelog",
            "[See the full changelog](https://example.com/)",
            "See changelog.txt",
            "Please see [the releases](https://github.com/acme/forms/releases).",
            "**Full Changelog**: https://github.com/acme/forms/compare/1.1...1.2",
        ] {
            assert_eq!(entry(&format!("= 1.2 =\n{body}\n\n= 1.1 =\nold"), "1.2"), None, "{body}");
        }
        for body in
            ["The first public release.", "Please update. It fixes https://example.com/1", "- See the changelog link"]
        {
            assert_eq!(entry(&format!("= 1.2 =\n{body}"), "1.2").as_deref(), Some(body));
        }
        assert_eq!(entry("See changelog.txt for 1.2", "1.2"), None);
    }

    #[test]
    fn a_long_entry_is_cut_at_a_line() {
        let text = entry(&format!("= 1.2 =\n{}", "* one line of it\n".repeat(2000)), "1.2").unwrap();
        assert!(text.len() <= ENTRY_LIMIT && text.ends_with("one line of it"), "{}", text.len());
    }

    #[test]
    fn html_has_the_latest_entries_that_fit() {
        let markdown =
            "Intro\n## [1.2] - 2024-01-01\n### Added\n- a\n## [1.1]\n<script>b</script>\n\n## [1.0]\n- c\n\n[1.2]: x";
        let first = "<h4>1.2 - 2024-01-01</h4>\n<h3>Added</h3>\n<ul>\n<li>a</li>\n</ul>\n";
        assert_eq!(to_html(markdown, first.len()), first);
        assert_eq!(to_html(markdown, first.len() - 1), "");
        assert_eq!(to_html(markdown, 1000), format!("{first}<h4>1.1</h4>\nb\n<h4>1.0</h4>\n<ul>\n<li>c</li>\n</ul>\n"));
        assert_eq!(to_html("* just\n* items", 1000), "<ul>\n<li>just</li>\n<li>items</li>\n</ul>");
        assert_eq!(to_html("See [the changelog](https://example.com/)", 1000), "");
    }

    #[test]
    fn a_tag_message_counts_for_what_it_says_beyond_the_version() {
        let version: Version = "1.2.3".parse().unwrap();
        for (message, expected) in [
            ("1.2.3", None),
            ("v1.2.3\n", None),
            ("Release 1.2.3.", None),
            ("Tagging version 1.2.3", None),
            ("Acme Forms 1.2.3\n\n", None),
            ("Version 1.2.3 (2024-01-01)", None),
            ("1.2.3\n-----BEGIN PGP SIGNATURE-----\nabc\n-----END PGP SIGNATURE-----\n", None),
            ("1.2.3\n-----BEGIN SSH SIGNATURE-----\nabc", None),
            ("See https://example.com/changelog", None),
            ("Version 1.2.3\n\n* Fixed a bug\n-----BEGIN PGP SIGNATURE-----", Some("- Fixed a bug")),
            ("Fixes the editor", Some("Fixes the editor")),
            ("Release 1.2.3\n\n= 1.2.3 =\n* a\n= 1.2.2 =\n* b", Some("- a")),
            ("= 1.2.3 =\n* a\n\n= 1.2.2 =\n* b", Some("- a")),
            ("= 1.2.2 =\n* b", None),
        ] {
            assert_eq!(from_tag_message(message, &version).as_deref(), expected, "{message}");
        }
    }

    #[test]
    fn hostile_changelogs_take_no_time() {
        let mebibyte = 1024 * 1024;
        let version: Version = "1.2".parse().unwrap();
        for seed in [
            "=",
            "*",
            "= 1.1 =\n",
            "* 1.1\n",
            "1.1 ",
            "1.",
            "[1.2](",
            "<h4>1.2",
            "\n",
            "= 1.2 =\n",
            "1.2 - x\n",
            "# 1 & ",
        ] {
            let markdown = seed.repeat(mebibyte / seed.len());
            let start = Instant::now();
            of_version(&markdown, &version);
            to_html(&markdown, 64 * 1024);
            from_tag_message(&markdown, &version);
            // Unoptimized and on a machine with much other work; quadratic time would be minutes.
            assert!(start.elapsed() < Duration::from_secs(60), "{seed}: {:?}", start.elapsed());
        }
    }

    proptest! {
        #[test]
        fn no_changelog_panics(markdown in "((= |\\* |## |\\[|v|\\*\\*)?1\\.[0-3](\\.0)?( =|\\]|: |\\*\\*)?|\n|---\n|\\PC| x){0,30}") {
            let version: Version = "1.2".parse().unwrap();
            for text in [of_version(&markdown, &version), from_tag_message(&markdown, &version)].into_iter().flatten() {
                prop_assert!(!text.is_empty() && text.len() <= ENTRY_LIMIT);
                prop_assert!(text.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'));
            }
            prop_assert!(to_html(&markdown, 100).len() <= 100);
        }
    }
}
