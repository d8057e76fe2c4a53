//! What [`Packer`](super::Packer) is asked for, and what comes of it.

use crate::build::git::tag::Tagged;
use countersign_model::release_key::ReleaseKey;
use countersign_model::version::Version;
use countersign_package::catalog::{HostedPackage, Release};

/// A release to pack.
pub(in crate::build) struct PackRequest<'a> {
    /// The version it is published under.
    pub(in crate::build) version: &'a Version,
    /// The main file, relative to the plugin's folder.
    pub main_file: &'a str,
    /// The tag's commit.
    pub tagged: &'a Tagged,
    /// The published release of this version, if any.
    pub published: Option<&'a Release>,
    /// Whom its client believes, as its statement says.
    pub pinned: &'a [ReleaseKey],
}

/// The outcome of packing a release.
pub(in crate::build) enum Packed {
    /// Its package.
    Package(PackedRelease),
    /// Its archive is not there yet.
    Awaits,
}

/// The package of a release.
pub(in crate::build) struct PackedRelease {
    /// Its entry in the index.
    pub package: HostedPackage,
    /// Whether it differs from the published one.
    pub replaces: bool,
    /// Pinned keys that are nowhere in a new package.
    pub absent_keys: Vec<ReleaseKey>,
}

impl Packed {
    /// The package that is published already.
    pub(in crate::build) fn kept(package: HostedPackage) -> Self {
        Self::Package(PackedRelease {
            package,
            replaces: false,
            absent_keys: Vec::new(),
        })
    }
}
