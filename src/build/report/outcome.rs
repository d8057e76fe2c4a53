//! What became of each tag: built, unchanged, skipped or failed, and why. Data only; [`report`](crate::build::report)
//! shows it.

use std::fmt;

use crate::build::git::object::ObjectError;
use crate::model::version::Version;

/// What became of one tag.
#[derive(Debug)]
pub struct TagOutcome {
    /// The tag's name, not escaped.
    pub tag: String,
    /// The version it stands for, as published where it is published.
    pub version: Option<Version>,
    /// What became of it.
    pub outcome: ReleaseOutcome,
    /// What somebody should know although it stops nothing.
    pub notes: Vec<Reason>,
}

/// What becomes of a tag.
#[derive(Debug)]
pub enum ReleaseOutcome {
    /// Its manifest is new or differs from the one that was published.
    Built,
    /// Its manifest is published already, byte for byte.
    Unchanged,
    /// It is no release of this plugin, by a rule. A manifest published earlier goes.
    Skipped(Reason),
    /// Something is wrong with it. A manifest published earlier stays.
    Failed(Reason),
    /// Nobody has handed over its package yet. It is published once that is there.
    AwaitsPackage,
}

impl From<Reason> for ReleaseOutcome {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::ConflictingTags(_) | Reason::Unreadable { .. } | Reason::Immutable(_) => Self::Failed(reason),
            _ => Self::Skipped(reason),
        }
    }
}

/// Why a tag gives no manifest, or, as a note, what to know about one that does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No tag pattern of the entry finds a version in its name.
    NotAVersion,
    /// A letter stands where a digit belongs, `O` for 0, `l` or `I` for 1; with the version that is meant.
    LetterForDigit(String),
    /// A version of this plugin as it seems, under this tag pattern, which the entry does not have.
    OtherPattern(String),
    /// Named after something else, such as another plugin of the repository.
    OtherName,
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
    /// The plugin is not where the entry's `path` says; it seems to be in this folder.
    Moved(String),
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
    /// The header's version is none the CMS could compare.
    StrangeVersion {
        /// The file with the header.
        file: String,
        /// What its header says.
        header: String,
    },
    /// The header's version has this tag already, at another commit.
    AlreadyTagged(String),
    /// The header writes the tag's version in another way.
    WrittenAs(Version),
    /// The pre-release has no entry in the changelog; the one of its final version, which the header says, is used.
    ChangelogOf(Version),
    /// These tags give the same version at different commits.
    ConflictingTags(Vec<String>),
    /// No package can be made of it.
    Unpackable(String),
    /// What is published differs in this, and never changes.
    Immutable(&'static str),
    /// What was published under this version was another package.
    Replaced,
    /// An object is missing or damaged.
    Unreadable {
        /// What was read.
        path: String,
        /// What is wrong with it.
        detail: String,
    },
}

/// Names a reason carries; with 100,000 tags of one version, each would name all others.
const NAMES: usize = 8;

impl Reason {
    /// What a working tree can hold and a commit cannot.
    pub const SPECIAL: &str = "pipe, socket or device";

    /// These tags give the same version at different commits.
    pub fn conflicting_tags(tags: &[String]) -> Self {
        Self::ConflictingTags(first(tags))
    }

    /// These files all have a plugin header.
    pub fn ambiguous(files: &[String]) -> Self {
        Self::Ambiguous(first(files))
    }

    /// What to make of an object that cannot be used; `path` says what was read.
    pub fn from_object(path: &str, error: ObjectError) -> Self {
        match error {
            ObjectError::TooLarge { size, limit } => Self::TooLarge {
                path: path.to_owned(),
                size,
                limit,
            },
            ObjectError::NotACommit(kind) => Self::NotACommit(kind),
            error => Self::Unreadable {
                path: path.to_owned(),
                detail: error.to_string(),
            },
        }
    }

    /// A short constant name, for machines.
    pub fn code(&self) -> &'static str {
        self.told().0
    }

    /// What is the same for every tag that it befalls.
    pub fn headline(&self) -> &'static str {
        self.told().1
    }

    /// What is this tag's own; may be empty.
    pub fn detail(&self) -> String {
        self.told().2
    }

    fn told(&self) -> (&'static str, &'static str, String) {
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
            Self::Moved(path) => (
                "moved",
                "the plugin seems to be in another folder; set path",
                path.clone(),
            ),
            Self::NoPluginHeader => (
                "no_plugin_header",
                "no PHP file at the plugin's root has a plugin header",
                none,
            ),
            Self::Theme => ("theme", "a theme, not a plugin", none),
            Self::NoVersion(file) => ("no_version", "the plugin header has no Version", file.clone()),
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
                "its version is already released; raise it in the plugin header",
                tag.clone(),
            ),
            Self::WrittenAs(version) => ("written_as", "published as the header writes it", version.to_string()),
            Self::ChangelogOf(version) => (
                "changelog_of",
                "the changelog has no entry for it; using the one of the final version",
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
                (*what).to_owned(),
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
        let (_, headline, detail) = self.told();
        f.write_str(headline)?;
        if detail.is_empty() {
            Ok(())
        } else {
            write!(f, ": {detail}")
        }
    }
}
