//! What a changelog tells, and whether that is all of it.

/// What is told of one release, or the changelog as HTML.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangelogText {
    /// Plain text or sanitized HTML. The closed forms say at the end where the rest is.
    pub text: String,
    /// The text goes on in the changelog.
    pub is_cut: bool,
    /// It only says where the changelog is.
    pub is_pointer: bool,
}

impl ChangelogText {
    /// All that there is.
    pub(super) fn whole(text: String) -> Self {
        Self {
            text,
            is_cut: false,
            is_pointer: false,
        }
    }
}
