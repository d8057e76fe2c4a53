//! `countersign shop`: what shops sell, what their deliveries would do, and those that wait for a person.

pub(in crate::commands) mod attach;
mod check;
mod checked_delivery;
pub(in crate::commands) mod offers;
pub(in crate::commands) mod parked;
mod regrant;
mod remainder;
mod sales;

use crate::commands::{Exit, Failure};
use countersign_settings::config::Config;

/// Show what your shops' products grant, and decide parked deliveries
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  countersign shop offers
  countersign shop check stripe delivery.json
  countersign shop sales list
  countersign shop remainder list
  countersign shop parked list")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand, Debug)]
enum Verb {
    /// List what each product and price grants, or every mistake in the offers
    #[command(after_help = "\
Examples:
  countersign shop offers
  countersign shop offers --json

Offers are files: registry/offers/<name>.toml.
Exit codes: 0 all offers can be used, 3 there are mistakes.")]
    Offers(offers::Args),
    /// Show what saved deliveries of a shop say and would grant; nothing is changed
    #[command(after_help = "\
Examples:
  countersign shop check stripe delivery.json
  countersign shop check stripe first.json renewal.json refund.json
  countersign shop check my-shop order.json --kind woocommerce --json
  countersign shop check paddle body.json --header 'Paddle-Signature: ts=1700000000;h1=5f...'

A file is the body of a request, byte for byte. Several are taken as deliveries about one customer, in any order.
Mail addresses in them are not printed.
Exit codes: 0 it was read, 3 it is no delivery of this shop, or its signature is not accepted.")]
    Check(Box<check::Args>),
    /// Say which license a subscription renews
    #[command(after_help = "\
Examples:
  countersign shop attach sub_1MowQVLkdIwHu7ix 4f1c9a02
  countersign shop attach 1207 4f1c9a02 --shop my-shop --reason 'imported without its subscription'

A license that was imported or issued by hand has no subscription: its renewals are parked.
Each payment of the subscription adds to what the license grants now.
Parked renewals of the subscription are tried again.
This cannot be undone: a subscription renews the same license for as long as it is paid.
Exit codes: 0 done, 3 there is no such license, or the subscription renews another one.")]
    Attach(attach::Args),
    /// List, retry or drop deliveries that a person has to decide
    #[command(
        subcommand,
        after_help = "\
Examples:
  countersign shop parked list
  countersign shop parked retry 5f0c2b7e
  countersign shop parked retry 5f0c2b7e --issue
  countersign shop parked drop --all

A running server applies them within five seconds. What is applied twice changes nothing."
    )]
    Parked(parked::Verb),
    /// Give what was sold under an offer the terms that the offer has today
    #[command(after_help = "\
Examples:
  countersign shop regrant forms-plus --dry-run
  countersign shop regrant forms-plus

Editing an offer changes nothing that was sold before. This does, for all sales of the offer and of its prices.
What people changed of a license stays while the shop says what it said then.
Nothing is issued: if more licenses are granted than were, the sale's next delivery issues them.
Exit codes: 0 done, 3 there is no such offer, or some licenses cannot be changed.")]
    Regrant(regrant::Args),
    /// List what was sold that no license follows
    #[command(
        subcommand,
        after_help = "\
Examples:
  countersign shop remainder list
  countersign shop remainder list --json

Once an offer is added for a price, a running server grants what was sold before."
    )]
    Remainder(remainder::Verb),
    /// List the latest sales with their licenses, or those that wait for something
    #[command(
        subcommand,
        after_help = "\
Examples:
  countersign shop sales list
  countersign shop sales list --limit 200 --json
  countersign shop sales list --waiting"
    )]
    Sales(sales::Verb),
}

/// Runs the verb.
pub fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    match &args.verb {
        Verb::Offers(args) => offers::run(args, config),
        Verb::Check(args) => check::run(args, config),
        Verb::Attach(args) => attach::run(args, config),
        Verb::Parked(verb) => parked::run(verb, config),
        Verb::Regrant(args) => regrant::run(args, config),
        Verb::Remainder(verb) => remainder::run(verb, config),
        Verb::Sales(verb) => sales::run(verb, config),
    }
}
