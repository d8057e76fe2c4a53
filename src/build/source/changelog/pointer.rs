//! Entries that only say where the changelog is: the address is kept, for want of something better.

use crate::build::source::html;

/// A text that only points to the changelog, with the address; `None` where it names none.
pub(crate) fn with_address(text: &str, html: &str) -> Option<String> {
    if text.contains("://") {
        return Some(text.to_owned());
    }
    let address = html::first_address(html)?;
    let text = text.trim_end_matches(['.', ':', ' ']);
    Some(format!("{text}: {address}"))
}

/// Whether a text is one sentence that only says where the changelog is, or nothing but a link.
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

/// Whether one link is all there is.
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
