//! Changelogs: the entry of exactly one version, and the latest entries as HTML.
//!
//! Takes the readme's section, a changelog file or a tag's message. What is found goes to the manifest's `changelog` and
//! `sections.changelog`. [`heading`] knows what a version heading looks like.

mod heading;

use crate::model::version::Version;

use super::html;
use heading::{Heading, Mark};

/// The longest plain-text entry, in bytes; a longer one is cut at a line.
pub const ENTRY_LIMIT: usize = 16 * 1024;

/// What stands under one version heading.
struct Entry {
    heading: Heading,
    /// Markdown.
    body: String,
}

/// The entry of exactly this version as plain text; `None` where there is none, or it is empty or only a link.
///
/// A heading that differs in trailing zeros (`1.2` for 1.2.0) counts where no heading is exact and no other differs only so.
/// An entry ends at the next version heading, whatever its style. At most [`ENTRY_LIMIT`] bytes.
pub fn of_version(changelog_markdown: &str, version: &Version) -> Option<String> {
    let markdown = find(changelog_markdown, version)?;
    let text = html::to_plain_text(&markdown);
    (!text.is_empty() && !points_elsewhere(&text)).then(|| html::cut_at_line(&text, ENTRY_LIMIT).to_owned())
}

/// The latest entries as sanitized HTML: as many whole ones as `limit_bytes` hold, in the order of the changelog.
///
/// A changelog without version headings is taken as one entry; one that is only a link is empty.
pub fn to_html(changelog_markdown: &str, limit_bytes: usize) -> String {
    let mut html = String::new();
    let mut found = false;
    for entry in entries(changelog_markdown) {
        found = true;
        let piece = html::from_markdown(&format!("#### {}\n\n{}", entry.heading.title, entry.body));
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
    if whole.len() <= limit_bytes { whole } else { String::new() }
}

/// What an annotated tag's message says beyond the version, as plain text. Signatures are cut off.
pub fn from_tag_message(message: &str, version: &Version) -> Option<String> {
    let message = ["-----BEGIN PGP", "-----BEGIN SSH"]
        .iter()
        .filter_map(|armor| message.find(armor))
        .min()
        .map_or(message, |end| &message[..end])
        .trim();
    if entries(message).next().is_some() && !message.lines().next().is_some_and(|line| repeats(line, version)) {
        return of_version(message, version);
    }
    let body = match message.split_once('\n') {
        Some((first, rest)) if repeats(first, version) => rest,
        None if repeats(message, version) => return None,
        _ => message,
    };
    let text = html::to_plain_text(body);
    (!text.is_empty() && !points_elsewhere(&text)).then(|| html::cut_at_line(&text, ENTRY_LIMIT).to_owned())
}

/// Whether the line names the version in a few words and says nothing else: `Release 1.2.3`, `Acme Forms v1.2.3`.
fn repeats(line: &str, version: &Version) -> bool {
    let line = line.trim().trim_end_matches(['.', '!']);
    line.split_whitespace().count() <= 5
        && (line.ends_with(version.as_str())
            || heading::read(line, "", false)
                .is_some_and(|heading| !heading.versions.is_empty() && heading.text == heading.title.len()))
}

/// The Markdown under the headings of this version.
fn find(markdown: &str, version: &Version) -> Option<String> {
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
        (true, 1) => equivalent.pop(),
        _ => None,
    }
}

/// A version without trailing zeros, signs or capitals: `1.2.0-RC.1` and `1.2 rc1` are both `1.2rc1`.
fn canonical(version: &str) -> String {
    let end = version.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(version.len());
    let (numbers, suffix) = version.split_at(end);
    let mut numbers = numbers.trim_end_matches('.');
    while let Some(shorter) = numbers.strip_suffix(".0") {
        numbers = shorter;
    }
    let suffix = suffix.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase());
    numbers.chars().chain(suffix).collect()
}

/// The entries in the order of the changelog. What stands before the first version heading is left out.
fn entries(markdown: &str) -> impl Iterator<Item = Entry> + '_ {
    // Lists such as `* 1.1 Fixed a bug` count only where nothing better does: in other changelogs they are content.
    let loose = Entries::new(markdown, false).next().is_none();
    Entries::new(markdown, loose)
}

/// Walks the lines once.
struct Entries<'a> {
    lines: std::iter::Peekable<std::str::Lines<'a>>,
    loose: bool,
    pending: Option<Heading>,
}

impl<'a> Entries<'a> {
    fn new(markdown: &'a str, loose: bool) -> Self {
        Self { lines: markdown.lines().peekable(), loose, pending: None }
    }
}

impl Iterator for Entries<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        let mut heading = self.pending.take();
        let mut body = heading.as_ref().map(|heading| heading.title[heading.text..].to_owned()).unwrap_or_default();
        let mut closed = false;
        while let Some(line) = self.lines.next() {
            let underline = self.lines.peek().copied().unwrap_or_default();
            // A heading in other words parts entries only where it looks like theirs.
            let parts = |next: &Heading| {
                !next.versions.is_empty() || heading.as_ref().is_some_and(|open| open.mark == next.mark)
            };
            if let Some(next) = heading::read(line, underline, self.loose).filter(parts) {
                if heading::underline_level(underline).is_some() {
                    self.lines.next();
                }
                match heading {
                    Some(heading) => {
                        self.pending = Some(next);
                        return Some(Entry { heading, body });
                    }
                    None => {
                        body = next.title[next.text..].to_owned();
                        heading = Some(next);
                    }
                }
                continue;
            }
            if heading.is_some() {
                closed = closed || closes(line, underline);
                if !closed {
                    body.push('\n');
                    body.push_str(line);
                }
            }
        }
        heading.map(|heading| Entry { heading, body })
    }
}

/// Whether a heading without a version ends the entry: `= Older versions =` below the oldest one.
fn closes(line: &str, below: &str) -> bool {
    let (mark, title) = heading::unmark(line, below);
    let first = title.split(|c: char| !c.is_alphabetic()).find(|word| !word.is_empty()).unwrap_or_default();
    matches!(mark, Mark::Heading(_) | Mark::Emphasis)
        && ["older", "earlier", "previous", "past", "prior", "archive", "archived", "full"]
            .contains(&&*first.to_ascii_lowercase())
}

/// Whether a text only says where the changelog is.
fn points_elsewhere(text: &str) -> bool {
    let text = text.trim().to_ascii_lowercase();
    if text.len() > 300 || text.starts_with("- ") || text.lines().filter(|line| !line.is_empty()).count() > 2 {
        return false;
    }
    let bare_link = text.starts_with("http") && !text.contains(char::is_whitespace);
    let leads = [
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
        "changelog",
        "click",
    ];
    let first = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    let target = ["changelog", "change log", "release", "http", "github", "history"];
    bare_link || leads.contains(&first) && target.iter().any(|target| text.contains(target))
}

/// Whether a changelog counts the line as a version heading; `below` is the next line.
pub(super) fn is_version_heading(line: &str, below: &str) -> bool {
    heading::read(line, below, false).is_some_and(|heading| !heading.versions.is_empty())
}

/// Whether the line underlines a heading.
pub(super) fn is_underline(line: &str) -> bool {
    heading::underline_level(line).is_some()
}
