//! `countersign bindings`: looks after the ledger of bindings and its index. Which site may use a license is not decided
//! here: see `license release`.

use std::io::{self, BufWriter, Write};

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;

use crate::build::counted;
use crate::commands::{Exit, Failure, output};
use crate::config::Config;
use crate::model::binding::Binding;
use crate::model::license_key::LicenseId;
use crate::model::site_host::SiteHost;
use crate::registry::Registry;
use crate::store::maintenance;
use crate::store::reader::IndexState;
use crate::store::{self, StoreError};
use crate::text::error_chain::ErrorChain;
use crate::text::printable::Printable;
use crate::text::stderr;

/// What to do about a damaged ledger.
pub const DAMAGED: &str = "restore ledger.jsonl from a backup; where it is the one you want although the index knows \
    of more, `countersign bindings rebuild` shows what would be lost";

/// Verify, export and maintain what the store knows of sites
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  countersign bindings verify                   is every line of the ledger as it was written?
  countersign bindings export >bindings.jsonl   one JSON object a binding; also while a server runs
  countersign bindings rebuild                  make the index anew from the ledger
  countersign bindings compact                  begin a new ledger without what is superseded

The ledger, store/ledger.jsonl, may be copied at any time: a copy is a backup.
Exit codes: 0 done, 3 the ledger or the index has a fault, 4 a server holds the store.")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand, Debug)]
enum Verb {
    /// Prove the ledger's chain and compare the index with it
    #[command(after_help = "Examples:
  countersign bindings verify
  countersign bindings verify --json

Names the first line that is not as it was written. A copy of the ledger alone is proved like the original, also one
that is read-only: name its folder with --store. Works while a server runs; the index is then in its hands. A torn end,
as a loss of power leaves it, is told and no fault: nobody was answered on it.")]
    Verify(VerifyArgs),
    /// Make the index anew from the ledger
    #[command(after_help = "Examples:
  countersign bindings rebuild
  countersign bindings rebuild --discard

No server may run. A server does the same at its start where the index is missing or wrong. After the restore of an old
backup, the index may know of bindings that the ledger lacks: they are shown, and nothing is changed without --discard.
The old index stays in store/index.damaged.

Exit codes: 0 done, 3 the ledger lacks bindings that the index knows.")]
    Rebuild(RebuildArgs),
    /// Print every binding, one JSON object a line
    #[command(after_help = "Example:
  countersign bindings export | jq -r .host | sort -u")]
    Export,
    /// Begin a new ledger without what is superseded
    #[command(after_help = "Example:
  systemctl stop countersign && countersign bindings compact && systemctl start countersign

No server may run: it is a matter of seconds. The old ledger stays beside the new one, which continues its chain.")]
    Compact(CompactArgs),
}

#[derive(clap::Args, Debug)]
struct VerifyArgs {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Debug)]
struct RebuildArgs {
    /// Drop the bindings that the old index knows and the ledger lacks
    #[arg(long)]
    discard: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Debug)]
struct CompactArgs {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct CompactionOutput {
    /// Bindings in the new ledger.
    bindings: u64,
    old_ledger: String,
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

#[derive(Serialize)]
struct VerificationOutput {
    lines: u64,
    sequence: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    torn_end: Option<&'static str>,
    last_digest: String,
    bindings: u64,
    licenses: usize,
    index: &'static str,
}

#[derive(Serialize)]
struct Exported {
    bound_at: DateTime<Utc>,
    host: SiteHost,
    license: LicenseId,
    /// Whether the vendor made it void; absent where the license files cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    released: Option<bool>,
}

/// Does what was asked for.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    match &args.verb {
        Verb::Verify(args) => verify(args, config),
        Verb::Rebuild(args) => rebuild(args, config),
        Verb::Export => export(config),
        Verb::Compact(args) => compact(args, config),
    }
}

fn compact(args: &CompactArgs, config: &Config) -> Result<Exit, Failure> {
    let done = maintenance::compact(&config.paths.store, Utc::now()).map_err(failure)?;
    let compacted = CompactionOutput {
        bindings: done.kept,
        old_ledger: output::path_text(&done.aside),
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

/// The table shows so many bindings; `--json` shows all.
const SHOWN: usize = 50;

fn rebuild(args: &RebuildArgs, config: &Config) -> Result<Exit, Failure> {
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
            .map(|(license, Binding { host, bound_at })| (license, host, *bound_at))
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
            text += &format!("The index was made anew: {}.\n", counted_bindings(found.bindings));
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
        "the ledger lacks {lost} that the index knows; nothing was changed"
    ))
    .hint(hint))
}

fn counted_bindings(count: u64) -> String {
    counted(usize::try_from(count).unwrap_or(usize::MAX), "binding")
}

fn verify(args: &VerifyArgs, config: &Config) -> Result<Exit, Failure> {
    let found = store::read_only(&config.paths.store)
        .and_then(|store| store.verify())
        .map_err(failure)?;
    let verified = VerificationOutput {
        lines: found.lines,
        sequence: found.sequence,
        torn_end: found.torn.then_some(match found.index {
            IndexState::Held => "what stands behind it is not acknowledged; the server finishes or cuts it",
            IndexState::Missing | IndexState::NotCompared => {
                "the last line is cut off, as in a copy made while a server wrote it; the next start cuts it"
            }
            _ => "what stands behind it was never acknowledged; the next start cuts it",
        }),
        last_digest: found.digest.to_string(),
        bindings: found.bindings,
        licenses: found.licenses,
        index: match found.index {
            IndexState::Agrees => "agrees",
            IndexState::Held => "in use by a server",
            IndexState::Behind(_) => "behind; the next start brings it up to the ledger",
            IndexState::Missing => "none; the next start makes it from the ledger",
            IndexState::NotCompared => "not compared: this user may not write here, and opening it writes",
            IndexState::Differs => "wrong; the next start makes it anew",
        },
    };
    output::print(&if args.json {
        output::json(&verified)?
    } else {
        text(&verified)
    })?;
    Ok(if found.index == IndexState::Differs {
        Exit::Input
    } else {
        Exit::Done
    })
}

fn text(verified: &VerificationOutput) -> String {
    let VerificationOutput {
        lines,
        sequence,
        torn_end,
        last_digest,
        bindings,
        licenses,
        index,
    } = verified;
    let torn_end = torn_end.map_or(String::new(), |torn_end| format!("torn end     {torn_end}\n"));
    format!(
        "chain        whole, up to line {lines} of the file (sequence {sequence})\n{torn_end}last digest  {last_digest}\n\
         bindings     {bindings}, of {}\nindex        {index}\n",
        counted(*licenses, "license")
    )
}

fn export(config: &Config) -> Result<Exit, Failure> {
    let store = store::read_only(&config.paths.store).map_err(failure)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut written = Ok(());
    let mut room = Vec::new();
    let registry = Registry::load_licenses(&config.paths.registry);
    if let Err(error) = &registry {
        stderr::line(format_args!(
            "warning: which bindings are released is not told: {}",
            ErrorChain(error).first_line()
        ));
    }
    let exported = store.export(|license, binding| {
        if written.is_ok() {
            let voids = |registry: &Registry| {
                registry
                    .license(&license)
                    .is_some_and(|license| license.details.released.voids(&binding))
            };
            let released = registry.as_ref().ok().map(voids);
            let Binding { host, bound_at } = binding;
            let line = output::json_line(
                &Exported {
                    bound_at,
                    host,
                    license,
                    released,
                },
                &mut room,
            );
            written = line.and_then(|line| writeln!(out, "{line}"));
        }
    });
    exported.map_err(failure)?;
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::environment(error)),
        _ => Ok(Exit::Done),
    }
}

fn failure(error: StoreError) -> Failure {
    match error {
        StoreError::Damaged { .. } => Failure::of_store(error).hint(DAMAGED),
        StoreError::Missing(_) => Failure::of_store(error).hint("a server makes it at its first start"),
        StoreError::NotOurs { owner, .. } => {
            let hint = format!("run this as the user of the server: sudo -u '#{owner}' countersign bindings ...");
            Failure::environment(error).hint(hint)
        }
        StoreError::InUse(_) => Failure::environment(error).hint("stop the server first"),
        _ => Failure::of_store(error),
    }
}
