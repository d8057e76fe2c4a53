//! A text from a changelog, and whether it is complete.

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
