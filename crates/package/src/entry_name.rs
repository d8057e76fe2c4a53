//! Names in an archive. Refuses names that would leave the folder, or mean another file on another system.

use std::fmt;
use std::str::FromStr;

/// The longest name in bytes.
pub const MAX_NAME: usize = 1_024;

/// The longest component of a name in bytes, as in file systems.
const MAX_COMPONENT: usize = 255;

/// Characters that names on Windows cannot have, apart from those that no name may have.
const RESERVED: [char; 7] = ['<', '>', ':', '"', '|', '?', '*'];

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
    /// A character that names on Windows cannot have.
    #[error("its name has {0:?}, which names on Windows cannot have")]
    Reserved(char),
    /// A component that means a device on Windows, with any extension: `aux`, `con.php`.
    #[error(
        "its name means a device on Windows: con, prn, aux, nul, com1 to com9 and lpt1 to lpt9, with any extension"
    )]
    Device,
    /// A component ends with a dot or a blank, which Windows drops.
    #[error("its name, or that of a folder in it, ends with a dot or a blank, which Windows drops")]
    End,
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
        if name.len() > MAX_NAME || name.split('/').any(|component| component.len() > MAX_COMPONENT) {
            Err(NameError::TooLong)
        } else if name.contains(char::is_control) {
            Err(NameError::Control)
        } else if name.starts_with('/') {
            Err(NameError::Absolute)
        } else if name.contains('\\') {
            Err(NameError::Backslash)
        } else if let Some(reserved) = name.chars().find(|c| RESERVED.contains(c)) {
            Err(NameError::Reserved(reserved))
        } else if name.split('/').any(|component| matches!(component, "." | "..")) {
            Err(NameError::Dots)
        } else if name.split('/').any(str::is_empty) {
            Err(NameError::Empty)
        } else if name.split('/').any(|component| component.ends_with(['.', ' '])) {
            Err(NameError::End)
        } else if name.split('/').any(is_device) {
            Err(NameError::Device)
        } else {
            Ok(Self(name.into()))
        }
    }
}

/// Whether Windows takes a component for a device: the part before its first dot decides, in any case and without
/// blanks at the end ("Naming Files, Paths, and Namespaces", Microsoft Learn).
fn is_device(component: &str) -> bool {
    let stem = component.split('.').next().unwrap_or_default().trim_end_matches(' ');
    let stem = stem.to_ascii_lowercase();
    let is_port = |stem: &str| {
        let number = stem.strip_prefix("com").or(stem.strip_prefix("lpt"));
        number.is_some_and(|number| {
            matches!(
                number,
                "1" | "2" | "3" | "4" | "5" | "6" | "7" | "8" | "9" | "¹" | "²" | "³"
            )
        })
    };
    matches!(&*stem, "con" | "prn" | "aux" | "nul" | "conin$" | "conout$") || is_port(&stem)
}

/// Whether a file or a folder with this component in its name is never packed: what file managers leave behind, and
/// pictures for WordPress.org.
pub fn is_never_packed(component: &str) -> bool {
    let is = |name: &str| component.eq_ignore_ascii_case(name);
    component.starts_with("._") || is(".DS_Store") || is("Thumbs.db") || is("__MACOSX") || is(".wordpress-org")
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
            "a/...x",
            "a/b c",
            "a/ b",
            "a/auxiliary.php",
            "a/com.php",
            "a/com0",
            "a/com10.php",
            "a/x.aux",
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
            (b"C:/a", NameError::Reserved(':')),
            (b"a/1:2", NameError::Reserved(':')),
            (b"a/x?wsdl.wsdl", NameError::Reserved('?')),
            (b"a|b<c>\"*.txt", NameError::Reserved('|')),
            (b"aux.php", NameError::Device),
            (b"a/Con/x.php", NameError::Device),
            (b"a/nul.tar.gz", NameError::Device),
            (b"a/PRN", NameError::Device),
            (b"a/aux .php", NameError::Device),
            (b"a/lpt1.js", NameError::Device),
            ("a/com².js".as_bytes(), NameError::Device),
            (b"a/conout$", NameError::Device),
            (b"a/b.", NameError::End),
            (b"a/...", NameError::End),
            (b"a /b", NameError::End),
            (b"a/b ", NameError::End),
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
        for never in [".DS_Store", "._acme.php", "thumbs.db", ".wordpress-org", "__MACOSX"] {
            assert!(is_never_packed(never), "{never}");
        }
        for packed in ["DS_Store", "_acme.php", ".wordpress", "thumbs.db.php", ".htaccess"] {
            assert!(!is_never_packed(packed), "{packed}");
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
