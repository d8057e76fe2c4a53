//! `countersign webhook parked`: messages that an endpoint refused for three days.

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::commands::id_digits::{self, IdWords};
use crate::commands::output::Table;
use crate::commands::{Exit, Failure, output};
use crate::webhook::event::EventId;
use crate::webhook::kept_event::{KeptEvent, KeptState};
use crate::webhook::outbox::{KeptName, Outbox};
use countersign_model::license_key::LicenseId;
use countersign_model::slug::Slug;
use countersign_model::text::printable::Printable;
use countersign_settings::config::Config;

/// What is told where there is none.
const NONE: &str = "No message waits or is parked.\n";

/// How messages to people name messages to endpoints.
const MESSAGES: IdWords = IdWords {
    thing: "a message",
    none: "there is no such message",
    hint: "see `countersign webhook parked list`",
};

#[derive(clap::Subcommand, Debug)]
pub(super) enum Verb {
    /// List them, with what waits
    #[command(after_help = "\
Examples:
  countersign webhook parked list
  countersign webhook parked list --json")]
    List(ListArgs),
    /// Send them again, each nine times more
    #[command(after_help = "\
Examples:
  countersign webhook parked retry 5f0c2b7e
  countersign webhook parked retry --all

The running server notices.")]
    Retry(ChosenArgs),
    /// Delete them without sending them
    #[command(after_help = "\
Example:
  countersign webhook parked drop 5f0c2b7e")]
    Drop(ChosenArgs),
}

#[derive(clap::Args, Debug)]
pub(super) struct ListArgs {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Debug)]
pub(super) struct ChosenArgs {
    /// The messages, by 8 or more of the first digits that `list` shows
    #[arg(value_name = "MESSAGE", required_unless_present = "all", conflicts_with = "all")]
    messages: Vec<String>,
    /// All that are parked; `retry` takes those that wait, too
    #[arg(long)]
    all: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct ListedMessage {
    message: EventId,
    webhook: Slug,
    event: String,
    license: LicenseId,
    kept: DateTime<Utc>,
    state: KeptState,
    attempts: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

pub(super) fn run(verb: &Verb, config: &Config) -> Result<Exit, Failure> {
    match verb {
        Verb::List(args) => list(args, config),
        Verb::Retry(args) => each(args, config, true, "waits again", |outbox, name, kept| {
            Ok(outbox.replace(name, &kept.retried(Utc::now()))?)
        }),
        Verb::Drop(args) => each(args, config, false, "deleted", |outbox, name, _| {
            outbox.remove(name)?;
            Ok(())
        }),
    }
}

/// Every kept message of every endpoint.
fn kept(config: &Config) -> Result<Vec<(Slug, Outbox, KeptName, KeptEvent)>, Failure> {
    let mut all = Vec::new();
    for endpoint in &config.webhooks {
        let Some(outbox) = Outbox::existing(&config.paths.store, &endpoint.name) else {
            continue;
        };
        for (name, _) in outbox.list()? {
            let kept = outbox.read(name)?;
            all.extend(kept.map(|kept| (endpoint.name.clone(), outbox.clone(), name, kept)));
        }
    }
    Ok(all)
}

fn list(args: &ListArgs, config: &Config) -> Result<Exit, Failure> {
    let listed = kept(config)?.into_iter().map(|(webhook, _, _, kept)| ListedMessage {
        message: kept.id,
        webhook,
        event: kept.kind,
        license: kept.license,
        kept: kept.kept,
        state: kept.state,
        attempts: kept.attempts,
        reason: kept.reason,
    });
    let listed: Vec<_> = listed.collect();
    output::print(&if args.json {
        output::json(&listed)?
    } else {
        text(&listed)
    })
}

fn text(listed: &[ListedMessage]) -> String {
    if listed.is_empty() {
        return NONE.to_owned();
    }
    let mut table = Table::new(["MESSAGE", "WEBHOOK", "EVENT", "LICENSE", "STATE", "ATTEMPTS", "REASON"]);
    for message in listed {
        let state = match message.state {
            KeptState::Waiting => "waiting",
            KeptState::Parked => "parked",
        };
        table.row([
            &message.message,
            &message.webhook,
            &Printable(&message.event),
            &message.license.log_tag(),
            &state,
            &message.attempts,
            &Printable(message.reason.as_deref().unwrap_or("-")),
        ]);
    }
    table.to_string()
}

/// Does `work` with each chosen message. With `--all`, `waiting_too` takes those that wait, too.
fn each(
    args: &ChosenArgs,
    config: &Config,
    waiting_too: bool,
    done: &str,
    work: impl Fn(&Outbox, KeptName, KeptEvent) -> Result<(), Failure>,
) -> Result<Exit, Failure> {
    let mut worked = Vec::new();
    let all = kept(config)?;
    let ids: Vec<EventId> = all.iter().map(|(.., kept)| kept.id).collect();
    let chosen = match args.all {
        true => ids,
        false => id_digits::named(&args.messages, &ids, &MESSAGES)?,
    };
    for (_, outbox, name, kept) in all {
        let is_left_out = args.all && !waiting_too && kept.state == KeptState::Waiting;
        if chosen.contains(&kept.id) && !is_left_out {
            let id = kept.id.to_string();
            work(&outbox, name, kept)?;
            worked.push(id);
        }
    }
    output::print_change(&if args.json {
        output::json(&serde_json::json!({ "messages": worked }))?
    } else if !worked.is_empty() {
        worked.iter().map(|id| format!("{id}: {done}\n")).collect()
    } else if waiting_too {
        NONE.to_owned()
    } else {
        "No message is parked.\n".to_owned()
    })
}
