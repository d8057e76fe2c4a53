//! Between step 4 and step 5: what was built, and who takes it.
//!
//! [`Publisher`](crate::build::publish::Publisher) puts manifests into `releases/`; a [draft](crate::build::draft) holds them in memory.

use crate::build::remark::Remark;
use crate::build::report::outcome::Reason;
use crate::build::source::source_files::SourceFiles;
use crate::catalog::{Release, Releases};
use crate::model::digest::Digest;
use crate::model::manifest::Manifest;
use crate::model::slug::Slug;
use crate::model::version::Version;

/// Takes the manifests of a plugin's releases.
pub(super) trait ManifestSink {
    /// Why a manifest cannot be taken.
    type Error;

    /// What is published of a plugin now; `None` where nothing ever was.
    fn published(&self, slug: &Slug) -> Option<&Releases>;

    /// Whether this release need not be made again where it follows from the same inputs: it is published, and its manifest
    /// stands in its place byte for byte.
    fn stands(&self, slug: &Slug, release: &Release) -> bool;

    /// Takes a manifest; gives the digest of its bytes, and whether these bytes are published already.
    fn take(&self, slug: &Slug, built: BuiltRelease) -> Result<(Digest, bool), Self::Error>;
}

/// A release's manifest, and what it was made of.
pub(super) struct BuiltRelease {
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
