//! `countersign bindings`: maintains the ledger of bindings and its index. `license release` changes which site may
//! use a license.
//!
//! Short verbs are here, the others have a file each; `messages` has what they share.

mod copy;
mod export;
mod import;
mod messages;
mod progress;
mod rebuild;
mod repair;
mod verify;

use chrono::Utc;
use serde::Serialize;

use crate::commands::bindings::messages::{counted_bindings, failure};
use crate::commands::installed::{self, NotKnown};
use crate::commands::output::{self, Table};
use crate::commands::{Exit, Failure};
use countersign_ledger::maintenance;
use countersign_model::installed::InstalledVersions;
use countersign_model::text::printable::Printable;
use countersign_settings::config::Config;

/// Verify, export and maintain the bindings of sites
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  countersign bindings verify                   check that no line of the ledger has changed
  countersign bindings export >bindings.jsonl   print one JSON object per binding
  countersign bindings installed                count which versions sites run
  countersign bindings rebuild                  rebuild the index from the ledger
  countersign bindings compact                  begin a new ledger without outdated lines
  countersign bindings schema | psql ADDRESS    make the tables for several nodes
  countersign bindings repair --dry-run         say what a database lost, and what of it still fits

To back up the bindings, copy store/ledger.jsonl, then store/texts.jsonl. A server may run \
meanwhile.
Exit codes: 0 done, 3 the ledger or the index is damaged, 4 the store is in use.")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand, Debug)]
enum Verb {
    /// Check every line of the ledger, and compare the index with it
    #[command(after_help = "Examples:
  countersign bindings verify
  countersign bindings verify --json

`verify` names the first line that was changed, removed or moved. To verify a copy of the ledger, \
name its folder with --store; it may be read-only. While a server runs, `verify` skips the index. \
A half-written last line, as a power loss leaves it, is reported but is no error: no site got an \
answer that depends on it.")]
    Verify(verify::Args),
    /// Rebuild the index from the ledger
    #[command(after_help = "Examples:
  countersign bindings rebuild
  countersign bindings rebuild --discard

Stop the server first. A server that starts rebuilds a missing or wrong index by itself. After you \
restore an old backup, the old index may have bindings that the ledger lacks. `rebuild` then lists \
them and changes nothing, unless you give --discard. It keeps the old index in store/index.damaged.

Exit codes: 0 done, 3 the ledger lacks bindings that the old index has.")]
    Rebuild(rebuild::Args),
    /// Print every binding, one JSON object per line
    #[command(after_help = "Example:
  countersign bindings export | jq -r .host | sort -u
  countersign bindings export --all >ledger-events.jsonl

Works while a server runs. With --all, licenses that programs issued, sales, tokens and what sites \
gave back are there, too. A token is there with the SHA-256 of its secret: keep the file like the \
ledger.")]
    Export(export::Args),
    /// Begin a ledger with what `export --all` printed
    #[command(after_help = "Examples:
  countersign bindings import ledger-events.jsonl
  ssh old-server countersign bindings export --all | countersign bindings import -

The store must have no ledger yet. The new ledger has a chain of its own, and the same licenses, \
bindings, tokens and moves. To keep the chain, and the orders of licenses, copy store/ledger.jsonl \
and store/texts.jsonl instead.

Exit codes: 0 done, 3 a line is no event, or there is a ledger.")]
    Import(import::Args),
    /// Count which versions of each plugin sites run
    #[command(after_help = "Examples:
  countersign bindings installed
  countersign bindings installed --json >installed.json

A site counts with the version that it reported last. `build --installed FILE` and `sign --installed \
FILE` read the JSON where no store is: they say how many sites a release would leave behind. \
Stop the server first, or count in a copy of the store.

Exit codes: 0 done, 3 there is no store, 4 the running server does not answer, or the index cannot \
be read.")]
    Installed(InstalledArgs),
    /// Begin a new ledger without outdated lines
    #[command(after_help = "Example:
  systemctl stop countersign && countersign bindings compact && systemctl start countersign

Stop the server first; compacting takes seconds. The new ledger continues the chain of the old one, \
which stays beside it.

In a database, stop every node, wait 30 seconds, and give the address with the role that owns the \
tables:
  countersign --store postgres://owner@db1/countersign bindings compact
The old lines stay in the table countersign.ledger_until_SEQUENCE.")]
    Compact(CompactArgs),
    /// Copy the ledger from the folder into a database, or back
    #[command(after_help = "Examples:
  countersign bindings copy --to postgres://node@db1/countersign
  countersign --store postgres://node@db1/countersign bindings copy --to store-of-one-server

A server may use the folder meanwhile. Stop it, run this again for the last lines, and then start \
the nodes. A copy that was cut short goes on where it ended. Every line keeps its bytes.

Exit codes: 0 done, 3 the database has another ledger.")]
    Copy(copy::Args),
    /// Append to a database what it lost and the nodes still know
    #[command(after_help = "Examples:
  countersign --store postgres://owner@db1/countersign bindings repair --dry-run
  countersign --store postgres://owner@db1/countersign bindings repair
  countersign --store postgres://owner@db1/countersign bindings repair memory-1-7-3f9a0c21d4e5.jsonl

When a database comes back without its last lines, every node writes what it knows to a file in its \
folder node/, serves the sites it knows, and binds no others. `repair` takes those files, of this \
folder and those that you name: it appends licenses and bindings that still fit, names the others, \
and lets the nodes serve again. Give it the files of all nodes at once: the first who comes gets a \
seat. Released bindings stay released. It needs the role that owns the tables, and the registry. \
The nodes may run meanwhile. The files of this folder are renamed to repaired-….jsonl.

Exit codes: 0 done, 3 no node kept a file here, or a file cannot be read.")]
    Repair(repair::Args),
    /// Print the SQL that makes the tables of a ledger in PostgreSQL
    #[command(after_help = "Examples:
  countersign bindings schema | psql postgres://owner@db1/countersign
  countersign bindings schema --node countersign_node | psql postgres://owner@db1/countersign
  countersign bindings schema --upgrade | psql postgres://owner@db1/countersign

Run it as the tables' owner, in a database of PostgreSQL 13 or newer. Existing tables stay as they \
are; --upgrade is for tables that an older version made: stop all nodes and back the database up first. Create the node's role first: CREATE ROLE countersign_node LOGIN.")]
    Schema(SchemaArgs),
}

impl Args {
    /// Whether the verb works without an instance.
    pub fn need_no_instance(&self) -> bool {
        matches!(self.verb, Verb::Schema(_))
    }
}

/// Runs the verb.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    match &args.verb {
        Verb::Verify(args) => verify::run(args, config),
        Verb::Rebuild(args) => rebuild::run(args, config),
        Verb::Installed(args) => count_installed(args, config),
        Verb::Export(args) => export::run(args, config),
        Verb::Import(args) => import::run(args, config),
        Verb::Compact(args) => compact(args, config),
        Verb::Copy(args) => copy::run(args, config),
        Verb::Repair(args) => repair::run(args, config),
        Verb::Schema(args) => print_schema(args),
    }
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
    /// A file, or a table.
    old_ledger: String,
}

/// Compacts, and prints where the old ledger is.
fn compact(args: &CompactArgs, config: &Config) -> Result<Exit, Failure> {
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

#[derive(clap::Args, Debug)]
struct SchemaArgs {
    /// Also give this role the rights of a node: it can append lines, and neither change nor delete one
    #[arg(long, value_name = "ROLE")]
    node: Option<String>,
    /// Print the SQL that makes tables of the format before into those of this version instead
    #[arg(long, conflicts_with = "node")]
    upgrade: bool,
}

/// Prints SQL.
fn print_schema(args: &SchemaArgs) -> Result<Exit, Failure> {
    match args.upgrade {
        true => output::print(&countersign_ledger::shared_schema_upgrade()),
        false => output::print(&countersign_ledger::shared_schema(args.node.as_deref())),
    }
}

#[derive(clap::Args, Debug)]
struct InstalledArgs {
    /// Print one JSON document, which `build --installed` takes
    #[arg(long)]
    json: bool,
}

/// Counts, and prints the counts.
fn count_installed(args: &InstalledArgs, config: &Config) -> Result<Exit, Failure> {
    let found = installed::from_store(config).map_err(count_failure)?;
    output::print(&if args.json {
        output::json(&found)?
    } else {
        installed_text(&found)
    })
}

fn installed_text(found: &InstalledVersions) -> String {
    if found.plugins.is_empty() {
        return "No site has reported a version yet.\n".to_owned();
    }
    let mut table = Table::new(["PLUGIN", "VERSION", "SITES"]);
    for plugin in &found.plugins {
        for version in &plugin.versions {
            table.row([&plugin.slug, &version.version, &version.sites]);
        }
    }
    table.to_string()
}

fn count_failure(error: NotKnown) -> Failure {
    match error {
        NotKnown::Store(error) => messages::failure(error),
        NotKnown::NoStore => Failure::input(error).hint("a server creates the store at its first start"),
        NotKnown::Reports(error) => error.into(),
    }
}
