//! `countersign shop parked`: deliveries that the server of this folder left to a person.

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::commands::output::{self, Table};
use crate::commands::{Exit, Failure};
use crate::config::Config;
use crate::model::slug::Slug;
use crate::shop;
use crate::spool::{DeliveryName, Spool, SpoolError};
use crate::text::printable::Printable;

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
  countersign shop parked retry 5f0c2b7e9a61d34480c1e2f3a4b5c6d7
  countersign shop parked retry --all

A running server applies them within five seconds. What is applied twice changes nothing.")]
    Retry(ChosenArgs),
    /// Delete parked deliveries: nothing of them is done
    #[command(after_help = "\
Examples:
  countersign shop parked drop 5f0c2b7e9a61d34480c1e2f3a4b5c6d7")]
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
    /// Which, as the list names them
    #[arg(value_name = "DELIVERY", required_unless_present = "all", conflicts_with = "all")]
    deliveries: Vec<DeliveryName>,
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
        let parsed = parsed.and_then(|(settings, delivery)| shop::read(settings.kind, &delivery.body).ok());
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
        return "No delivery is parked.\n".to_owned();
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
    let chosen = match (&spool, args.all) {
        (Some(spool), true) => {
            let parked = spool.parked().map_err(failure)?;
            parked.into_iter().map(|waiting| waiting.name).collect()
        }
        _ => args.deliveries.clone(),
    };
    let mut names = Vec::new();
    for name in &chosen {
        let spool = spool.as_ref().ok_or_else(|| unknown(name))?;
        work(spool, name).map_err(|error| match error {
            SpoolError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => unknown(name),
            error => failure(error),
        })?;
        names.push(name.to_string());
    }
    output::print(&if args.json {
        output::json(&serde_json::json!({ "deliveries": names }))?
    } else {
        names.iter().map(|name| format!("{name}: {done}\n")).collect()
    })
}

fn unknown(name: &DeliveryName) -> Failure {
    Failure::input(format!("{name}: no such delivery is parked")).hint("see `countersign shop parked list`")
}

fn failure(error: SpoolError) -> Failure {
    Failure::environment(error)
}
