//! Names in an archive. Refuses names that would leave the folder, or mean another file on another system.

use std::fmt;
use std::str::FromStr;

/// The longest name in bytes.
pub const MAX_NAME: usize = 1_024;

/// The longest component of a name in bytes, as in file systems.
const MAX_COMPONENT: usize = 255;

/// A relative path of plain components, joined by `/`. No file system reads it as a place outside of the folder.
///
/// The name of a folder has no final `/`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryName(Box<str>);

/// The name of a package's top-level folder: an [`EntryName`] of one component.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FolderName(Box<str>);

/// Why a name is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The bytes are not UTF-8.
    #[error("its name is not UTF-8")]
    NotUtf8,
    /// The name, or a component of it, is empty.
    #[error("its name has an empty component")]
    Empty,
    /// The name begins with `/`.
    #[error("its name is an absolute path")]
    Absolute,
    /// A component is `.` or `..`.
    #[error("its name has the component \".\" or \"..\"")]
    Dots,
    /// A backslash, which Windows reads as a separator.
    #[error("its name has a backslash")]
    Backslash,
    /// A control character.
    #[error("its name has a control character")]
    Control,
    /// It begins with `C:` or the like.
    #[error("its name begins with a drive letter")]
    Drive,
    /// More than 1,024 bytes, or a component of more than 255.
    #[error("its name is too long: a component may have 255 bytes, the name 1,024")]
    TooLong,
    /// A folder's name with `/` in it.
    #[error("a folder's name has no \"/\"")]
    Slash,
}

impl EntryName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Checks the name of a file in an archive.
    ///
    /// # Errors
    ///
    /// Why it is refused.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, NameError> {
        std::str::from_utf8(bytes).map_err(|_| NameError::NotUtf8)?.parse()
    }

    /// The last component.
    pub fn file_name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    /// The part after the folder, if the name is in that folder.
    pub fn below(&self, folder: &FolderName) -> Option<&str> {
        self.0.strip_prefix(folder.as_str())?.strip_prefix('/')
    }
}

impl FromStr for EntryName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        let begins_with_drive = matches!(name.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
        if name.len() > MAX_NAME || name.split('/').any(|component| component.len() > MAX_COMPONENT) {
            Err(NameError::TooLong)
        } else if name.contains(char::is_control) {
            Err(NameError::Control)
        } else if name.starts_with('/') {
            Err(NameError::Absolute)
        } else if name.contains('\\') {
            Err(NameError::Backslash)
        } else if begins_with_drive {
            Err(NameError::Drive)
        } else if name.split('/').any(|component| matches!(component, "." | "..")) {
            Err(NameError::Dots)
        } else if name.split('/').any(str::is_empty) {
            Err(NameError::Empty)
        } else {
            Ok(Self(name.into()))
        }
    }
}

impl FolderName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for FolderName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        let EntryName(name) = name.parse()?;
        if name.contains('/') {
            Err(NameError::Slash)
        } else {
            Ok(Self(name))
        }
    }
}

impl fmt::Display for EntryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for FolderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_relative_paths_are_names() {
        for good in [
            "a",
            "a/b.php",
            "acme-forms/ä/表单.php",
            "a/.htaccess",
            "a/...",
            "a/b c",
            "1:2",
            "a/C:",
            &"a".repeat(255),
        ] {
            assert_eq!(
                EntryName::from_bytes(good.as_bytes()).map(|name| name.to_string()),
                Ok(good.to_owned())
            );
        }
        let long = ["a"; 513].join("/");
        for (bad, reason) in [
            (&b""[..], NameError::Empty),
            (b"a//b", NameError::Empty),
            (b"a/", NameError::Empty),
            (b"/etc/passwd", NameError::Absolute),
            (b"//host/share", NameError::Absolute),
            (b"..", NameError::Dots),
            (b"a/../b", NameError::Dots),
            (b"./a", NameError::Dots),
            (b"a\\..\\b", NameError::Backslash),
            (b"C:/a", NameError::Drive),
            (b"c:a", NameError::Drive),
            (b"a\nb", NameError::Control),
            (b"a\0.php", NameError::Control),
            ("a\u{9b}".as_bytes(), NameError::Control),
            (b"\xff", NameError::NotUtf8),
            (b"\xc0\xae\xc0\xae/a", NameError::NotUtf8),
            (long.as_bytes(), NameError::TooLong),
            (&[b'a'; 256], NameError::TooLong),
        ] {
            assert_eq!(
                EntryName::from_bytes(bad),
                Err(reason),
                "{:?}",
                String::from_utf8_lossy(bad)
            );
        }
        assert_eq!("a/b".parse::<FolderName>(), Err(NameError::Slash));
        assert_eq!("..".parse::<FolderName>(), Err(NameError::Dots));
    }

    #[test]
    fn a_name_is_below_its_own_folder_only() {
        let below = |name: &str| {
            name.parse::<EntryName>()
                .unwrap()
                .below(&"acme".parse().unwrap())
                .map(str::to_owned)
        };
        assert_eq!(below("acme/a/b.php"), Some("a/b.php".to_owned()));
        assert_eq!(
            (below("acme"), below("acme-forms/a"), below("x/acme/a")),
            (None, None, None)
        );
    }
}
