//! Between steps 4 and 5: makes the package of a release, from its tag or from an archive of the vendor's build.
//!
//! A published package never changes: if the files, the archive or the package differ now, for example because its tag
//! moved, the release is refused, unless `--replace` names it. [`ManifestSink`] takes the package, `release_builder` the
//! outcome.

mod attributes;
mod from_tag;
pub(super) mod packing_list;
pub(super) mod rules;
pub(super) mod unbuilt;
pub(super) mod warnings;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::build::git::object::ObjectId;
use crate::build::git::repository::Repository;
use crate::build::git::tag::Tagged;
use crate::build::manifest_sink::{ManifestSink, NewPackage, PackFailure};
use crate::build::package_folder::PackageFolder;
use crate::build::packing::packing_list::{PackingList, PackingObstacle, WAY_OUT, packing_list};
use crate::build::release_signing::SignedChains;
use crate::build::report::outcome::Reason;
use crate::build::source::source_tree::SourceTree as _;
use crate::build::source::{assets, plugin_header};
use countersign_model::digest::Digest;
use countersign_model::installed::InstalledVersions;
use countersign_model::plugin::{PackageOrigin, PackageSettings, Plugin};
use countersign_model::release_key::ReleaseKey;
use countersign_model::slug::Slug;
use countersign_model::version::Version;
use countersign_package::archive::{Archive, ArchiveEntry, ArchiveError, ArchiveRefusal};
use countersign_package::catalog::{HostedPackage, Release};
use countersign_package::check::{self, Expected, PackageProblem};
use countersign_package::entry_name::FolderName;
use countersign_package::file_digest::digest_of;
use countersign_package::normalize::normalize;
use countersign_package::read_at::ReadAt;
use countersign_package::release::contents;
use countersign_package::writer::{FORM, Package};

/// How many obstacles a message names; the rest is counted.
const NAMED: usize = 5;

/// Size limit in bytes of a main file whose header is checked before the tag is packed.
const MAX_MAIN_FILE: usize = 1 << 20;

/// How a build packs releases.
#[derive(Clone, Debug, Default)]
pub struct PackingOptions {
    /// The folder of the vendor's archives.
    pub folder: PackageFolder,
    /// Releases that may differ from the published ones.
    pub replace: HashSet<(Slug, Version)>,
    /// What people signed; `None` asks for no signatures: to build a release for somebody who is about to sign it.
    pub signed: Option<SignedChains>,
    /// What sites run; `None` if nobody knows.
    pub installed: Option<Arc<InstalledVersions>>,
    /// The folder of mirrors, to remember refused packages; `None` to forget them.
    pub cache: Option<PathBuf>,
}

/// Packs the releases of one plugin.
pub(super) struct Packer<'a> {
    plugin: &'a Plugin,
    settings: &'a PackageSettings,
    repository: &'a Repository,
    options: &'a PackingOptions,
}

impl<'a> Packer<'a> {
    /// A packer; `None` if the entry has a `download_url`.
    pub(super) fn new(plugin: &'a Plugin, repository: &'a Repository, options: &'a PackingOptions) -> Option<Self> {
        Some(Self {
            plugin,
            settings: plugin.package.as_ref()?,
            repository,
            options,
        })
    }

    /// Whether the archive of a published release is still the same.
    pub(super) fn is_up_to_date(&self, sink: &impl ManifestSink, release: &Release) -> bool {
        let Some(package) = &release.package else { return false };
        if self.settings.from == PackageOrigin::Tag {
            return true;
        }
        let slug = &self.plugin.slug;
        let folder = &self.options.folder;
        let moment = sink.vouches_since();
        moment.is_some_and(|moment| folder.is_unchanged(slug, &release.version, moment))
            || match folder.open(slug, &release.version) {
                Ok(None) => true,
                Ok(Some(file)) => digest_of(file, |_| ()).is_ok_and(|digest| package.file == Some(digest)),
                Err(_) => false,
            }
    }

    /// Packs a release, and compares it with the published one.
    pub(super) fn pack<S: ManifestSink>(
        &self,
        sink: &S,
        request: &PackRequest,
    ) -> Result<Result<Packed, Reason>, S::Error> {
        let source = self.plugin.source.as_ref();
        let path = source.map_or("", |source| &source.path);
        let Some(tree) = assets::walk(self.repository, request.tagged.tree, path) else {
            return Ok(Err(Reason::PathAbsent(path.to_owned())));
        };
        let tree = tree.to_string();
        let slug = &self.plugin.slug;
        let may_differ = self.options.replace.contains(&(slug.clone(), request.version.clone()));
        let published = request.published.filter(|release| release.package.is_some());
        let old = published.and_then(|release| release.package.as_ref());
        let mut differs = old.is_some_and(|old| old.tree != tree);
        if differs && !may_differ {
            return Ok(Err(Reason::Immutable("its files at the tag".into())));
        }
        let list = match self.settings.from {
            PackageOrigin::Tag => match packing_list(self.repository, &request.tagged.tree, path, self.settings) {
                Ok(list) => Some(list),
                Err(reason) => return Ok(Err(reason)),
            },
            PackageOrigin::File => None,
        };
        let kept = || {
            let is_in_place = published.is_some_and(|release| sink.holds_package(slug, release));
            old.filter(|_| is_in_place).cloned().map(Packed::kept)
        };
        let archive = match self.handed_over(request.version) {
            Ok(archive) => archive,
            Err(reason) => return Ok(Err(reason)),
        };
        if archive.is_none() && self.settings.from == PackageOrigin::File {
            let lost = "its archive is not there, and its published package is not what it should be";
            return Ok(match old {
                None => Ok(Packed::Awaits),
                Some(_) => kept().filter(|_| !differs).ok_or(Reason::Unpackable(lost.into())),
            });
        }
        let file = archive.as_ref().map(|(_, digest)| *digest);
        let is_other_file = old.is_some_and(|old| old.file.is_some() && old.file != file);
        if is_other_file && !may_differ {
            return Ok(Err(Reason::Immutable("the archive that was handed over".into())));
        }
        differs |= is_other_file;
        // Another form, or other rules for names, give other bytes for the same files, so the published ones stay.
        let has_refused_names = || match (&list, &archive) {
            (Some(list), _) => list.has_refused_names(),
            (None, Some((archive, _))) => has_refused_names(archive),
            (None, None) => false,
        };
        if !differs
            && old.is_some_and(|old| old.form != FORM || has_refused_names())
            && let Some(kept) = kept()
        {
            return Ok(Ok(kept));
        }
        let mut absent_keys = Vec::new();
        let mut write = |out: &File| {
            let package = match (&archive, &list) {
                (Some((archive, _)), _) => self.write_archive(request, archive, out)?,
                (None, Some(list)) => self.write_tag(request, list, out)?,
                (None, None) => return Err(Reason::PathAbsent(path.to_owned()).into()),
            };
            if !request.pinned.is_empty() {
                absent_keys = open(Archive::check(out).and_then(|new| contents::absent_keys(&new, request.pinned)))?;
            }
            Ok(package)
        };
        let new = match sink.package(slug, request.version, published, &mut write)? {
            Ok(new) => new,
            Err(reason) => return Ok(Err(reason)),
        };
        differs |= old.is_some_and(|old| old.sha256 != new.sha256);
        if differs && !may_differ {
            return Ok(Err(Reason::Immutable(
                "its package, by other settings or another time of the tag".into(),
            )));
        }
        Ok(Ok(Packed::Package(PackedRelease {
            package: hosted(new, tree, file),
            replaces: differs,
            absent_keys,
        })))
    }

    /// The vendor's archive and its digest; `None` if packages are made of tags, or it is not there.
    fn handed_over(&self, version: &Version) -> Result<Option<(File, Digest)>, Reason> {
        if self.settings.from == PackageOrigin::Tag {
            return Ok(None);
        }
        let unreadable = |error| unreadable(&self.options.folder.place(&self.plugin.slug, version), &error);
        let Some(file) = self
            .options
            .folder
            .open(&self.plugin.slug, version)
            .map_err(unreadable)?
        else {
            return Ok(None);
        };
        let digest = digest_of(&file, |_| ()).map_err(unreadable)?;
        Ok(Some((file, digest)))
    }

    fn write_tag(
        &self,
        request: &PackRequest,
        list: &PackingList<ObjectId>,
        out: &File,
    ) -> Result<Package, PackFailure> {
        if !list.obstacles.is_empty() {
            return Err(Reason::Unpackable(list_obstacles(&list.obstacles)).into());
        }
        self.check_header(request, list)?;
        let folder = self.folder()?;
        let time = time(request.tagged);
        let package = from_tag::pack(
            self.repository,
            list,
            &mut request.read.borrow_mut(),
            &folder,
            time,
            self.settings.mark,
            out,
        )?;
        // It has the mark.
        self.check(request, &folder, &open(Archive::check(out))?, false)?;
        Ok(package)
    }

    /// Makes the check of the main file that is made of the whole package, too: packing takes a thousand times as long.
    fn check_header(&self, request: &PackRequest, list: &PackingList<ObjectId>) -> Result<(), Reason> {
        let name = request.main_file;
        let bytes = match list.files.iter().find(|file| file.name == name) {
            None => Vec::new(),
            Some(file) => match self.repository.bytes(&file.id, MAX_MAIN_FILE) {
                Ok(bytes) => bytes,
                // Packing says what cannot be read.
                Err(_) => return Ok(()),
            },
        };
        let start = &bytes[..bytes.len().min(check::HEADER)];
        let kind = self.plugin.kind;
        let problem = match plugin_header::main_header(kind, start) {
            None => Some(PackageProblem::NoMainFile(name.to_owned(), kind)),
            Some(header) => check::version_problem(name, &header.version, self.expected_version(request)),
        };
        problem.map_or(Ok(()), |problem| Err(Reason::Unpackable(problem.to_string())))
    }

    /// The version that the main file must have.
    fn expected_version<'r>(&self, request: &PackRequest<'r>) -> Option<&'r str> {
        Some(request.version.as_str()).filter(|_| !self.plugin.allow_version_mismatch)
    }

    fn write_archive(&self, request: &PackRequest, archive: &File, out: &File) -> Result<Package, PackFailure> {
        let folder = self.folder()?;
        let place = self.options.folder.place(&self.plugin.slug, request.version);
        let archive = Archive::check(archive).map_err(|error| match error {
            ArchiveError::Read(source) => unreadable(&place, &source),
            refused => Reason::Unpackable(refused.to_string()),
        })?;
        self.check(request, &folder, &archive, self.settings.mark)?;
        Ok(normalize(
            &archive,
            out,
            &folder,
            time(request.tagged),
            self.settings.mark,
        )?)
    }

    fn folder(&self) -> Result<FolderName, Reason> {
        let folder = self.settings.folder.as_str();
        folder
            .parse()
            .map_err(|error| Reason::Unpackable(format!("{folder}: {error}")))
    }

    /// Checks whether the archive can be the package of this release.
    fn check<R: ReadAt>(
        &self,
        request: &PackRequest,
        folder: &FolderName,
        archive: &Archive<R>,
        marked: bool,
    ) -> Result<(), PackFailure> {
        let expected = Expected {
            folder: Some(folder),
            kind: Some(self.plugin.kind),
            main_file: Some(request.main_file),
            version: self.expected_version(request),
            marked,
        };
        let checked = open(check::check(archive, &expected, plugin_header::main_header))?;
        match checked.problems.first() {
            None => Ok(()),
            Some(problem) => Err(Reason::Unpackable(problem.to_string()).into()),
        }
    }
}

/// The package's entry in the index.
fn hosted(new: NewPackage, tree: String, file: Option<Digest>) -> HostedPackage {
    HostedPackage {
        form: FORM,
        size: new.size,
        sha256: new.sha256,
        mark: new.mark,
        tree,
        file,
    }
}

/// The time of every file in the package.
fn time(tagged: &Tagged) -> DateTime<Utc> {
    DateTime::from_timestamp(tagged.time, 0).unwrap_or_default()
}

/// Whether an archive has names that are left out or refused now, so that the package that was made of it may have them.
fn has_refused_names(archive: &File) -> bool {
    match Archive::check(archive) {
        Ok(archive) => archive.files().any(ArchiveEntry::is_never_packed),
        Err(ArchiveError::Refused { reason, .. }) => {
            matches!(reason, ArchiveRefusal::Name(_) | ArchiveRefusal::Collision(_))
        }
        Err(ArchiveError::Read(_)) => false,
    }
}

/// The first obstacles by name, the number of the others, and what to do.
fn list_obstacles(obstacles: &[PackingObstacle]) -> String {
    let first = obstacles.iter().take(NAMED).map(ToString::to_string);
    let more = obstacles.len().checked_sub(NAMED).filter(|more| *more > 0);
    let listed: Vec<_> = first.chain(more.map(|more| format!("{more} more"))).collect();
    format!("{}; {WAY_OUT}", listed.join(", "))
}

fn open<T>(result: Result<T, ArchiveError>) -> Result<T, PackFailure> {
    result.map_err(|error| match error {
        ArchiveError::Read(source) => PackFailure::Output(source),
        refused => Reason::Unpackable(refused.to_string()).into(),
    })
}

fn unreadable(path: &Path, error: &std::io::Error) -> Reason {
    Reason::Unreadable {
        path: path.display().to_string(),
        detail: error.to_string(),
    }
}

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
    /// Files that were read before; packing takes them.
    pub read: RefCell<HashMap<ObjectId, Vec<u8>>>,
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
