//! The last line of a changelog that was cut: where the rest is.

use url::Url;

use crate::build::source::changelog::changelog_text::ChangelogText;
use crate::build::source::html;

/// The longest closing line in bytes; a longer one has no URL.
const ROOM: usize = 1024;

/// The part of `limit` for the closing line.
pub(crate) fn room(limit: usize) -> usize {
    ROOM.min(limit / 4)
}

impl ChangelogText {
    /// Plain text; if it was cut, with a last line that says where the rest is. `address` may be empty.
    pub fn closed_text(self, address: &str) -> String {
        if !self.is_cut {
            return self.text;
        }
        let link = Url::parse(address).map(|url| format!("The rest of the changelog: {url}"));
        let closing = link.ok().filter(|closing| closing.len() + 2 <= ROOM);
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
            .filter(|closing| closing.len() < ROOM && closing.contains("href"));
        format!(
            "{}\n{}",
            self.text,
            closing.as_deref().unwrap_or(&*html::from_markdown(GOES_ON))
        )
    }
}

/// Without a URL.
const GOES_ON: &str = "The changelog of this version goes on. It is too long to be shown here.";
