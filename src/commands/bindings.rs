//! `countersign bindings`: looks after the ledger of bindings and its index. Which site may use a license is not decided
//! here: see `license release`. One file a verb; `messages` has what they say alike.

mod compact;
mod export;
mod messages;
mod rebuild;
mod verify;

use crate::commands::{Exit, Failure};
use crate::config::Config;
pub use messages::DAMAGED;

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
    Verify(verify::Args),
    /// Make the index anew from the ledger
    #[command(after_help = "Examples:
  countersign bindings rebuild
  countersign bindings rebuild --discard

No server may run. A server does the same at its start where the index is missing or wrong. After the restore of an old
backup, the index may know of bindings that the ledger lacks: they are shown, and nothing is changed without --discard.
The old index stays in store/index.damaged.

Exit codes: 0 done, 3 the ledger lacks bindings that the index knows.")]
    Rebuild(rebuild::Args),
    /// Print every binding, one JSON object a line
    #[command(after_help = "Example:
  countersign bindings export | jq -r .host | sort -u")]
    Export,
    /// Begin a new ledger without what is superseded
    #[command(after_help = "Example:
  systemctl stop countersign && countersign bindings compact && systemctl start countersign

No server may run: it is a matter of seconds. The old ledger stays beside the new one, which continues its chain.")]
    Compact(compact::Args),
}

/// Does what was asked for.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    match &args.verb {
        Verb::Verify(args) => verify::run(args, config),
        Verb::Rebuild(args) => rebuild::run(args, config),
        Verb::Export => export::run(config),
        Verb::Compact(args) => compact::run(args, config),
    }
}
