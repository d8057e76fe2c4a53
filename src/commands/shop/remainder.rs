//! `countersign shop remainder`: what was sold that no license follows.

use std::cmp::Reverse;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::commands::output::{self, Table};
use crate::commands::shop::sales::{day, short};
use crate::commands::store;
use crate::commands::{Exit, Failure};
use crate::serve::waiting_sales;
use countersign_ledger::KnownSale;
use countersign_model::issued_license::Hex128;
use countersign_model::offer::ShopId;
use countersign_model::sale::grants::Remainder;
use countersign_settings::config::Config;

#[derive(clap::Subcommand, Debug)]
pub(super) enum Verb {
    /// List prices without an offer, lines of too many licenses, and refunds of a part
    #[command(after_help = "\
Examples:
  countersign shop remainder list
  countersign shop remainder list --json

Each price of a sale is listed once. A fee that grants nothing by its offer is not listed.")]
    List(Args),
}

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// What is left of a sale.
#[derive(Serialize)]
struct ListedRemainder {
    #[serde(skip_serializing_if = "Option::is_none")]
    shop: Option<String>,
    sale: Hex128,
    kind: &'static str,
    /// The price, or the prices of a payment.
    prices: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<DateTime<Utc>>,
}

/// Prints what no license follows, the newest first.
pub(super) fn run(verb: &Verb, config: &Config) -> Result<Exit, Failure> {
    let Verb::List(args) = verb;
    let sales = store::sales(config)?.all();
    let mut listed: Vec<_> = sales.iter().flat_map(of_sale).collect();
    listed.sort_by_key(|left| Reverse(left.since));
    output::print(&match args.json {
        true => output::json(&listed)?,
        false => text(&listed),
    })
}

fn of_sale(sale: &KnownSale) -> Vec<ListedRemainder> {
    let listed = |remainder: &Remainder<Hex128>| {
        let of_price = |price: &ShopId| vec![price.to_string()];
        let (kind, prices) = match remainder {
            Remainder::NoOffer(price) => ("no_offer", of_price(price)),
            Remainder::TooMany(price) => ("too_many", of_price(price)),
            Remainder::PartialRefund(payment) => {
                let prices = sale.facts.prices_of(payment);
                ("partial_refund", prices.into_iter().map(ToString::to_string).collect())
            }
        };
        ListedRemainder {
            shop: waiting_sales::shop_of(sale),
            sale: sale.id,
            kind,
            prices,
            since: sale.facts.remains_since(remainder),
        }
    };
    sale.facts.grants().remainder.iter().map(listed).collect()
}

fn text(listed: &[ListedRemainder]) -> String {
    if listed.is_empty() {
        return "Every sale has its licenses: nothing is left.\n".to_owned();
    }
    let mut table = Table::new(["SHOP", "SALE", "WHAT", "PRICE", "SINCE"]);
    for remainder in listed {
        let what = match remainder.kind {
            "no_offer" => "no offer",
            "too_many" => "too many licenses",
            _ => "partly refunded",
        };
        table.row([
            &remainder.shop.as_deref().unwrap_or("-"),
            &short(remainder.sale),
            &what,
            &remainder.prices.join(" "),
            &day(remainder.since),
        ]);
    }
    table.to_string()
}
