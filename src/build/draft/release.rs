//! Releases in memory: of a tag, or of untagged files.

use crate::build::draft::package::DraftPackage;
use crate::build::manifest_sink::BuiltRelease;
use crate::build::remark::Remark;
use crate::build::review;
use countersign_model::manifest::Manifest;
use countersign_model::version::Version;

/// A manifest in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct DraftRelease {
    /// The version it would be published under.
    pub version: Version,
    /// The manifest.
    pub manifest: Manifest,
    /// Remarks about it.
    pub remarks: Vec<Remark>,
    /// What would be packed; `None` for a release of a tag, and where packages are not made of the plugin's folder.
    pub package: Option<DraftPackage>,
}

/// A release without a tag.
#[derive(Clone, Debug, PartialEq)]
pub struct NextRelease {
    /// Where its files are.
    pub origin: Origin,
    /// The release, or why a tag would not give one.
    pub release: Result<DraftRelease, Remark>,
    /// Whether a tag at HEAD already gives the same.
    pub is_released: bool,
}

/// Where the files of an untagged release are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In the working tree, with uncommitted edits.
    WorkingTree,
    /// In the commit that is checked out.
    Head,
}

impl DraftRelease {
    /// The built release of a plugin in this folder of its repository.
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
