//! `countersign bindings compact`: begins a new ledger without outdated lines.

use chrono::Utc;
use serde::Serialize;

use crate::commands::bindings::messages::{counted_bindings, failure};
use crate::commands::{Exit, Failure, output};
use countersign_ledger::maintenance;
use countersign_model::text::printable::Printable;
use countersign_settings::config::Config;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct CompactionOutput {
    /// Bindings in the new ledger.
    bindings: u64,
    /// A file, or a table.
    old_ledger: String,
}

/// Compacts, and prints where the old ledger is.
pub(super) fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let compacted = match &config.paths.database {
        None => {
            let done = maintenance::compact(&config.paths.store, Utc::now()).map_err(failure)?;
            CompactionOutput {
                bindings: done.kept,
                old_ledger: output::path_text(&done.aside),
            }
        }
        Some(address) => {
            let done = countersign_ledger::compact_shared(address).map_err(failure)?;
            CompactionOutput {
                bindings: done.kept,
                old_ledger: done.aside,
            }
        }
    };
    output::print_change(&if args.json {
        output::json(&compacted)?
    } else {
        let CompactionOutput { bindings, old_ledger } = &compacted;
        format!(
            "{} kept; the old ledger is {}\n",
            counted_bindings(*bindings),
            Printable(old_ledger)
        )
    })
}
