//! `countersign shop parked`: deliveries that the server of this folder left to a person.

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::commands::id_digits::{self, IdWords};
use crate::commands::output::{self, Table};
use crate::commands::{Exit, Failure};
use countersign_files::spool::{DeliveryName, Spool, SpoolError};
use countersign_model::slug::Slug;
use countersign_model::text::printable::Printable;
use countersign_settings::config::Config;

/// What is told where there is none.
const NONE: &str = "No delivery is parked.\n";

/// How messages name deliveries.
const DELIVERIES: IdWords = IdWords {
    thing: "a delivery",
    none: "no such delivery is parked",
    hint: "see `countersign shop parked list`",
};

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand, Debug)]
enum Verb {
    /// List parked deliveries, and why they are parked
    #[command(after_help = "\
Examples:
  countersign shop parked list
  countersign shop parked list --json")]
    List(ListArgs),
    /// Have parked deliveries applied again, after you mended the reason
    #[command(after_help = "\
Examples:
  countersign shop parked retry 5f0c2b7e
  countersign shop parked retry --all

A running server applies them within five seconds. What is applied twice changes nothing.")]
    Retry(ChosenArgs),
    /// Delete parked deliveries: nothing of them is done
    #[command(after_help = "\
Examples:
  countersign shop parked drop 5f0c2b7e")]
    Drop(ChosenArgs),
}

#[derive(clap::Args, Debug)]
struct ListArgs {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Debug)]
struct ChosenArgs {
    /// Which, by 8 or more of the first digits that the list shows
    #[arg(value_name = "DELIVERY", required_unless_present = "all", conflicts_with = "all")]
    deliveries: Vec<String>,
    /// All of them
    #[arg(long)]
    all: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct ParkedDelivery {
    delivery: String,
    /// Absent if the file is damaged.
    #[serde(skip_serializing_if = "Option::is_none")]
    shop: Option<Slug>,
    #[serde(skip_serializing_if = "Option::is_none")]
    received: Option<DateTime<Utc>>,
    /// The shop's word for the event, if it can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<String>,
    reason: String,
}

/// Runs the verb.
pub(super) fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let spool = Spool::existing(&config.paths.store);
    match &args.verb {
        Verb::List(args) => {
            let parked = spool
                .map_or_else(|| Ok(Vec::new()), |spool| list(&spool, config))
                .map_err(failure)?;
            output::print(&if args.json {
                output::json(&parked)?
            } else {
                text(&parked)
            })
        }
        Verb::Retry(args) => each(spool, args, Spool::retry, "waits again"),
        Verb::Drop(args) => each(spool, args, Spool::drop_parked, "deleted"),
    }
}

fn list(spool: &Spool, config: &Config) -> Result<Vec<ParkedDelivery>, SpoolError> {
    let read = |name: &DeliveryName| {
        let delivery = spool.read_parked(name).ok();
        let shop = delivery.as_ref().map(|delivery| delivery.shop.clone());
        let settings = config
            .shops
            .iter()
            .find(|settings| Some(&settings.name) == shop.as_ref());
        let parsed = settings.zip(delivery.as_ref());
        let parsed =
            parsed.and_then(|(settings, delivery)| countersign_shops::read(settings.kind, &delivery.body).ok());
        ParkedDelivery {
            delivery: name.to_string(),
            shop,
            received: delivery.map(|delivery| delivery.received),
            event: parsed.map(|parsed| parsed.event),
            reason: spool.reason(name),
        }
    };
    Ok(spool.parked()?.iter().map(|waiting| read(&waiting.name)).collect())
}

fn text(parked: &[ParkedDelivery]) -> String {
    if parked.is_empty() {
        return NONE.to_owned();
    }
    let mut table = Table::new(["DELIVERY", "SHOP", "RECEIVED", "EVENT", "REASON"]);
    for delivery in parked {
        let received = delivery.received.map(|time| time.format("%Y-%m-%d %H:%M").to_string());
        table.row([
            &delivery.delivery,
            &delivery.shop.as_ref().map_or("-", Slug::as_str),
            &received.as_deref().unwrap_or("-"),
            &Printable(delivery.event.as_deref().unwrap_or("-")),
            &Printable(&delivery.reason),
        ]);
    }
    table.to_string()
}

/// Does `work` with each chosen delivery.
fn each(
    spool: Option<Spool>,
    args: &ChosenArgs,
    work: impl Fn(&Spool, &DeliveryName) -> Result<(), SpoolError>,
    done: &str,
) -> Result<Exit, Failure> {
    let parked = match &spool {
        Some(spool) => spool.parked().map_err(failure)?,
        None => Vec::new(),
    };
    let parked: Vec<DeliveryName> = parked.into_iter().map(|waiting| waiting.name).collect();
    let chosen = match args.all {
        true => parked,
        false => id_digits::named(&args.deliveries, &parked, &DELIVERIES)?,
    };
    let mut names = Vec::new();
    for name in chosen {
        let worked = spool.as_ref().map(|spool| work(spool, &name));
        match worked {
            Some(Ok(())) => names.push(name.to_string()),
            // The server deletes the oldest one where too many are parked, and another command may have taken it.
            Some(Err(SpoolError::Io { source, .. })) if source.kind() == std::io::ErrorKind::NotFound => {
                return Err(Failure::input(format!("{name}: {}", DELIVERIES.none)).hint(DELIVERIES.hint));
            }
            Some(Err(error)) => return Err(failure(error)),
            None => {}
        }
    }
    output::print_change(&if args.json {
        output::json(&serde_json::json!({ "deliveries": names }))?
    } else if names.is_empty() {
        NONE.to_owned()
    } else {
        names.iter().map(|name| format!("{name}: {done}\n")).collect()
    })
}

fn failure(error: SpoolError) -> Failure {
    Failure::environment(error)
}
