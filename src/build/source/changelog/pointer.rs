//! Entries that only say where the changelog is. Their link is kept if there is nothing better.

use crate::build::source::html;

/// A text that only points to the changelog, with its URL; `None` if it has none.
pub(crate) fn with_address(text: &str, html: &str) -> Option<String> {
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
