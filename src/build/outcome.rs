//! What became of each tag: built, unchanged, skipped or failed, and why. Data only; [`report`](super::report) shows it.

use std::fmt;

use super::repository::ObjectError;
use crate::model::version::Version;

/// What became of one tag.
#[derive(Debug)]
pub struct TagOutcome {
    /// The tag's name, not escaped.
    pub tag: String,
    /// The version it stands for, as published where it is published.
    pub version: Option<Version>,
    /// What became of it.
    pub outcome: Outcome,
    /// What somebody should know although it stops nothing.
    pub notes: Vec<String>,
}

/// What becomes of a tag.
#[derive(Debug)]
pub enum Outcome {
    /// Its manifest is new or differs from the one that was published.
    Built,
    /// Its manifest is published already, byte for byte.
    Unchanged,
    /// It is no release of this plugin, by a rule. A manifest published earlier goes.
    Skipped(Reason),
    /// Something is wrong with it. A manifest published earlier stays.
    Failed(Reason),
}

impl From<Reason> for Outcome {
    fn from(reason: Reason) -> Self {
        if matches!(reason, Reason::ConflictingTags(_) | Reason::Unreadable { .. }) {
            Self::Failed(reason)
        } else {
            Self::Skipped(reason)
        }
    }
}

/// Why a tag gives no manifest.
#[derive(Debug, PartialEq, Eq)]
pub enum Reason {
    /// No tag pattern of the entry finds a version in its name.
    NotAVersion,
    /// The entry withholds this version.
    Withheld,
    /// The entry's `versions` leave it out.
    OutsideVersions,
    /// Another tag gives the same version at the same commit.
    SameAs(String),
    /// It points at a tree, a blob or a long chain of tags.
    NotACommit(&'static str),
    /// The plugin's folder is not there at this tag.
    PathAbsent(String),
    /// No PHP file has a plugin header.
    NoPluginHeader,
    /// The root holds a theme.
    Theme,
    /// The plugin header in this file carries no version.
    NoVersion(String),
    /// Several files have a plugin header, and none is named as the plugin is.
    Ambiguous(Vec<String>),
    /// More PHP files than are looked into.
    TooManyFiles(usize),
    /// What is needed is a symbolic link or a submodule, which are not followed.
    NotFollowed {
        /// Its path.
        path: String,
        /// What it is.
        kind: &'static str,
    },
    /// A file that is needed is over its limit.
    TooLarge {
        /// Its path.
        path: String,
        /// In bytes.
        size: usize,
        /// In bytes.
        limit: usize,
    },
    /// The header of a stable release carries another version.
    VersionMismatch {
        /// The file with the header.
        file: String,
        /// What its header says.
        header: String,
    },
    /// These tags give the same version at different commits.
    ConflictingTags(Vec<String>),
    /// An object is missing or damaged.
    Unreadable {
        /// What was read; empty for the tag itself.
        path: String,
        /// What is wrong with it.
        detail: String,
    },
}

impl Reason {
    /// What to make of an object that cannot be used; `path` says what it would have been, empty for the tag itself.
    pub fn from_object(path: &str, error: ObjectError) -> Self {
        match error {
            ObjectError::TooLarge { size, limit } => Self::TooLarge { path: path.to_owned(), size, limit },
            ObjectError::NotACommit(kind) => Self::NotACommit(kind),
            error => Self::Unreadable { path: path.to_owned(), detail: error.to_string() },
        }
    }

    /// A short constant name, for machines and for grouping.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotAVersion => "not_a_version",
            Self::Withheld => "withheld",
            Self::OutsideVersions => "outside_versions",
            Self::SameAs(_) => "same_as",
            Self::NotACommit(_) => "not_a_commit",
            Self::PathAbsent(_) => "path_absent",
            Self::NoPluginHeader => "no_plugin_header",
            Self::Theme => "theme",
            Self::NoVersion(_) => "no_version",
            Self::Ambiguous(_) => "ambiguous",
            Self::TooManyFiles(_) => "too_many_files",
            Self::NotFollowed { .. } => "not_followed",
            Self::TooLarge { .. } => "too_large",
            Self::VersionMismatch { .. } => "version_mismatch",
            Self::ConflictingTags(_) => "conflicting_tags",
            Self::Unreadable { .. } => "unreadable",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAVersion => f.write_str("the name is no version under the entry's tag patterns"),
            Self::Withheld => f.write_str("withheld by the entry"),
            Self::OutsideVersions => f.write_str("outside the entry's versions"),
            Self::SameAs(tag) => write!(f, "the same release as {tag}"),
            Self::NotACommit(kind) => write!(f, "points at a {kind}, not at a commit"),
            Self::PathAbsent(path) => write!(f, "there is no folder {path}"),
            Self::NoPluginHeader => f.write_str("no PHP file at the plugin's root has a plugin header"),
            Self::Theme => f.write_str("a theme, not a plugin"),
            Self::NoVersion(file) => write!(f, "the plugin header in {file} has no Version"),
            Self::Ambiguous(files) => {
                write!(f, "several files have a plugin header: {}; set main_file", files.join(", "))
            }
            Self::TooManyFiles(count) => write!(f, "{count} PHP files at the plugin's root; set main_file"),
            Self::NotFollowed { path, kind } => write!(f, "{path} is a {kind}"),
            Self::TooLarge { path, size, limit } => {
                let separator = if path.is_empty() { "" } else { ": " };
                write!(f, "{path}{separator}{size} bytes, over the limit of {limit}")
            }
            Self::VersionMismatch { file, header } => write!(f, "the header in {file} says version {header}"),
            Self::ConflictingTags(tags) => {
                write!(f, "the same version at different commits: {}; delete or withhold one", tags.join(", "))
            }
            Self::Unreadable { path, detail } if path.is_empty() => f.write_str(detail),
            Self::Unreadable { path, detail } => write!(f, "{path}: {detail}"),
        }
    }
}
