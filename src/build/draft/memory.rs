//! A sink that keeps a draft's manifests in memory.

use std::cell::RefCell;
use std::convert::Infallible;
use std::fs::File;
use std::io::Seek as _;
use std::time::SystemTime;

use crate::build::draft::release::DraftRelease;
use crate::build::manifest_sink::{BuiltRelease, ManifestSink, NewPackage, PackFailure};
use crate::build::report::outcome::Reason;
use countersign_files::regular_file;
use countersign_model::digest::Digest;
use countersign_model::slug::Slug;
use countersign_model::version::Version;
use countersign_package::catalog::{Release, Releases};
use countersign_package::file_digest::digest_of;
use countersign_package::writer::Package;

/// The manifests of one plugin.
pub(super) struct Memory {
    published: Option<Releases>,
    folder: String,
    releases: RefCell<Vec<DraftRelease>>,
}

impl Memory {
    /// An empty sink. `published` has the plugin's published releases, `folder` its folder in the repository.
    pub(super) fn new(published: Option<Releases>, folder: String) -> Self {
        Self {
            published,
            folder,
            releases: RefCell::default(),
        }
    }

    /// The manifests.
    pub(super) fn into_releases(self) -> Vec<DraftRelease> {
        self.releases.into_inner()
    }
}

impl ManifestSink for Memory {
    type Error = Infallible;

    fn published(&self, _: &Slug) -> Option<&Releases> {
        self.published.as_ref()
    }

    /// A preview shows every manifest.
    fn is_in_place(&self, _: &Slug, _: &Release) -> bool {
        false
    }

    fn holds_package(&self, _: &Slug, release: &Release) -> bool {
        let published = self.published.iter().flat_map(|published| &published.releases);
        published.into_iter().any(|old| old == release)
    }

    fn vouches_since(&self) -> Option<SystemTime> {
        None
    }

    fn package(
        &self,
        _: &Slug,
        _: &Version,
        _: Option<&Release>,
        pack: &mut dyn FnMut(&File) -> Result<Package, PackFailure>,
    ) -> Result<Result<NewPackage, Reason>, Infallible> {
        let mut packed = || {
            let file = regular_file::create_nameless().map_err(PackFailure::Output)?;
            let packed = pack(&file)?;
            (&file).rewind().map_err(PackFailure::Output)?;
            Ok(NewPackage {
                size: packed.size,
                sha256: digest_of(&file, |_| ()).map_err(PackFailure::Output)?,
                mark: packed.mark,
            })
        };
        Ok(packed().map_err(|failure| match failure {
            PackFailure::Release(reason) => reason,
            PackFailure::Output(error) => Reason::Unpackable(error.to_string()),
        }))
    }

    fn take(&self, _: &Slug, built: BuiltRelease) -> Result<(Digest, bool), Infallible> {
        let release = DraftRelease::of(built, &self.folder);
        let digest = Digest::of(&release.manifest.to_bytes());
        let published = self.published.iter().flat_map(|published| &published.releases);
        let held = published
            .filter(|old| old.version == release.version)
            .any(|old| old.sha256 == digest);
        self.releases.borrow_mut().push(release);
        Ok((digest, held))
    }
}
