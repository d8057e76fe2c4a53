//! Between step 4 and step 5: what was composed, and who takes it.
//!
//! [`Publisher`](crate::build::publish::Publisher) puts manifests into `releases/`; a [draft](crate::build::draft) holds them in memory.

use std::fmt;

use crate::build::report::outcome::Reason;
use crate::build::review;
use crate::build::source::source_reader::SourceFiles;
use crate::catalog::{Release, Releases};
use crate::model::digest::Digest;
use crate::model::manifest::Manifest;
use crate::model::slug::Slug;
use crate::model::version::Version;

/// Takes the manifests of a plugin's releases.
pub trait Shelf {
    /// Why a manifest cannot be taken.
    type Error;

    /// What is published of a plugin now; `None` where nothing ever was.
    fn published(&self, slug: &Slug) -> Option<&Releases>;

    /// Whether this release need not be made again where it follows from the same inputs: it is published, and its manifest
    /// stands in its place byte for byte.
    fn stands(&self, slug: &Slug, release: &Release) -> bool;

    /// Takes a manifest; gives the digest of its bytes, and whether these bytes are published already.
    fn take(&self, slug: &Slug, composed: Composed) -> Result<(Digest, bool), Self::Error>;
}

/// A release's manifest, and what it was made of.
pub struct Composed {
    /// The version it is published under.
    pub version: Version,
    /// What the CMS will read.
    pub manifest: Manifest,
    /// What the plugin's files say.
    pub files: SourceFiles,
    /// What somebody should know although it stops nothing.
    pub notes: Vec<Reason>,
    /// What the plugin's folder shows; empty where nobody looked into it.
    pub inspected: Vec<Remark>,
}

impl Composed {
    /// Everything there is to know about it. `folder` is the plugin's in its repository.
    pub fn remarks(&self, folder: &str) -> Vec<Remark> {
        let mut remarks = review::remarks(self, folder);
        remarks.extend(self.inspected.iter().cloned());
        remarks
    }
}

/// Something to know about a release, where possible with its place: `readme.txt:4: …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The file in the repository; empty where it is about no file.
    pub file: String,
    /// Counted from 1; 0 where it is about the file as a whole.
    pub line: usize,
    /// What there is to know.
    pub message: String,
}

impl Remark {
    /// About a file as a whole.
    pub fn about(file: &str, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line: 0, message: message.into() }
    }

    /// What a reason says, with its place, of which the version's is known: a line of `main_file`.
    pub fn of(reason: &Reason, folder: &str, main_file: &str, version_line: usize) -> Self {
        let (file, line) = match reason {
            Reason::VersionMismatch { .. }
            | Reason::StrangeVersion { .. }
            | Reason::WrittenAs(_)
            | Reason::AlreadyTagged(_)
            | Reason::OutsideVersions
            | Reason::Withheld => (main_file, version_line),
            Reason::TooLarge { path, .. } | Reason::NotFollowed { path, .. } => (&**path, 0),
            Reason::NoVersion(file) => (&**file, 0),
            _ => ("", 0),
        };
        let file = if file.is_empty() { String::new() } else { in_folder(folder, file) };
        Self { file, line, message: reason.to_string() }
    }
}

/// The path in the repository of a file in the plugin's folder.
pub(crate) fn in_folder(folder: &str, file: &str) -> String {
    if folder.is_empty() { file.to_owned() } else { format!("{folder}/{file}") }
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
