//! Finds the entry of exactly one version, as a text that says whether it is complete.
//!
//! A text that was cut ends with a line that says where the rest is. Of an entry that only says where the changelog is, the link is
//! kept if there is nothing better.

use std::borrow::Cow;

use url::Url;

use crate::build::source::changelog::entries::{ChangelogEntry, entries};
use crate::build::source::changelog::title::canonical;
use crate::build::source::html;
use crate::build::source::markdown::Markdown;
use countersign_model::version::Version;

/// The longest plain-text entry in bytes; a longer one is cut at a line.
pub const ENTRY_LIMIT: usize = 16 * 1024;

/// The entry of exactly this version as plain text; `None` if there is none, or it is empty.
///
/// A heading with fewer or more zeros (`1.2` for 1.2.0) counts if no heading is exact and no other differs only so.
/// An entry ends at the next version heading of any style. The limit [`ENTRY_LIMIT`] includes the closing line.
pub fn of_version<'a>(changelog: impl Into<Markdown<'a>>, version: &Version) -> Option<ChangelogText> {
    find(changelog, version).and_then(|markdown| entry_text(&markdown))
}

/// An entry as plain text.
pub(super) fn entry_text(markdown: &str) -> Option<ChangelogText> {
    let text = html::to_plain_text(markdown);
    if text.is_empty() {
        return None;
    }
    let html = html::from_markdown(markdown);
    if points_elsewhere(&text, &html) {
        let text = pointer_with_address(&text, &html).filter(|text| text.len() <= ENTRY_LIMIT)?;
        return Some(ChangelogText {
            text,
            is_cut: false,
            is_pointer: true,
        });
    }
    if text.len() <= ENTRY_LIMIT && markdown.len() <= html::MARKDOWN_LIMIT {
        return Some(ChangelogText::whole(text));
    }
    let text = html::cut_text(&text, ENTRY_LIMIT - closing_room(ENTRY_LIMIT));
    Some(ChangelogText {
        text,
        is_cut: true,
        is_pointer: false,
    })
}

/// The Markdown under the headings of this version; may be empty.
pub(crate) fn find<'a>(markdown: impl Into<Markdown<'a>>, version: &Version) -> Option<String> {
    let wanted = canonical(version.as_str());
    let mut exact = Vec::new();
    // The first heading with other zeros, and its text.
    let mut equivalent: Option<(String, Vec<Cow<'_, str>>)> = None;
    let mut is_ambiguous = false;
    for ChangelogEntry { heading, body } in entries(&markdown.into()) {
        let named = |same: &dyn Fn(&str) -> bool| heading.versions.iter().find(|version| same(version));
        if named(&|other| other.eq_ignore_ascii_case(version.as_str())).is_some() {
            exact.push(body);
        } else if !exact.is_empty() {
            break;
        } else if let Some(other) = named(&|other| canonical(other) == wanted) {
            let (known, bodies) = equivalent.get_or_insert_with(|| (other.clone(), Vec::new()));
            is_ambiguous |= known != other;
            bodies.push(body);
        }
    }
    let bodies = match equivalent {
        _ if !exact.is_empty() => exact,
        Some((_, bodies)) if !is_ambiguous => bodies,
        _ => return None,
    };
    Some(joined(bodies))
}

/// Joins the texts, without duplicates.
fn joined(mut bodies: Vec<Cow<'_, str>>) -> String {
    bodies.dedup_by(|a, b| a.trim() == b.trim());
    bodies.join("\n\n")
}

/// The entry of one release, or the changelog as HTML.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangelogText {
    /// Plain text or sanitized HTML. The closed forms end with where the rest is.
    pub text: String,
    /// The text was cut.
    pub is_cut: bool,
    /// The text only says where the changelog is.
    pub is_pointer: bool,
}

impl ChangelogText {
    /// A complete text.
    pub(super) fn whole(text: String) -> Self {
        Self {
            text,
            is_cut: false,
            is_pointer: false,
        }
    }
}

/// The longest closing line in bytes; a longer one has no URL.
const CLOSING_ROOM: usize = 1024;

/// The part of `limit` for the closing line.
pub(crate) fn closing_room(limit: usize) -> usize {
    CLOSING_ROOM.min(limit / 4)
}

impl ChangelogText {
    /// Plain text; if it was cut, with a last line that says where the rest is. `address` may be empty.
    pub fn closed_text(self, address: &str) -> String {
        if !self.is_cut {
            return self.text;
        }
        let link = Url::parse(address).map(|url| format!("The rest of the changelog: {url}"));
        let closing = link.ok().filter(|closing| closing.len() + 2 <= CLOSING_ROOM);
        format!("{}\n\n{}", self.text, closing.as_deref().unwrap_or(GOES_ON))
    }

    /// HTML; if it was cut, with a last paragraph that says where the rest is. `address` may be empty.
    pub fn closed_html(&self, address: &str) -> String {
        if !self.is_cut {
            return self.text.clone();
        }
        // A parsed URL has no bracket and no space.
        let link = Url::parse(address).map(|url| html::from_markdown(&format!("[The rest of the changelog](<{url}>)")));
        let closing = link
            .ok()
            .filter(|closing| closing.len() < CLOSING_ROOM && closing.contains("href"));
        format!(
            "{}\n{}",
            self.text,
            closing.as_deref().unwrap_or(&*html::from_markdown(GOES_ON))
        )
    }
}

/// Without a URL.
const GOES_ON: &str = "The changelog of this version goes on. It is too long to be shown here.";

/// A text that only points to the changelog, with its URL; `None` if it has none.
fn pointer_with_address(text: &str, html: &str) -> Option<String> {
    if text.contains("://") {
        return Some(text.to_owned());
    }
    let address = html::first_address(html)?;
    let text = text.trim_end_matches(['.', ':', ' ']);
    Some(format!("{text}: {address}"))
}

/// Whether a text is only a link, or one sentence that says where the changelog is.
pub(crate) fn points_elsewhere(text: &str, html: &str) -> bool {
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
    let says_where = VERBS.contains(&first) && PLACES.iter().any(|place| text.contains(place));
    !is_long && (is_link(html) || says_where)
}

/// Whether the text is only a link.
fn is_link(html: &str) -> bool {
    let inner = html
        .trim()
        .strip_prefix("<p>")
        .and_then(|html| html.strip_suffix("</p>"))
        .unwrap_or(html)
        .trim();
    let is_address = inner.starts_with("http") && !inner.contains(char::is_whitespace);
    is_address || inner.starts_with("<a ") && inner.matches("</a>").count() == 1 && inner.ends_with("</a>")
}
