//! `countersign package check`: whether an archive can be the package of a release, and if not, all reasons.

use std::path::PathBuf;

use clap_complete::engine::ArgValueCompleter;
use serde::Serialize;

use crate::build::counted;
use crate::build::source::plugin_header;
use crate::commands::package::refused::failure;
use crate::commands::{Exit, Failure, candidates, output};
use countersign_model::slug::Slug;
use countersign_model::text::printable::Printable;
use countersign_model::version::Version;
use countersign_package::archive::Archive;
use countersign_package::check::{Expected, check};
use countersign_package::entry_name::FolderName;
use countersign_package::mark::search;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The zip archive
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The plugin; the top-level folder must have its name
    #[arg(long, value_name = "SLUG", add = ArgValueCompleter::new(candidates::slugs))]
    plugin: Option<Slug>,
    /// The release; the main file's Version must be exactly the same
    #[arg(long = "version", value_name = "V")]
    release: Option<Version>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Checks the archive, and prints the result.
pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let failed = |error| failure(&args.file, error);
    // A slug is a plain name.
    let folder = args
        .plugin
        .as_ref()
        .and_then(|plugin| plugin.as_str().parse::<FolderName>().ok());
    let version = args.release.as_ref().map(ToString::to_string);
    let expected = Expected {
        folder: folder.as_ref(),
        kind: None,
        main_file: None,
        version: version.as_deref(),
        marked: true,
    };
    let archive = Archive::open(&args.file).map_err(failed)?;
    let checked = check(&archive, &expected, plugin_header::main_header).map_err(failed)?;
    let files = archive.files().count();
    let is_ours = !checked.problems.is_empty() && !search::in_archive(&archive).map_err(failed)?.is_empty();
    let document = Document {
        file: args.file.display().to_string(),
        folder: checked.folder.as_ref().map(ToString::to_string),
        main_file: checked.main_file.clone(),
        version: checked.version.clone(),
        files,
        size: archive.size(),
        unpacked: archive.unpacked(),
        problems: checked.problems.iter().map(ToString::to_string).collect(),
        warnings: checked.warnings.iter().map(ToString::to_string).collect(),
    };
    output::print(&if args.json {
        output::json(&document)?
    } else {
        text(&document, is_ours)
    })?;
    Ok(if checked.problems.is_empty() {
        Exit::Done
    } else {
        Exit::Input
    })
}

#[derive(Debug, Serialize)]
struct Document {
    file: String,
    folder: Option<String>,
    main_file: Option<String>,
    version: Option<String>,
    files: usize,
    size: u64,
    unpacked: u64,
    problems: Vec<String>,
    warnings: Vec<String>,
}

/// For people. `is_ours`: the archive has a file that only countersign writes.
fn text(document: &Document, is_ours: bool) -> String {
    let Document {
        file,
        folder,
        main_file,
        version,
        files,
        size,
        unpacked,
        problems,
        warnings,
    } = document;
    let shown = |value: &Option<String>| value.clone().unwrap_or_default();
    let main = main_file
        .as_ref()
        .map(|file| format!("{file}, Version {}", shown(version)));
    let lines = [
        ("folder", shown(folder)),
        ("main file", shown(&main)),
        (
            "files",
            format!(
                "{}, {unpacked} bytes unpacked, {size} bytes packed",
                counted(*files, "file")
            ),
        ),
    ];
    let filled = lines.iter().filter(|(_, value)| !value.is_empty());
    let lines: String = filled
        .map(|(name, value)| format!("{name:<11}{}\n", Printable(value)))
        .collect();
    let verdict = if problems.is_empty() { "can be" } else { "cannot be" };
    let note = if is_ours {
        "note: countersign wrote its build id, so this package was published or downloaded; check what you built instead\n"
    } else {
        ""
    };
    let problems: String = problems.iter().map(|problem| format!("problem: {problem}\n")).collect();
    let warnings: String = warnings.iter().map(|warning| format!("warning: {warning}\n")).collect();
    format!(
        "{lines}\n{problems}{warnings}{note}{} {verdict} the package of a release.\n",
        Printable(file)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_of_ours_is_said_to_be_one() {
        let document = |problems: &[&str]| Document {
            file: "1.2.0.zip".to_owned(),
            folder: None,
            main_file: None,
            version: None,
            files: 2,
            size: 10,
            unpacked: 10,
            problems: problems.iter().map(ToString::to_string).collect(),
            warnings: Vec::new(),
        };
        let ours = text(&document(&["acme/build-id.php: a build id"]), true);
        assert!(
            ours.contains("problem: acme/build-id.php: a build id\nnote: countersign wrote its build id"),
            "{ours}"
        );
        assert!(
            ours.ends_with("1.2.0.zip cannot be the package of a release.\n"),
            "{ours}"
        );
        assert!(!text(&document(&[]), false).contains("note:"));
    }
}
