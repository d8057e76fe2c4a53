//! `countersign package show`: the files of an archive with their sizes, or the differences from another one.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::build::counted;
use crate::commands::output::{self, Table};
use crate::commands::package::refused::failure;
use crate::commands::{Exit, Failure};
use countersign_files::regular_file;
use countersign_model::digest::Digest;
use countersign_model::text::printable::Printable;
use countersign_package::MAX_PACKED;
use countersign_package::archive::{Archive, ArchiveError};
use countersign_package::difference::{PackageDifference, SizedFile, difference};
use countersign_package::file_digest::digest_of;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The zip archive
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// An older archive: list only the differences from it
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Prints the archive's files, or the differences.
pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let (archive, digest) = open(&args.file)?;
    let changes = match &args.against {
        None => None,
        Some(path) => {
            let (older, older_digest) = open(path)?;
            Some((path, older_digest, difference(&older, &archive)))
        }
    };
    let files = archive.files().map(|file| ListedFile {
        name: file.name.as_str(),
        size: file.size,
        packed: file.packed,
    });
    let document = Document {
        file: args.file.display().to_string(),
        sha256: digest.to_string(),
        size: archive.size(),
        unpacked: archive.unpacked(),
        files: files.collect(),
        changes: changes
            .as_ref()
            .map(|(path, digest, difference)| PackageChanges::new(path, *digest, difference)),
    };
    output::print(&if args.json {
        output::json(&document)?
    } else {
        text(&document)
    })
}

/// The archive and the digest of the same open file.
fn open(path: &Path) -> Result<(Archive<std::fs::File>, Digest), Failure> {
    let failed = |error| failure(path, error);
    let file = regular_file::open(path, MAX_PACKED).map_err(|error| failed(ArchiveError::Read(error)))?;
    let digest = digest_of(&file, |_| ()).map_err(|error| failed(ArchiveError::Read(error)))?;
    Ok((Archive::check(file).map_err(failed)?, digest))
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    file: String,
    sha256: String,
    size: u64,
    unpacked: u64,
    files: Vec<ListedFile<'a>>,
    changes: Option<PackageChanges<'a>>,
}

#[derive(Debug, Serialize)]
struct ListedFile<'a> {
    name: &'a str,
    size: u64,
    packed: u64,
}

#[derive(Debug, Serialize)]
struct PackageChanges<'a> {
    against: String,
    sha256: String,
    added: Vec<OneSize<'a>>,
    removed: Vec<OneSize<'a>>,
    changed: Vec<TwoSizes<'a>>,
}

#[derive(Debug, Serialize)]
struct OneSize<'a> {
    name: &'a str,
    size: u64,
}

#[derive(Debug, Serialize)]
struct TwoSizes<'a> {
    name: &'a str,
    before: u64,
    after: u64,
}

impl<'a> PackageChanges<'a> {
    fn new(path: &Path, digest: Digest, difference: &'a PackageDifference) -> Self {
        let sized = |files: &'a [SizedFile]| {
            files
                .iter()
                .map(|file| OneSize {
                    name: &file.name,
                    size: file.size,
                })
                .collect()
        };
        let changed = difference.changed.iter();
        Self {
            against: path.display().to_string(),
            sha256: digest.to_string(),
            added: sized(&difference.added),
            removed: sized(&difference.removed),
            changed: changed
                .map(|file| TwoSizes {
                    name: &file.name,
                    before: file.before,
                    after: file.after,
                })
                .collect(),
        }
    }
}

fn text(document: &Document) -> String {
    let Document {
        file,
        sha256,
        size,
        unpacked,
        files,
        changes,
    } = document;
    let mut text = match changes {
        None => {
            let mut table = Table::new(["SIZE", "PACKED", "FILE"]);
            files
                .iter()
                .for_each(|file| table.row([&file.size, &file.packed, &file.name]));
            table.to_string()
        }
        Some(changes) => changed(changes),
    };
    let count = counted(files.len(), "file");
    text += &format!(
        "\n{}: {count}, {unpacked} bytes unpacked, {size} bytes packed\nsha256 {sha256}\n",
        Printable(file)
    );
    text
}

fn changed(changes: &PackageChanges) -> String {
    let PackageChanges {
        against,
        sha256,
        added,
        removed,
        changed,
    } = changes;
    if added.is_empty() && removed.is_empty() && changed.is_empty() {
        return format!("No file changed since {} (sha256 {sha256}).\n", Printable(against));
    }
    let mut table = Table::new(["CHANGE", "BEFORE", "AFTER", "FILE"]);
    added
        .iter()
        .for_each(|file| table.row([&"added", &"", &file.size, &file.name]));
    removed
        .iter()
        .for_each(|file| table.row([&"removed", &file.size, &"", &file.name]));
    changed
        .iter()
        .for_each(|file| table.row([&"changed", &file.before, &file.after, &file.name]));
    table.to_string()
}
