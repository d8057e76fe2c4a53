//! `countersign bindings verify`: checks the ledger's chain and compares the index with it.

use serde::Serialize;

use crate::build::counted;
use crate::commands::bindings::messages::failure;
use crate::commands::store::store_source;
use crate::commands::{Exit, Failure, output};
use countersign_ledger::reader::IndexState;
use countersign_settings::config::Config;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
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
    /// Licenses that machines issued.
    issued: usize,
    /// Orders of which a text is kept, or that it was erased.
    texts: usize,
    index: &'static str,
    #[serde(skip)]
    in_database: bool,
}

/// Verifies, and prints the result.
pub(super) fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let found = countersign_ledger::read_only(store_source(&config.paths))
        .and_then(|store| store.verify())
        .map_err(failure)?;
    let verified = VerificationOutput {
        lines: found.lines,
        sequence: found.sequence,
        torn_end: found.torn.then_some(match found.index {
            IndexState::Held => "the rest is not acknowledged; the server completes or removes it",
            IndexState::Missing | IndexState::NotCompared => {
                "the last line is incomplete, as in a copy made while a server was writing; the next start removes it"
            }
            _ => "the rest was never acknowledged; the next start removes it",
        }),
        last_digest: found.digest.to_string(),
        bindings: found.bindings,
        licenses: found.licenses,
        issued: found.issued,
        texts: found.texts,
        in_database: found.index == IndexState::Database,
        index: match found.index {
            IndexState::Agrees => "agrees",
            IndexState::Held => "in use by a server",
            IndexState::Behind(_) => "behind; the next start updates it",
            IndexState::Missing => "none; the next start rebuilds it",
            IndexState::NotCompared => "not compared: opening it needs write permission",
            IndexState::Database => "none: a database needs none",
            IndexState::Differs => "wrong; the next start rebuilds it",
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
        issued,
        texts,
        index,
        in_database,
    } = verified;
    let place = if *in_database { "table" } else { "file" };
    let torn_end = torn_end.map_or(String::new(), |torn_end| format!("torn end     {torn_end}\n"));
    let issued = match *issued {
        0 => String::new(),
        issued => format!("issued       {}\n", counted(issued, "license")),
    };
    let texts = match *texts {
        0 => String::new(),
        texts => format!("orders       {texts}\n"),
    };
    format!(
        "chain        whole, up to line {lines} of the {place} (sequence {sequence})\n{torn_end}last digest  {last_digest}\n\
         bindings     {bindings}, of {}\n{issued}{texts}index        {index}\n",
        counted(*licenses, "license")
    )
}
