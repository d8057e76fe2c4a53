//! `countersign shop parked`: deliveries that the server of this folder left to a person, or that wait.

use chrono::Utc;
use serde_json::json;

use crate::commands::parked::{self, About, ChosenArgs, ListArgs, ListedItem, ListedState, QueueWords};
use crate::commands::{Exit, Failure};
use countersign_files::queue::Queue;
use countersign_files::spool::{self, AwaitedThing, Delivery};
use countersign_model::sale::fact::Fact;
use countersign_settings::config::Config;

const DELIVERIES: QueueWords = QueueWords {
    one: "delivery",
    room: "shop",
    whose: "SHOP",
};

#[derive(clap::Subcommand, Debug)]
pub(super) enum Verb {
    /// List what is parked, and why
    #[command(after_help = "\
Examples:
  countersign shop parked list
  countersign shop parked list --all --json

A renewal of a subscription that no license here has is listed with it.
`countersign shop attach` says which license it renews.")]
    List(ListArgs),
    /// Have it tried again at once, after you mended the reason
    #[command(after_help = "\
Examples:
  countersign shop parked retry 5f0c2b7e
  countersign shop parked retry --all
  countersign shop parked retry 5f0c2b7e --issue

A running server notices within five seconds.")]
    Retry(RetryArgs),
    /// Delete it: nothing of it is done
    #[command(after_help = "\
Examples:
  countersign shop parked drop 5f0c2b7e
  countersign shop parked drop --all")]
    Drop(ChosenArgs),
}

#[derive(clap::Args, Debug)]
pub(super) struct RetryArgs {
    #[command(flatten)]
    chosen: ChosenArgs,
    /// Issue a license for a renewal of a subscription that no license here has
    #[arg(long, conflicts_with = "all")]
    issue: bool,
}

/// Runs the verb. The delivery that came first is at the top.
pub(super) fn run(verb: &Verb, config: &Config) -> Result<Exit, Failure> {
    let mut items = match queue(config) {
        Some(queue) => parked::listed(
            queue,
            |id| id.to_string(),
            |delivery, body| about(&delivery, body, config),
        )?,
        None => Vec::new(),
    };
    items.sort_by_key(|item| item.queued);
    for item in &mut items {
        // One that waits is tried every few seconds, and nobody counts.
        (item.attempts, item.next) = (None, None);
    }
    match verb {
        Verb::List(args) => parked::list(args, &DELIVERIES, items),
        Verb::Retry(args) => {
            if args.issue {
                items.iter_mut().for_each(|item| issue(item, config));
            }
            parked::retry(&args.chosen, &DELIVERIES, &items)
        }
        Verb::Drop(args) => parked::discard(args, &DELIVERIES, &items),
    }
}

fn queue(config: &Config) -> Option<Queue<Delivery>> {
    Queue::existing(spool::folder(&config.paths.store))
}

/// Has a retry of this delivery say that it is a sale.
fn issue(item: &mut ListedItem<'_>, config: &Config) {
    let Some(queue) = queue(config).filter(|_| item.state == ListedState::Parked) else {
        return;
    };
    let Ok(name) = item.id.parse() else { return };
    item.retry = Box::new(move || Ok(queue.retry_changed(name, Utc::now(), |delivery| delivery.is_sale = true)?));
}

/// Has parked renewals tried again whose subscription nobody knew. Those of others are parked again.
pub(in crate::commands) fn retry_renewals(config: &Config) -> Result<(), Failure> {
    let Some(queue) = queue(config) else { return Ok(()) };
    for (name, _) in queue.list()? {
        // `shop parked list` tells of one that cannot be read.
        let Ok(Some(queued)) = queue.read(name) else { continue };
        if queued.item.waits_for == Some(AwaitedThing::FirstPayment) {
            queue.retry_changed(name, Utc::now(), |_| {})?;
        }
    }
    Ok(())
}

fn about(delivery: &Delivery, body: &[u8], config: &Config) -> About {
    let shop = &delivery.shop;
    let settings = config.shops.iter().find(|settings| settings.name == *shop);
    let parsed = settings.and_then(|settings| countersign_shops::read(settings.kind, body).ok());
    let mut about = About {
        whose: Some(shop.to_string()),
        // The shop's word for it, if it can be read.
        event: parsed.as_ref().map(|parsed| parsed.event.clone()),
        subscription: None,
        members: [("shop".to_owned(), json!(shop))].into_iter().collect(),
    };
    if delivery.waits_for == Some(AwaitedThing::FirstPayment)
        && let Some(record) = parsed.as_ref().and_then(|parsed| parsed.content.record())
        && let Some(name) = record.facts.iter().find_map(renewed)
        && let Some(settings) = settings
    {
        about.subscription = Some(settings.kind.ids.subscription_id(name).to_owned());
    }
    about
}

/// The subscription that a fact is about.
fn renewed(fact: &Fact<String>) -> Option<&String> {
    match fact {
        Fact::Payment(payment) => payment.subscription.as_ref().or(payment.renews.first()),
        Fact::Subscription(subscription) => Some(&subscription.id),
        _ => None,
    }
}
