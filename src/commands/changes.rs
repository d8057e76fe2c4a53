//! `countersign changes`: what was changed last, whichever license it is about.

use std::num::NonZero;

use chrono::NaiveDate;
use serde::Serialize;

use crate::commands::license::history::Event;
use crate::commands::store::{KeptTexts, store_failure, store_source};
use crate::commands::{Exit, Failure, output};
use countersign_ledger::{ChangesBy, ChangesWanted, HistoryEntry};
use countersign_settings::config::Config;

/// Show the last changes of all licenses: what, by whom, and why
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  countersign changes
  countersign changes --anyone --limit 200
  countersign changes --day 2026-11-28
  countersign changes --before 10482 --json

Changes are those of people and programs: at the desk, by a command, with a token, or on the \
customer's page. With --anyone they are also those of shops, sites and the server. The history of \
one license is that of `countersign license history`.

One look goes back 16 MiB in the ledger. The last line says how to go on.")]
pub struct Args {
    /// Show also what shops, sites and the server changed
    #[arg(long)]
    anyone: bool,
    /// Show those of this day, in UTC
    #[arg(long, value_name = "YYYY-MM-DD")]
    day: Option<NaiveDate>,
    /// Show so many at most
    #[arg(long, value_name = "N", default_value = "50")]
    limit: NonZero<usize>,
    /// Show changes before this line of the ledger
    #[arg(long, value_name = "LINE")]
    before: Option<u64>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Changes<'a> {
    /// The newest first.
    changes: Vec<Event<'a>>,
    /// What `--before` is for earlier ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    older: Option<u64>,
}

/// Prints the table, or the JSON document.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let wanted = ChangesWanted {
        by: if args.anyone {
            ChangesBy::Anyone
        } else {
            ChangesBy::People
        },
        before: args.before,
        day: args.day,
        most: args.limit.get(),
    };
    let found = countersign_ledger::latest_changes(store_source(&config.paths), wanted).map_err(store_failure)?;
    let names = found.changes.iter().map(|change| change.event.texts());
    let texts = KeptTexts::of(names.flat_map(|texts| [texts.who, texts.reason]).flatten(), config);
    let events = found.changes.iter().map(|change| {
        let entry = HistoryEntry::after(&change.event, change.before.as_deref());
        Event::of(entry, &texts)
    });
    let changes = Changes {
        changes: events.collect(),
        older: found.older,
    };
    output::print(&match args.json {
        true => output::json(&changes)?,
        false => changes.table(),
    })
}

impl Changes<'_> {
    fn table(&self) -> String {
        let table = match self.changes.is_empty() {
            true => "No change was found.\n".to_owned(),
            false => Event::table(&self.changes).to_string(),
        };
        match self.older {
            None => table,
            Some(line) => format!("{table}earlier ones: --before {line}\n"),
        }
    }
}
