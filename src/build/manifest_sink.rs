//! Between step 4 and step 5: what was built, and who takes it.
//!
//! [`Publisher`](crate::build::publish::Publisher) puts manifests into `releases/`; a [draft](crate::build::draft) holds them in memory.

use std::fs::File;
use std::io;
use std::time::SystemTime;

use crate::build::remark::Remark;
use crate::build::report::outcome::Reason;
use crate::build::source::source_files::SourceFiles;
use crate::catalog::{Release, Releases};
use crate::model::digest::Digest;
use crate::model::manifest::Manifest;
use crate::model::slug::Slug;
use crate::model::version::Version;
use crate::package::mark::Places;
use crate::package::normalize::NormalizeError;
use crate::package::writer::{Package, WriteError};
use crate::text::error_chain::ErrorChain;

/// Takes the manifests and the packages of a plugin's releases.
pub(super) trait ManifestSink {
    /// Why a manifest cannot be taken.
    type Error;

    /// What is published of a plugin now; `None` where nothing ever was.
    fn published(&self, slug: &Slug) -> Option<&Releases>;

    /// Whether this release need not be made again where it follows from the same inputs: it is published, and its manifest
    /// and its package stand in their places byte for byte.
    fn stands(&self, slug: &Slug, release: &Release) -> bool;

    /// Whether the package of a published release stands in its place, where it has one.
    fn holds_package(&self, slug: &Slug, release: &Release) -> bool;

    /// What has not changed since this moment is what the published releases were made of; `None` where no time is trusted.
    fn vouches_since(&self) -> Option<SystemTime>;

    /// Takes a package, which `pack` writes into an empty file and checks; or gives the reason why there is none.
    /// `published` is the release of this version that is published now.
    fn package(
        &self,
        slug: &Slug,
        version: &Version,
        published: Option<&Release>,
        pack: &mut dyn FnMut(&File) -> Result<Package, PackFailure>,
    ) -> Result<Result<NewPackage, Reason>, Self::Error>;

    /// Takes a manifest; gives the digest of its bytes, and whether these bytes are published already.
    fn take(&self, slug: &Slug, built: BuiltRelease) -> Result<(Digest, bool), Self::Error>;
}

/// A package that waits to be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NewPackage {
    /// Its bytes.
    pub size: u64,
    /// Digest of its bytes.
    pub sha256: Digest,
    /// Where its mark stands.
    pub mark: Option<Places>,
}

/// Why there is no package.
#[derive(Debug)]
pub(super) enum PackFailure {
    /// Something is wrong with the release.
    Release(Reason),
    /// The package cannot be written, or what was written cannot be read.
    Output(io::Error),
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

impl From<Reason> for PackFailure {
    fn from(reason: Reason) -> Self {
        Self::Release(reason)
    }
}

impl From<WriteError> for PackFailure {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Write(source) => Self::Output(source),
            error => Self::Release(Reason::Unpackable(ErrorChain(&error).to_string())),
        }
    }
}

impl From<NormalizeError> for PackFailure {
    fn from(error: NormalizeError) -> Self {
        match error {
            NormalizeError::Write(error) => error.into(),
            error => Self::Release(Reason::Unpackable(ErrorChain(&error).to_string())),
        }
    }
}
