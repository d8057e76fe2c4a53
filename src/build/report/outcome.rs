//! The outcome of each tag: built, unchanged, skipped or failed, with the reason: a constant code, and a text for people.
//! [`report`](crate::build::report) shows it.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::build::git::object::ObjectError;
use countersign_model::stage::MisreadSuffix;
use countersign_model::version::Version;
use countersign_registry::left_behind::LeftBehind;

/// The outcome of one tag.
#[derive(Debug)]
pub struct TagOutcome {
    /// The tag's name, not escaped.
    pub tag: String,
    /// Its version, as published if it is published.
    pub version: Option<Version>,
    /// The outcome.
    pub outcome: ReleaseOutcome,
    /// Notes that stop nothing.
    pub notes: Vec<Reason>,
}

/// The outcome of a tag.
#[derive(Debug)]
pub enum ReleaseOutcome {
    /// Its manifest is new or changed.
    Built,
    /// The same manifest is already published.
    Unchanged,
    /// By a rule, it is not a release of this plugin. A published manifest is removed.
    Skipped(Reason),
    /// It has an error. A published manifest stays.
    Failed(Reason),
    /// Its package is not there yet. It is published when it is.
    AwaitsPackage,
    /// Enough people have signed it, and sites in the field believe none of them. It is published once others have signed,
    /// or the plugin's entry lets these sites be left behind.
    LeavesBehind(Vec<LeftBehind>),
    /// Too few people have signed it. It is published once enough have.
    AwaitsSignatures {
        /// How many have.
        good: usize,
        /// How many must.
        needed: usize,
        /// Those who have not, as people know their keys.
        missing: Vec<String>,
    },
}

impl From<Reason> for ReleaseOutcome {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::ConflictingTags(_) | Reason::Unreadable { .. } | Reason::Immutable(_) | Reason::NotAsSigned(_) => {
                Self::Failed(reason)
            }
            _ => Self::Skipped(reason),
        }
    }
}

/// Why a tag gives no manifest, or a note about one that does. The next build reads those that
/// [are in the tag](Self::is_in_the_tag) from a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// No tag pattern of the entry finds a version in its name.
    NotAVersion,
    /// A letter in place of a digit, `O` for 0, `l` or `I` for 1; with the intended version.
    LetterForDigit(String),
    /// PHP orders the version's suffix differently from its meaning.
    #[serde(skip)]
    Misread(MisreadSuffix),
    /// PHP orders the version in the header differently from its meaning. Sites compare this version with the next release, and not
    /// the tag's.
    MisreadHeader {
        /// The version and the file.
        header: String,
        /// How PHP reads it, and what to write.
        misread: String,
    },
    /// The tag is probably a version of this plugin. It matches this pattern, which the entry does not have.
    OtherPattern(String),
    /// Named after something else, such as another plugin of the repository.
    OtherName,
    /// The entry withholds this version.
    Withheld,
    /// Outside the entry's `versions`.
    OutsideVersions,
    /// Another tag has the same version at the same commit.
    SameAs(String),
    /// It points at a tree, a blob or a long chain of tags.
    NotACommit(Cow<'static, str>),
    /// The plugin's folder is missing at this tag.
    PathAbsent(String),
    /// The plugin is not at the entry's `path`; it seems to be in this folder.
    Moved(String),
    /// No PHP file has a plugin header.
    NoPluginHeader,
    /// The folder of a plugin has a theme.
    Theme,
    /// The folder of a theme has no theme; this file is a plugin's main file.
    NoTheme(String),
    /// The folder of a theme has no `style.css` with a theme header.
    NoThemeHeader,
    /// The header in this file has no version.
    NoVersion(String),
    /// Several files have a plugin header, and none is named like the plugin.
    Ambiguous(Vec<String>),
    /// Too many PHP files to search.
    TooManyFiles(usize),
    /// A required file is a symbolic link or a submodule, which are not followed.
    NotFollowed {
        /// Its path.
        path: String,
        /// Its kind.
        kind: Cow<'static, str>,
    },
    /// A required file is too large.
    TooLarge {
        /// Its path.
        path: String,
        /// Its size in bytes.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The header of a stable release has another version.
    VersionMismatch {
        /// The file with the header.
        file: String,
        /// The version in its header.
        header: String,
    },
    /// The CMS could not compare the header's version.
    StrangeVersion {
        /// The file with the header.
        file: String,
        /// The version in its header.
        header: String,
    },
    /// The header's version already has a tag, at another commit.
    AlreadyTagged(String),
    /// The header writes the tag's version differently.
    WrittenAs(Version),
    /// The changelog has no entry for this version; the one of this other version is used: of the final version of a
    /// pre-release, which the header has, or of 1.2.3 for 1.2.3.0.
    ChangelogOf(Version),
    /// These tags have the same version at different commits.
    ConflictingTags(Vec<String>),
    /// No package can be made of it.
    Unpackable(String),
    /// It differs in this from the published release, which never changes.
    Immutable(Cow<'static, str>),
    /// Another package was published under this version.
    Replaced,
    /// The plugin's entry lets it leave these sites behind.
    LeavesBehind(String),
    /// It differs in this from the release that was signed.
    NotAsSigned(String),
    /// An object is missing or damaged.
    Unreadable {
        /// What was read.
        path: String,
        /// The error.
        detail: String,
    },
}

/// The most names in a reason: with 100,000 tags of one version, each would name all others.
const NAMES: usize = 8;

impl Reason {
    /// Files that a working tree can have and a commit cannot.
    pub const SPECIAL: &str = "pipe, socket or device";

    /// These tags have the same version at different commits.
    pub fn conflicting_tags(tags: &[String]) -> Self {
        Self::ConflictingTags(first(tags))
    }

    /// These files all have a plugin header.
    pub fn ambiguous(files: &[String]) -> Self {
        Self::Ambiguous(first(files))
    }

    /// The reason why an object could not be read. `path` names the object for people.
    pub fn from_object(path: &str, error: ObjectError) -> Self {
        match error {
            ObjectError::TooLarge { size, limit } => Self::TooLarge {
                path: path.to_owned(),
                size,
                limit,
            },
            ObjectError::NotACommit(kind) => Self::NotACommit(kind.into()),
            error => Self::Unreadable {
                path: path.to_owned(),
                detail: error.to_string(),
            },
        }
    }

    /// Whether it is a property of the tag's files under the entry: another build with the same inputs finds it again.
    pub(crate) fn is_in_the_tag(&self) -> bool {
        matches!(
            self,
            Self::PathAbsent(_)
                | Self::NoPluginHeader
                | Self::Theme
                | Self::NoTheme(_)
                | Self::NoThemeHeader
                | Self::NoVersion(_)
                | Self::Ambiguous(_)
                | Self::TooManyFiles(_)
                | Self::NotFollowed { .. }
                | Self::TooLarge { .. }
                | Self::VersionMismatch { .. }
                | Self::StrangeVersion { .. }
                | Self::MisreadHeader { .. }
                | Self::Unpackable(_)
        )
    }

    /// A short constant code, for programs.
    pub fn code(&self) -> &'static str {
        self.parts().0
    }

    /// The part of the text that is the same for all tags.
    pub fn headline(&self) -> &'static str {
        self.parts().1
    }

    /// The details of this tag; may be empty.
    pub fn detail(&self) -> String {
        self.parts().2
    }

    /// The code, the headline and the detail.
    fn parts(&self) -> (&'static str, &'static str, String) {
        let none = String::new();
        match self {
            Self::NotAVersion => (
                "not_a_version",
                "the name is not a version under the entry's tag patterns",
                none,
            ),
            Self::LetterForDigit(meant) => (
                "letter_for_digit",
                "not a version: it has a letter in place of a digit",
                format!("did you mean {meant}?"),
            ),
            Self::Misread(misread) => (
                "misread_suffix",
                "sites misread the version's suffix",
                misread.to_string(),
            ),
            Self::MisreadHeader { header, misread } => (
                "misread_header",
                "sites misread the header's version",
                format!("{header}: {misread}"),
            ),
            Self::OtherPattern(pattern) => (
                "other_pattern",
                "a version, but the entry's tags lack its pattern",
                pattern.clone(),
            ),
            Self::OtherName => ("other_name", "named after something else, such as another plugin", none),
            Self::Withheld => ("withheld", "withheld by the entry", none),
            Self::OutsideVersions => ("outside_versions", "outside the entry's versions", none),
            Self::SameAs(tag) => ("same_as", "the same release as another tag", tag.clone()),
            Self::NotACommit(kind) => ("not_a_commit", "does not point at a commit", format!("a {kind}")),
            Self::PathAbsent(path) => ("path_absent", "the plugin's folder is absent", path.clone()),
            Self::Moved(path) => ("moved", "it seems to be in another folder; set path", path.clone()),
            Self::NoPluginHeader => (
                "no_plugin_header",
                "no PHP file at the plugin's root has a plugin header",
                none,
            ),
            Self::Theme => (
                "theme",
                "a theme; set type = \"theme\", or main_file if it is a plugin",
                none,
            ),
            Self::NoTheme(file) => (
                "no_theme",
                "a plugin; remove type = \"theme\" from the entry",
                file.clone(),
            ),
            Self::NoThemeHeader => (
                "no_theme_header",
                "no style.css at the theme's root has a theme header",
                none,
            ),
            Self::NoVersion(file) => ("no_version", "the header has no Version", file.clone()),
            Self::Ambiguous(files) => (
                "ambiguous",
                "several files have a plugin header; set main_file",
                files.join(", "),
            ),
            Self::TooManyFiles(count) => (
                "too_many_files",
                "too many PHP files at the plugin's root; set main_file",
                count.to_string(),
            ),
            Self::NotFollowed { path, kind } if *kind == Self::SPECIAL => (
                "not_followed",
                "only files and folders are read",
                format!("{path} is a {kind}"),
            ),
            Self::NotFollowed { path, kind } => (
                "not_followed",
                "links and submodules are not followed",
                format!("{path} is a {kind}"),
            ),
            Self::TooLarge { path, size, limit } => (
                "too_large",
                "too large",
                format!("{path} has {size} bytes, at most {limit} are read"),
            ),
            Self::VersionMismatch { file, header } => (
                "version_mismatch",
                "the header has another version",
                format!("{header} in {file}"),
            ),
            Self::StrangeVersion { file, header } => (
                "strange_version",
                "the header's Version is not a version",
                format!("{header} in {file}"),
            ),
            Self::AlreadyTagged(tag) => (
                "already_tagged",
                "its version is already released; raise it in the header",
                tag.clone(),
            ),
            Self::WrittenAs(version) => ("written_as", "published as the header writes it", version.to_string()),
            Self::ChangelogOf(version) => (
                "changelog_of",
                "the changelog has no entry for exactly this version; using the one of",
                version.to_string(),
            ),
            Self::ConflictingTags(tags) => (
                "conflicting_tags",
                "tags of one version at different commits; delete or withhold one",
                tags.join(", "),
            ),
            Self::Unpackable(why) => ("unpackable", "no package can be made of it", why.clone()),
            Self::Immutable(what) => (
                "immutable",
                "differs from what is published, which never changes (raise the version, or see build --replace)",
                what.to_string(),
            ),
            Self::NotAsSigned(what) => ("not_as_signed", "not the release that was signed", what.clone()),
            Self::LeavesBehind(sites) => (
                "leaves_behind",
                "leaves sites behind, as leave_behind of its entry allows",
                sites.clone(),
            ),
            Self::Replaced => ("replaced", "replaces what was published under this version", none),
            Self::Unreadable { path, detail } => ("unreadable", "unreadable", format!("{path}: {detail}")),
        }
    }
}

fn first(names: &[String]) -> Vec<String> {
    let more = names
        .len()
        .checked_sub(NAMES)
        .filter(|more| *more > 0)
        .map(|more| format!("{more} more"));
    names.iter().take(NAMES).cloned().chain(more).collect()
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, headline, detail) = self.parts();
        f.write_str(headline)?;
        if detail.is_empty() {
            Ok(())
        } else {
            write!(f, ": {detail}")
        }
    }
}
