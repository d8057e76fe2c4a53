//! Releases that are in no folder: of a tag, and of what is not tagged yet.

use crate::build::draft::package::DraftPackage;
use crate::build::manifest_sink::BuiltRelease;
use crate::build::remark::Remark;
use crate::build::review;
use crate::model::manifest::Manifest;
use crate::model::version::Version;

/// A manifest that is in no folder of releases.
#[derive(Clone, Debug, PartialEq)]
pub struct DraftRelease {
    /// The version it would be published under.
    pub version: Version,
    /// What the CMS would read.
    pub manifest: Manifest,
    /// What there is to know about it.
    pub remarks: Vec<Remark>,
    /// What would be packed; `None` for a release of a tag, and where packages are not made of the plugin's folder.
    pub package: Option<DraftPackage>,
}

/// A release that is not tagged.
#[derive(Clone, Debug, PartialEq)]
pub struct NextRelease {
    /// Where its files are.
    pub origin: Origin,
    /// The release, or why tagging would give none.
    pub release: Result<DraftRelease, Remark>,
    /// Whether it shows nothing that a tag at HEAD does not show already.
    pub is_released: bool,
}

/// Where the files of an untagged release are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In the folder somebody is working in, uncommitted edits included.
    WorkingTree,
    /// In the commit that is checked out.
    Head,
}

impl DraftRelease {
    /// What was built of a plugin in this folder of its repository.
    pub(super) fn of(built: BuiltRelease, folder: &str) -> Self {
        let remarks = review::remarks(&built, folder);
        Self {
            version: built.version,
            manifest: built.manifest,
            remarks,
            package: None,
        }
    }
}
