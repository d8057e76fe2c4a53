//! Remarks about a release, with file and line if possible.

use std::fmt;

use crate::build::report::outcome::Reason;

/// A remark about a release: `readme.txt:4: …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The file in the repository; empty if it is about no file.
    pub file: String,
    /// From 1; 0 if it is about the whole file.
    pub line: usize,
    /// The text.
    pub message: String,
}

impl Remark {
    /// About a whole file.
    pub fn about(file: &str, message: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line: 0,
            message: message.into(),
        }
    }

    /// The remark for a reason. The version's line in `main_file` is known.
    pub fn of(reason: &Reason, folder: &str, main_file: &str, version_line: usize) -> Self {
        let (file, line) = match reason {
            Reason::VersionMismatch { .. }
            | Reason::StrangeVersion { .. }
            | Reason::Misread(_)
            | Reason::MisreadHeader { .. }
            | Reason::WrittenAs(_)
            | Reason::AlreadyTagged(_)
            | Reason::OutsideVersions
            | Reason::Withheld => (main_file, version_line),
            Reason::TooLarge { path, .. } | Reason::NotFollowed { path, .. } => (&**path, 0),
            Reason::NoVersion(file) => (&**file, 0),
            _ => ("", 0),
        };
        let file = if file.is_empty() {
            String::new()
        } else {
            in_folder(folder, file)
        };
        Self {
            file,
            line,
            message: reason.to_string(),
        }
    }
}

/// The path in the repository of a file in the plugin's folder.
pub(crate) fn in_folder(folder: &str, file: &str) -> String {
    if folder.is_empty() {
        file.to_owned()
    } else {
        format!("{folder}/{file}")
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&*self.file, self.line) {
            ("", _) => write!(f, "{}", self.message),
            (file, 0) => write!(f, "{file}: {}", self.message),
            (file, line) => write!(f, "{file}:{line}: {}", self.message),
        }
    }
}
