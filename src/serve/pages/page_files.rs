//! The style sheet and the icon of pages.

use std::sync::LazyLock;

use crate::serve::reply::response::ContentType;
use countersign_model::digest::Digest;

/// The style sheet of all pages, small enough for a slow phone.
pub(in crate::serve) const STYLE: &str = include_str!("../templates/pages.css");
/// The style sheet of the desk: that one, and what only the desk has.
const DESK_STYLE: &str = concat!(
    include_str!("../templates/pages.css"),
    include_str!("../templates/desk/desk.css")
);
const ICON: &[u8] = include_bytes!("../templates/desk/icon.svg");

/// The addresses of the style sheet and the icon. Each has the digest of the content in it, so browsers may cache the file for ever.
pub(in crate::serve) static STYLE_PATH: LazyLock<String> =
    LazyLock::new(|| named("/desk-", DESK_STYLE.as_bytes(), ".css"));
pub(in crate::serve) static ICON_PATH: LazyLock<String> = LazyLock::new(|| named("/icon-", ICON, ".svg"));

fn named(before: &str, bytes: &[u8], behind: &str) -> String {
    let digest = Digest::of(bytes).to_string();
    format!("{before}{}{behind}", &digest[..16])
}

/// The file at this path.
pub(in crate::serve) fn file(path: &str) -> Option<(ContentType, &'static [u8])> {
    if path == *STYLE_PATH {
        Some((ContentType("text/css; charset=utf-8"), DESK_STYLE.as_bytes()))
    } else if path == *ICON_PATH {
        Some((ContentType("image/svg+xml"), ICON))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_by_the_digest_of_what_it_is() {
        assert!(file(&STYLE_PATH).is_some() && file(&ICON_PATH).is_some());
        for path in ["/desk.css", "/desk-.css", "/desk-0000000000000000.css", "/icon.svg"] {
            assert!(file(path).is_none(), "{path}");
        }
        // The policy of the pages forbids `style=""` and everything from elsewhere.
        assert!(!DESK_STYLE.contains("url(") && !DESK_STYLE.contains("@import"));
    }
}
