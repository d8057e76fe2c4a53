//! `countersign bindings schema`: prints the statements that make the tables of a shared ledger.

use crate::commands::{Exit, Failure, output};

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Also give this role the rights of a node: it can append lines, and neither change nor delete one
    #[arg(long, value_name = "ROLE")]
    node: Option<String>,
    /// Print the SQL that makes tables of the format before into those of this version instead
    #[arg(long, conflicts_with = "node")]
    upgrade: bool,
}

/// Prints SQL.
pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    match args.upgrade {
        true => output::print(&countersign_ledger::shared_schema_upgrade()),
        false => output::print(&countersign_ledger::shared_schema(args.node.as_deref())),
    }
}
