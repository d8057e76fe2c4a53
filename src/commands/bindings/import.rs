//! `countersign bindings import`: begins a ledger with the events that `export --all` printed.

use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::commands::bindings::messages::failure;
use crate::commands::store::NEWER;
use crate::commands::{Exit, Failure, output};
use countersign_files::regular_file;
use countersign_ledger::StoreError;
use countersign_ledger::event_lines::{self, EventImportError};
use countersign_settings::config::Config;

/// The largest file: a hundred million events.
const MAX_FILE: u64 = 64 << 30;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The file; '-' reads stdin
    #[arg(value_name = "FILE|-")]
    file: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct ImportOutput {
    lines: u64,
    sequence: u64,
    last_digest: String,
}

/// Imports, and prints how much.
pub(super) fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    if config.paths.database.is_some() {
        return Err(Failure::input("the store is a database").hint(
            "import into a folder, with --store DIR; then `countersign bindings copy` brings it into the database",
        ));
    }
    let store = &config.paths.store;
    let imported = if args.file == Path::new("-") {
        event_lines::import(store, &mut io::stdin().lock())
    } else {
        let file = regular_file::open(&args.file, MAX_FILE)
            .map_err(|error| Failure::input(format!("{}: {error}", args.file.display())))?;
        event_lines::import(store, &mut BufReader::new(file))
    };
    let imported = imported.map_err(|error| match error {
        EventImportError::Store(StoreError::Read { path, source }) if source.kind() == io::ErrorKind::AlreadyExists => {
            Failure::input(format!("{}: there is a ledger already", path.display()))
                .hint("import into an empty store, with --store DIR")
        }
        EventImportError::Store(error) => failure(error),
        error @ EventImportError::Newer { .. } => Failure::input(error).hint(NEWER),
        error => Failure::input(error).hint("give a whole file of `countersign bindings export --all`"),
    })?;
    let shown = ImportOutput {
        lines: imported.lines,
        sequence: imported.sequence,
        last_digest: imported.digest.to_string(),
    };
    output::print_change(&match args.json {
        true => output::json(&shown)?,
        false => format!("{} events imported\nlast digest  {}\n", shown.lines, shown.last_digest),
    })
}
