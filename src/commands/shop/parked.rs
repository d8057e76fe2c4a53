//! `countersign shop parked`: deliveries that the server of this folder left to a person, or that wait.

use chrono::Utc;
use serde_json::json;

use crate::commands::kept_customers::CustomerArg;
use crate::commands::license::selector;
use crate::commands::parked::{self, About, ChosenArgs, ListArgs, ListedItem, ListedState, QueueWords};
use crate::commands::{Exit, Failure, server_questions};
use crate::serve::waiting_sales;
use countersign_files::queue::Queue;
use countersign_files::spool::{self, AwaitedThing, Delivery, SaidOfDelivery};
use countersign_model::foreign_key;
use countersign_model::remarks::{MAX_REASON, check_remark};
use countersign_settings::config::Config;

const DELIVERIES: QueueWords = QueueWords {
    one: "delivery",
    command: "shop",
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
  countersign shop parked retry 5f0c2b7e --address buyer@example.com --reason 'the shop does not answer'
  echo \"$KEY\" | countersign shop parked retry 5f0c2b7e --key

What the shop does not tell you may say, also of a delivery that still waits for it. The reason is in the license's history.
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
    /// The buyer's mail address, which the shop does not tell; '-' reads it from stdin
    #[arg(long, value_name = "ADDRESS|-", conflicts_with_all = ["all", "issue"])]
    address: Option<CustomerArg>,
    /// Read the license key from stdin that the shop made and did not send
    #[arg(long, conflicts_with_all = ["all", "issue", "address"])]
    key: bool,
    /// Why, for the license's history
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
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
            if let Some(said) = said(args)? {
                items.iter_mut().for_each(|item| say(item, &said, config));
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

/// What the arguments enter for a delivery; `None` if they enter nothing.
fn said(args: &RetryArgs) -> Result<Option<SaidOfDelivery>, Failure> {
    if args.address.is_none() && !args.key {
        return match args.reason {
            None => Ok(None),
            Some(_) => Err(Failure::usage("--reason is for what you say: --address or --key")),
        };
    }
    if !args.chosen.is_one() {
        return Err(Failure::usage("an address or a key is for one delivery"));
    }
    if let Some(reason) = &args.reason {
        check_remark(reason, MAX_REASON)
            .map_err(|error| Failure::usage(format!("the reason is not taken: {error}")))?;
    }
    Ok(Some(SaidOfDelivery {
        address: args.address.as_ref().map(CustomerArg::address).transpose()?,
        key: match args.key {
            true => Some(foreign_key::any_id(selector::key_of_stdin()?.trim()).map_err(Failure::usage)?),
            false => None,
        },
        who: server_questions::own_user().as_str().into(),
        reason: args.reason.as_deref().map(Box::from),
    }))
}

/// Has a retry of this delivery know what a person says.
fn say(item: &mut ListedItem<'_>, said: &SaidOfDelivery, config: &Config) {
    let Ok(name) = item.id.parse() else { return };
    let store = config.paths.store.clone();
    let said = said.clone();
    item.retry = Box::new(move || Ok(waiting_sales::say(&store, name, said.clone(), Utc::now())?));
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
    if delivery.waits_for == Some(AwaitedThing::RenewedLicense)
        && let Some(settings) = settings
        && let Some((name, _)) = waiting_sales::renewed(settings, body)
    {
        about.subscription = Some(settings.kind.ids.subscription_id(&name).to_owned());
    }
    about
}
