//! `countersign package add`: takes the archive that somebody's own build made for a release, checks it, and puts it into
//! `packages/` in the normal form. The next `build` publishes it.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _, Seek as _};
use std::path::{Path, PathBuf};

use clap_complete::engine::ArgValueCompleter;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::build::package_folder::{PackageFolder, TIME};
use crate::build::source::plugin_header;
use crate::commands::package::refused::failure;
use crate::commands::{Exit, Failure, candidates, output};
use countersign_files::durable_file::{self, Access, PendingFile};
use countersign_files::regular_file;
use countersign_model::digest::Digest;
use countersign_model::plugin::{PackageOrigin, PackageSettings, Plugin};
use countersign_model::slug::Slug;
use countersign_model::stage::Stage;
use countersign_model::text::printable::Printable;
use countersign_model::version::Version;
use countersign_package::MAX_PACKED;
use countersign_package::archive::{Archive, ArchiveError};
use countersign_package::check::{Checked, Expected, check};
use countersign_package::entry_name::FolderName;
use countersign_package::file_digest::digest_of;
use countersign_package::normalize::normalize;
use countersign_package::read_at::ReadAt;
use countersign_registry::{RegistryFiles, plugins};
use countersign_settings::config::Paths;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The plugin
    #[arg(value_name = "SLUG", add = ArgValueCompleter::new(candidates::slugs))]
    slug: Slug,
    /// The release
    #[arg(value_name = "VERSION")]
    release: Version,
    /// The zip archive, or - for stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Take the place of another archive of this release
    #[arg(long)]
    replace: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Why an archive was not added.
#[derive(Debug, thiserror::Error)]
enum AddError {
    #[error("there is no plugin {0} in the registry")]
    Unknown(Slug),
    #[error("{}: the entry has mistakes:\n{}", .file.display(), .mistakes.join("\n"))]
    Entry { file: PathBuf, mistakes: Vec<String> },
    #[error("the packages of {0} are not hosted here: its entry has a download_url")]
    Elsewhere(Slug),
    #[error("the packages of {0} are made of its tags: its entry does not say from = \"file\"")]
    OfTags(Slug),
    #[error("{}: cannot be the package of {slug} {version}: {}", .file.display(), .problems.join("; "))]
    Problems {
        file: PathBuf,
        slug: Slug,
        version: Version,
        problems: Vec<String>,
    },
    #[error("{}: another archive is there for this release", .0.display())]
    Other(PathBuf),
    #[error("{}: cannot be written", .path.display())]
    Write {
        path: PathBuf,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Checks the archive, and puts it in its place.
pub(super) fn run(args: &Args, paths: &Paths) -> Result<Exit, Failure> {
    let plugin = plugin(&args.slug, &paths.registry)?;
    let settings = settings(&plugin)?;
    let refused = |error| failure(&args.file, error);
    let file = open(&args.file).map_err(|error| refused(ArchiveError::Read(error)))?;
    let bar = progress(&file);
    let archive = Archive::check(CountedFiles { file, bar: &bar }).map_err(refused)?;
    let folder = folder(settings)?;
    let checked = checked(args, &plugin, settings, &folder, &archive)?;

    let place = PackageFolder::new(&paths.packages).place(&args.slug, &args.release);
    let cannot = |source: Box<dyn std::error::Error + Send + Sync>| {
        let path = place.clone();
        Failure::environment(AddError::Write { path, source })
    };
    if let Some(folder) = place.parent() {
        durable_file::create_folders(folder, Access::LikeFolder).map_err(|error| cannot(error.into()))?;
    }
    let new = PendingFile::begin(&place, Access::LikeFolder).map_err(|error| cannot(error.into()))?;
    let packed = normalize(&archive, new.file(), &folder, TIME, false).map_err(|error| cannot(error.into()))?;
    new.file().rewind().map_err(|error| cannot(error.into()))?;
    let digest = digest_of(new.file(), |_| ()).map_err(|error| cannot(error.into()))?;
    bar.finish_and_clear();
    let change = put(new, &place, digest, args.replace).map_err(|error| match error {
        PutError::Other => Failure::input(AddError::Other(place.clone()))
            .hint("raise the version; or, if this release was never published, add --replace"),
        PutError::Write(error) => cannot(error.into()),
    })?;
    let document = Document {
        plugin: args.slug.to_string(),
        version: args.release.to_string(),
        file: place.display().to_string(),
        size: packed.size,
        sha256: digest.to_string(),
        change,
        warnings: checked.warnings.iter().map(ToString::to_string).collect(),
    };
    output::print_change(&if args.json {
        output::json(&document)?
    } else {
        text(&document)
    })
}

/// The plugin's entry.
fn plugin(slug: &Slug, registry: &Path) -> Result<Plugin, Failure> {
    let entries = plugins::load(&RegistryFiles::folder(registry))?;
    let entry = entries.into_iter().find(|entry| entry.slug.as_ref() == Some(slug));
    let unknown =
        || Failure::input(AddError::Unknown(slug.clone())).hint("name a file of registry/plugins/ without .toml");
    let entry = entry.ok_or_else(unknown)?;
    entry.plugin.map_err(|mistakes| {
        let mistakes = mistakes.iter().map(ToString::to_string).collect();
        let file = entry.file;
        Failure::input(AddError::Entry { file, mistakes })
    })
}

/// How the plugin's packages come to be, where archives are handed over.
fn settings(plugin: &Plugin) -> Result<&PackageSettings, Failure> {
    let slug = || plugin.slug.clone();
    let settings = plugin.package.as_ref();
    let settings = settings.ok_or_else(|| Failure::input(AddError::Elsewhere(slug())).hint("remove download_url"))?;
    match settings.from {
        PackageOrigin::File => Ok(settings),
        PackageOrigin::Tag => {
            Err(Failure::input(AddError::OfTags(slug())).hint("set from = \"file\" in the entry's [package]"))
        }
    }
}

/// The folder on top; a name of the registry is one.
fn folder(settings: &PackageSettings) -> Result<FolderName, Failure> {
    settings.folder.as_str().parse().map_err(Failure::input)
}

/// The archive; stdin is written to a file without a name first.
fn open(path: &Path) -> io::Result<File> {
    if path != Path::new("-") {
        return regular_file::open(path, MAX_PACKED);
    }
    let mut file = regular_file::create_nameless()?;
    // One byte more than is taken: then it is refused for its size.
    io::copy(&mut io::stdin().lock().take(MAX_PACKED + 1), &mut file)?;
    file.rewind()?;
    Ok(file)
}

/// What there is to say of the archive, where it can be the package.
fn checked<R: ReadAt>(
    args: &Args,
    plugin: &Plugin,
    settings: &PackageSettings,
    folder: &FolderName,
    archive: &Archive<R>,
) -> Result<Checked, Failure> {
    let main_file = plugin.source.as_ref().and_then(|source| source.main_file.as_deref());
    let expected = Expected {
        folder: Some(folder),
        kind: Some(plugin.kind),
        main_file,
        version: Some(args.release.as_str()).filter(|_| !plugin.allow_version_mismatch),
        marked: settings.mark,
    };
    let checked = check(archive, &expected, plugin_header::main_header).map_err(|error| failure(&args.file, error))?;
    let misread = match args.release.stage() {
        Stage::Misread(misread) => Some(misread.to_string()),
        _ => None,
    };
    if checked.problems.is_empty() && misread.is_none() {
        return Ok(checked);
    }
    let problems = misread
        .into_iter()
        .chain(checked.problems.iter().map(ToString::to_string));
    Err(Failure::input(AddError::Problems {
        file: args.file.clone(),
        slug: args.slug.clone(),
        version: args.release.clone(),
        problems: problems.collect(),
    }))
}

/// What adding an archive did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum AddOutcome {
    Added,
    Replaced,
    AlreadyThere,
}

enum PutError {
    Other,
    Write(io::Error),
}

impl From<io::Error> for PutError {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

/// Puts the archive in its place. The same bytes are there already, or another archive only goes where it may be replaced.
fn put(new: PendingFile, place: &Path, digest: Digest, may_replace: bool) -> Result<AddOutcome, PutError> {
    match new.put_new() {
        Ok(()) => Ok(AddOutcome::Added),
        Err((new, error)) if error.kind() == io::ErrorKind::AlreadyExists => {
            let there = regular_file::open(place, MAX_PACKED).and_then(|file| digest_of(file, |_| ()));
            if there.is_ok_and(|there| there == digest) {
                return Ok(AddOutcome::AlreadyThere);
            }
            if !may_replace {
                return Err(PutError::Other);
            }
            new.put()?;
            Ok(AddOutcome::Replaced)
        }
        Err((_, error)) => Err(error.into()),
    }
}

/// A bar on a terminal, for an archive that takes long: it is read twice.
fn progress(file: &File) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {bytes}/{total_bytes}  {elapsed}");
    let size = file.size().unwrap_or_default();
    ProgressBar::new(2 * size).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// A file that tells how much of it was read.
struct CountedFiles<'a> {
    file: File,
    bar: &'a ProgressBar,
}

impl ReadAt for CountedFiles<'_> {
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.bar.inc(buffer.len() as u64);
        self.file.read_exact_at(buffer, offset)
    }
}

#[derive(Debug, Serialize)]
struct Document {
    plugin: String,
    version: String,
    file: String,
    size: u64,
    sha256: String,
    change: AddOutcome,
    warnings: Vec<String>,
}

fn text(document: &Document) -> String {
    let done = match document.change {
        AddOutcome::Added => "added",
        AddOutcome::Replaced => "replaced what was there",
        AddOutcome::AlreadyThere => "was there already",
    };
    let warnings = document.warnings.iter().map(|warning| format!("warning: {warning}\n"));
    let Document {
        plugin,
        version,
        size,
        file,
        ..
    } = document;
    let next = "`countersign build` publishes it once its tag is there";
    let line = format!(
        "{plugin} {version}: {done}, {size} bytes, {}\n{next}\n",
        Printable(file)
    );
    warnings.chain([line]).collect()
}
