//! The package that is signed: made again from the tag, or from the archive that CI handed over, and compared with `--package`.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::build::package_folder::PackageFolder;
use crate::build::rebuild::{RebuildError, Rebuilt, rebuild};
use crate::build::{Mirrors, NoProgress, PackingOptions};
use crate::commands::Failure;
use crate::commands::sign::ssh_keygen::WorkFolder;
use countersign_files::durable_file::{self, Access};
use countersign_files::regular_file;
use countersign_model::digest::Digest;
use countersign_model::plugin::{PackageOrigin, Plugin};
use countersign_model::slug::Slug;
use countersign_model::text::printable::Printable;
use countersign_model::version::Version;
use countersign_package::MAX_PACKED;
use countersign_package::archive::{Archive, ArchiveError};
use countersign_package::difference::{PackageDifference, difference};
use countersign_package::release::contents;
use countersign_package::release::copy;
use countersign_package::release::statement::{MAX_STATEMENT, SignedMark, SignedPackage};
use countersign_package::writer::FORM;
use countersign_registry::plugins::PluginEntry;
use countersign_registry::release_chain::statement_path;
use countersign_settings::config::Config;

/// Files that a message names.
const NAMES: usize = 5;

/// A release that was made again.
#[derive(Debug)]
pub(super) struct Remade {
    pub(super) rebuilt: Rebuilt,
    /// Its package.
    pub(super) file: File,
    pub(super) package: SignedPackage,
    /// The digest over its files.
    pub(super) contents: Digest,
    /// What the statement's file has, be it readable or not.
    pub(super) seen: Option<Vec<u8>>,
}

/// Why a package is not the one to sign.
#[derive(Debug, thiserror::Error)]
pub(super) enum PackageFileError {
    #[error("{}: cannot be read", Printable(path.display()))]
    Read { path: PathBuf, source: io::Error },
    #[error("{}: not taken as a package", Printable(path.display()))]
    Archive { path: PathBuf, source: ArchiveError },
    #[error("{}: has the files of the tag, and is packed in another way than form {FORM}, the normal form that `build` publishes: only the packing differs", Printable(path.display()))]
    Packing { path: PathBuf },
    #[error("{}: is not what the tag gives: {}", Printable(path.display()), Printable(files))]
    Contents { path: PathBuf, files: String },
}

impl Remade {
    /// Makes a release again. Where packages are made of tags, `given` must be what the tag gives; else it replaces the
    /// archive that was handed over.
    pub(super) fn of(
        entry: &PluginEntry,
        plugin: &Plugin,
        version: &Version,
        given: Option<&Path>,
        mirrors: &Mirrors,
        config: &Config,
        work: &WorkFolder,
    ) -> Result<Self, Failure> {
        let is_of_file = plugin
            .package
            .as_ref()
            .is_some_and(|package| package.from == PackageOrigin::File);
        let packages = match given.filter(|_| is_of_file) {
            None => config.paths.packages.clone(),
            Some(given) => handed_over(given, &plugin.slug, version, work)?,
        };
        let packing = PackingOptions {
            folder: PackageFolder::new(&packages),
            ..PackingOptions::default()
        };
        let file = regular_file::create_nameless().map_err(RebuildError::Write)?;
        let rebuilt = rebuild(entry, version, mirrors, &packing, &file, &NoProgress)?;
        let hosted = &rebuilt.package;
        let package = SignedPackage {
            mark: hosted.mark.map(SignedMark::from),
            sha256: hosted.sha256,
            size: hosted.size,
        };
        let archive = Archive::check(&file).map_err(Failure::input)?;
        let contents = contents::digest(&archive, package.mark.is_some()).map_err(Failure::input)?;
        if let Some(given) = given.filter(|_| !is_of_file) {
            compare(given, &package, contents, &archive)?;
        }
        let statement = statement_path(&config.paths.registry, &plugin.slug, version);
        Ok(Self {
            rebuilt,
            file,
            package,
            contents,
            seen: regular_file::read(&statement, MAX_STATEMENT).ok(),
        })
    }
}

/// A folder of archives with this one in it.
fn handed_over(given: &Path, slug: &Slug, version: &Version, work: &WorkFolder) -> Result<PathBuf, Failure> {
    let root = work.path("packages");
    let place = PackageFolder::new(&root).place(slug, version);
    let read = |source| PackageFileError::Read {
        path: given.to_owned(),
        source,
    };
    let write = |source| PackageFileError::Read {
        path: place.clone(),
        source,
    };
    let mut from = regular_file::open(given, MAX_PACKED).map_err(read)?;
    durable_file::create_folders(place.parent().unwrap_or(&root), Access::Owner).map_err(write)?;
    let mut to = regular_file::create(&place, 0o600).map_err(write)?;
    io::copy(&mut from, &mut to).map_err(write)?;
    Ok(root)
}

/// Whether an archive is the package that the tag gives, or a copy of it.
fn compare(
    given: &Path,
    package: &SignedPackage,
    expected: Digest,
    remade: &Archive<&File>,
) -> Result<(), PackageFileError> {
    let path = || given.to_owned();
    let read = |source| PackageFileError::Read { path: path(), source };
    let file = regular_file::open(given, MAX_PACKED).map_err(read)?;
    if copy::check(&file, package).is_ok() {
        return Ok(());
    }
    let refused = |source| PackageFileError::Archive { path: path(), source };
    let archive = Archive::check(&file).map_err(refused)?;
    let is_same = contents::digest(&archive, package.mark.is_some()).map_err(refused)? == expected;
    match is_same {
        true => Err(PackageFileError::Packing { path: path() }),
        false => Err(PackageFileError::Contents {
            path: path(),
            files: names(&difference(remade, &archive)),
        }),
    }
}

/// Which files differ, by name.
fn names(difference: &PackageDifference) -> String {
    let added = difference.added.iter().map(|file| format!("{} is added", file.name));
    let removed = difference
        .removed
        .iter()
        .map(|file| format!("{} is missing", file.name));
    let changed = difference.changed.iter().map(|file| format!("{} differs", file.name));
    let all: Vec<_> = added.chain(removed).chain(changed).collect();
    let more = all.len().saturating_sub(NAMES);
    let named = all[..all.len() - more].join(", ");
    match more {
        0 => named,
        more => format!("{named}, {more} more"),
    }
}

impl From<PackageFileError> for Failure {
    fn from(error: PackageFileError) -> Self {
        match error {
            PackageFileError::Packing { .. } => {
                Self::input(error).hint("sign without --package: `build` publishes what the tag gives")
            }
            _ => Self::input(error),
        }
    }
}
