//! Paths in commands that a person pastes.

use std::path::Path;

/// A path quoted for a shell.
pub fn shell_quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    if !text.is_empty() && text.chars().all(plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_where_a_shell_would_read_them_otherwise() {
        assert_eq!(shell_quoted(Path::new("demo/public")), "demo/public");
        assert_eq!(shell_quoted(Path::new("it's here")), r"'it'\''s here'");
    }
}
