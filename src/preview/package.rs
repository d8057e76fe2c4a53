//! Compares the package of a release with the published one.
//!
//! [`view`](crate::preview::view) makes it; [`terminal`](crate::preview::terminal),
//! [`json`](mod@crate::preview::json) and the page show it.

use std::path::Path;

use crate::build::draft::DraftPackage;
use countersign_model::slug::Slug;
use countersign_model::text::ErrorChain;
use countersign_package::archive::Archive;
use countersign_package::catalog::{Release, package_path};
use countersign_package::difference::{FileSummary, PackageDifference, difference_of};
use countersign_package::entry_name::FolderName;
use countersign_package::mark;

/// The package that a release would have, compared with the published one.
#[derive(Debug)]
pub struct PackagePreview<'a> {
    /// What would be packed.
    pub package: &'a DraftPackage,
    /// The changes since the published release, or why they are unknown; `None` if that has no package.
    pub changes: Option<Result<PackageDifference, String>>,
}

impl<'a> PackagePreview<'a> {
    /// Compares with the package of a published release.
    pub(super) fn of(package: &'a DraftPackage, releases: Option<&Path>, with: Option<(&Slug, &Release)>) -> Self {
        let changes = releases.zip(with).and_then(|(releases, (slug, release))| {
            release.package.as_ref()?;
            let path = package_path(releases, slug, &release.version);
            Some(changes(package, &path))
        });
        Self { package, changes }
    }
}

/// Every change as a line: `added inc/a.php, 120 bytes`.
pub(super) fn lines(difference: &PackageDifference) -> Vec<String> {
    let added = difference.added.iter();
    let added = added.map(|file| format!("added {}, {} bytes", file.name, file.size));
    let removed = difference.removed.iter();
    let removed = removed.map(|file| format!("removed {}, {} bytes", file.name, file.size));
    let changed = difference.changed.iter();
    let changed = changed.map(|file| format!("changed {}, {} to {} bytes", file.name, file.before, file.after));
    added.chain(removed).chain(changed).collect()
}

fn changes(package: &DraftPackage, path: &Path) -> Result<PackageDifference, String> {
    let archive = Archive::open(path).map_err(|error| format!("{}: {}", path.display(), ErrorChain(&error)))?;
    let top = |name: &str| name.split('/').next().unwrap_or_default().to_owned();
    let folder = archive
        .files()
        .next()
        .map(|file| top(file.name.as_str()))
        .unwrap_or_default();
    let folder: FolderName = folder.parse().map_err(|error| format!("{error}"))?;
    let mut published: Vec<FileSummary> = Vec::new();
    for file in archive.files() {
        let name = file.name.below(&folder).unwrap_or_default();
        // Each download has a different mark.
        if name != mark::FILE {
            published.push(FileSummary {
                name: name.to_owned(),
                size: file.size,
                crc: Some(file.crc),
            });
        }
    }
    Ok(difference_of(&published, &package.files))
}
