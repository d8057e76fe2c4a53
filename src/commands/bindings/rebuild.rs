//! `countersign bindings rebuild`: rebuilds the index from the ledger.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;

use crate::commands::bindings::messages::{counted_bindings, failure, require_folder};
use crate::commands::{Exit, Failure, output};
use countersign_ledger::maintenance;
use countersign_model::license_key::LicenseId;
use countersign_model::site_host::SiteHost;
use countersign_settings::config::Config;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Drop the bindings that the old index has and the ledger lacks
    #[arg(long)]
    discard: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct RebuildOutput<'a> {
    bindings: u64,
    rebuilt: bool,
    /// Whether the old index could be read, so that `lacking` is complete.
    compared: bool,
    lacking: Vec<Lacking<'a>>,
}

#[derive(Serialize)]
struct Lacking<'a> {
    license: &'a LicenseId,
    host: &'a SiteHost,
    bound_at: DateTime<Utc>,
}

/// The table shows this many bindings; `--json` shows all.
const SHOWN: usize = 50;

/// Rebuilds, or shows what would be lost.
pub(super) fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    require_folder(&config.paths, "there is nothing to rebuild: a database has no index")?;
    let found = maintenance::rebuild(&config.paths.store, args.discard).map_err(failure)?;
    let print = if found.done {
        output::print_change
    } else {
        output::print
    };
    let lacking = || {
        found
            .lacking
            .iter()
            .map(|(license, binding)| (license, &binding.host, binding.bound_at))
    };
    if args.json {
        let lacking = lacking()
            .map(|(license, host, bound_at)| Lacking {
                license,
                host,
                bound_at,
            })
            .collect();
        let maintenance::RebuildOutcome {
            bindings,
            compared,
            done,
            ..
        } = found;
        print(&output::json(&RebuildOutput {
            bindings,
            rebuilt: done,
            compared,
            lacking,
        })?)?;
    } else {
        let mut text = String::new();
        for (license, host, bound_at) in lacking().take(SHOWN) {
            let time = bound_at.to_rfc3339_opts(SecondsFormat::Secs, true);
            text += &format!("{}  {time}  {host}\n", license.log_tag());
        }
        if found.lacking.len() > SHOWN {
            text += &format!("and {} more: --json shows all\n", found.lacking.len() - SHOWN);
        }
        if found.done {
            text += &format!("The index was rebuilt: {}.\n", counted_bindings(found.bindings));
        }
        if found.done && !found.lacking.is_empty() {
            text += "The bindings above were dropped.\n";
        }
        if !found.compared {
            text += "The old index could not be read, so it was not compared with the ledger.\n";
        }
        print(&text)?;
    }
    if found.done {
        return Ok(Exit::Done);
    }
    let lost = counted_bindings(found.lacking.len() as u64);
    let hint = "restore a newer ledger.jsonl from the backup; to drop them: countersign bindings rebuild --discard";
    Err(Failure::input(format!(
        "the ledger lacks {lost} that the old index has; nothing was changed"
    ))
    .hint(hint))
}
