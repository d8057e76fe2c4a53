//! `countersign bindings copy`: copies the ledger from the folder into a database, or back.

use std::path::Path;

use serde::Serialize;

use crate::commands::bindings::messages::failure;
use crate::commands::bindings::progress::CopyProgress;
use crate::commands::{Exit, Failure, output};
use countersign_ledger::{LedgerState, StoreError, copying};
use countersign_model::text::stderr;
use countersign_settings::config::Config;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The address of a database, or a folder that has no ledger yet
    #[arg(long, value_name = "DIR|URL")]
    to: String,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct CopyOutput {
    /// Lines that were copied now.
    lines: u64,
    sequence: u64,
    last_digest: String,
    /// Orders of licenses that were copied, erased ones included.
    texts: usize,
    /// Whether a server may have added lines since.
    again: bool,
}

/// Copies, and prints how much.
pub(super) fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let is_database = ["postgres://", "postgresql://"]
        .iter()
        .any(|scheme| args.to.starts_with(scheme));
    let mut progress = CopyProgress::start();
    let mut note = |done, all| progress.note(done, all);
    let copied = match (&config.paths.database, is_database) {
        (None, true) => copying::to_database(&config.paths.store, &args.to, &mut note),
        (Some(address), false) => copying::to_folder(address, Path::new(&args.to), &mut note),
        (None, false) => {
            return Err(Failure::input("both are folders").hint("copy the files ledger.jsonl and texts.jsonl"));
        }
        (Some(_), true) => return Err(Failure::input("both are databases").hint("use pg_dump and psql")),
    };
    drop(progress);
    let copied = copied.map_err(|error| match error {
        StoreError::Shared {
            state: LedgerState::LinesLost,
            ..
        } => Failure::of_store(error).hint("copy into an empty database, or one that has the beginning of this ledger"),
        error => failure(error),
    })?;
    let shown = CopyOutput {
        lines: copied.lines,
        sequence: copied.sequence,
        last_digest: copied.digest.to_string(),
        texts: copied.texts,
        again: copied.in_use,
    };
    if shown.again {
        stderr::line("note: a server uses the folder: stop it, and run this again for the lines that came since");
    }
    output::print_change(&if args.json {
        output::json(&shown)?
    } else {
        format!(
            "{} lines copied, up to sequence {}\nlast digest  {}\norders       {}\n",
            shown.lines, shown.sequence, shown.last_digest, shown.texts
        )
    })?;
    Ok(Exit::Done)
}
