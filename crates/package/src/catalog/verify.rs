//! Checks that the files in `releases/` are those of the index.
//!
//! [`Catalog::load`](crate::catalog::Catalog::load) checks the latest manifests, `doctor` checks everything, and the
//! server checks packages in the background.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::MAX_PACKED;
use crate::catalog::error::CatalogError;
use crate::catalog::index::{HostedPackage, ReleaseIndex, index_path, package_path};
use crate::catalog::manifest::read_manifest;
use crate::file_digest::digest_of;
use countersign_files::regular_file;

/// Verifies every manifest in the index, including old ones. Returns their number.
pub fn verify_all(releases: &Path) -> Result<usize, CatalogError> {
    let (root, index) = open(releases)?;
    let mut count = 0;
    for (slug, plugin) in &index.plugins {
        plugin.check_latest(slug, &root)?;
        for release in &plugin.releases {
            read_manifest(&root, slug, &release.version, &release.sha256)?;
            count += 1;
        }
    }
    Ok(count)
}

/// Verifies the size and digest of every package in the index. Returns their number. This reads all of them and may
/// take minutes: `read` is called with each piece's size, so that the caller can show progress or pause.
///
/// # Errors
///
/// The first package that is missing or differs from the index.
pub fn verify_packages(releases: &Path, mut read: impl FnMut(u64)) -> Result<usize, CatalogError> {
    let (root, index) = open(releases)?;
    let mut count = 0;
    for (slug, plugin) in &index.plugins {
        for release in &plugin.releases {
            if let Some(package) = &release.package {
                verify_package(&package_path(&root, slug, &release.version), package, &mut read)?;
                count += 1;
            }
        }
    }
    Ok(count)
}

/// Verifies size and digest of one package.
///
/// # Errors
///
/// The package is missing or differs from the index.
pub fn verify_package(path: &Path, package: &HostedPackage, read: impl FnMut(u64)) -> Result<(), CatalogError> {
    let failed = |source| CatalogError::Read {
        path: path.to_owned(),
        source,
    };
    let file = regular_file::open(path, MAX_PACKED).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    if size != package.size {
        return Err(CatalogError::Size {
            path: path.to_owned(),
            found: size,
            expected: package.size,
        });
    }
    if digest_of(file.take(size), read).map_err(failed)? == package.sha256 {
        Ok(())
    } else {
        Err(CatalogError::Differs { path: path.to_owned() })
    }
}

/// The folder and its index. The folder is resolved once, so that everything is read from one side if `releases` is a
/// symbolic link that is replaced meanwhile.
pub(super) fn open(releases: &Path) -> Result<(PathBuf, ReleaseIndex), CatalogError> {
    let no_index = || CatalogError::NoIndex {
        path: index_path(releases),
    };
    let root = match releases.canonicalize() {
        Ok(root) => root,
        Err(source) if source.kind() == io::ErrorKind::NotFound => return Err(no_index()),
        Err(source) => {
            return Err(CatalogError::Read {
                path: releases.to_owned(),
                source,
            });
        }
    };
    let index = ReleaseIndex::read(&root)?.ok_or_else(no_index)?;
    Ok((root, index))
}
