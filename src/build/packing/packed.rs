//! What [`Packer`](super::Packer) is asked for, and what comes of it.

use crate::build::git::tag::Tagged;
use crate::catalog::{HostedPackage, Release};
use crate::model::version::Version;

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
}

/// The outcome of packing a release.
pub(in crate::build) enum Packed {
    /// The package; `replaces` if another one was published.
    Package {
        /// Its entry in the index.
        package: HostedPackage,
        /// Whether it differs from the published one.
        replaces: bool,
    },
    /// Its archive is not there yet.
    Awaits,
}

impl Packed {
    /// The package that is published already.
    pub(in crate::build) fn kept(package: HostedPackage) -> Self {
        let replaces = false;
        Self::Package { package, replaces }
    }
}
