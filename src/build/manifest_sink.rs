//! The interface between step 4 and step 5: what was built, and who takes it.
//!
//! [`Publisher`](crate::build::publish::Publisher) writes manifests to `releases/`; a [draft](crate::build::draft)
//! keeps them.

use std::fs::File;
use std::io;
use std::time::SystemTime;

use crate::build::remark::Remark;
use crate::build::report::outcome::Reason;
use crate::build::source::source_files::SourceFiles;
use countersign_model::digest::Digest;
use countersign_model::manifest::Manifest;
use countersign_model::slug::Slug;
use countersign_model::text::ErrorChain;
use countersign_model::version::Version;
use countersign_package::catalog::{Release, Releases};
use countersign_package::mark::Places;
use countersign_package::normalize::NormalizeError;
use countersign_package::writer::{Package, WriteError};

/// Takes the manifests and the packages of a plugin's releases.
pub(super) trait ManifestSink {
    /// Why a manifest cannot be taken.
    type Error;

    /// The currently published releases of a plugin; `None` if there never were any.
    fn published(&self, slug: &Slug) -> Option<&Releases>;

    /// Whether this release can be reused if its inputs are the same: it is published, and its manifest and package
    /// are in place byte for byte.
    fn is_in_place(&self, slug: &Slug, release: &Release) -> bool;

    /// Whether the package of a published release, if it has one, is in place.
    fn holds_package(&self, slug: &Slug, release: &Release) -> bool;

    /// Repositories that have not changed since this time gave the published releases; `None` if no time can be
    /// trusted.
    fn vouches_since(&self) -> Option<SystemTime>;

    /// Takes a package, which `pack` writes into an empty file and checks; returns why there is none. `published` is
    /// the published release of this version.
    fn package(
        &self,
        slug: &Slug,
        version: &Version,
        published: Option<&Release>,
        pack: &mut dyn FnMut(&File) -> Result<Package, PackFailure>,
    ) -> Result<Result<NewPackage, Reason>, Self::Error>;

    /// Takes a manifest; returns its digest, and whether the same bytes are published already.
    fn take(&self, slug: &Slug, built: BuiltRelease) -> Result<(Digest, bool), Self::Error>;
}

/// A package that waits to be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NewPackage {
    /// Size in bytes.
    pub size: u64,
    /// Digest of its bytes.
    pub sha256: Digest,
    /// Where its mark is.
    pub mark: Option<Places>,
}

/// Why there is no package.
#[derive(Debug)]
pub(super) enum PackFailure {
    /// The release has a problem.
    Release(Reason),
    /// The package cannot be written or read back.
    Output(io::Error),
}

/// A release's manifest, and what it was made from.
pub(super) struct BuiltRelease {
    /// The version it is published under.
    pub version: Version,
    /// The manifest.
    pub manifest: Manifest,
    /// The content of the plugin's files.
    pub files: SourceFiles,
    /// Notes that stop nothing.
    pub notes: Vec<Reason>,
    /// Remarks about the plugin's folder; empty if it was not inspected.
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
