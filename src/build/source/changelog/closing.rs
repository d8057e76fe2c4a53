//! The last line of what was cut: where the rest of the changelog is.

use url::Url;

use crate::build::source::changelog::changelog_text::ChangelogText;
use crate::build::source::html;

/// The room a closing line gets, in bytes; a longer one names no address.
const ROOM: usize = 1024;

/// What of `limit` is left to the closing line.
pub(crate) fn room(limit: usize) -> usize {
    ROOM.min(limit / 4)
}

impl ChangelogText {
    /// As plain text, with a last line that says where the rest is where something was cut. `address` may be empty.
    pub fn closed_text(self, address: &str) -> String {
        if !self.is_cut {
            return self.text;
        }
        let told = Url::parse(address).map(|url| format!("The rest of the changelog: {url}"));
        let closing = told.ok().filter(|closing| closing.len() + 2 <= ROOM);
        format!("{}\n\n{}", self.text, closing.as_deref().unwrap_or(GOES_ON))
    }

    /// As HTML, with a last paragraph that says where the rest is where something was cut. `address` may be empty.
    pub fn closed_html(&self, address: &str) -> String {
        if !self.is_cut {
            return self.text.clone();
        }
        // A parsed address has no bracket and no blank.
        let told = Url::parse(address).map(|url| html::from_markdown(&format!("[The rest of the changelog](<{url}>)")));
        let closing = told
            .ok()
            .filter(|closing| closing.len() < ROOM && closing.contains("href"));
        format!(
            "{}\n{}",
            self.text,
            closing.as_deref().unwrap_or(&*html::from_markdown(GOES_ON))
        )
    }
}

/// Where there is no address.
const GOES_ON: &str = "The changelog of this version goes on. It is too long to be shown here.";
