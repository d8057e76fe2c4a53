//! Finds the entry of exactly one version.

use std::borrow::Cow;

use crate::build::source::changelog::changelog_text::ChangelogText;
use crate::build::source::changelog::closing;
use crate::build::source::changelog::entries::{ChangelogEntry, entries};
use crate::build::source::changelog::pointer::{self, points_elsewhere};
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
        let text = pointer::with_address(&text, &html).filter(|text| text.len() <= ENTRY_LIMIT)?;
        return Some(ChangelogText {
            text,
            is_cut: false,
            is_pointer: true,
        });
    }
    if text.len() <= ENTRY_LIMIT && markdown.len() <= html::MARKDOWN_LIMIT {
        return Some(ChangelogText::whole(text));
    }
    let text = html::cut_text(&text, ENTRY_LIMIT - closing::room(ENTRY_LIMIT));
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
