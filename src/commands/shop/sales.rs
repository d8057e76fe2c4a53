//! `countersign shop sales`: sales of the ledger with their licenses, and what waits: in the ledger, or in this node's spool.

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use serde::Serialize;

use crate::commands::output::{self, Table};
use crate::commands::store::{self, KeptTexts};
use crate::commands::{Exit, Failure};
use crate::serve::waiting_sales::{self, ListedWait};
use countersign_ledger::StoredSales;
use countersign_model::issued_license::{Hex128, IssuedLicense};
use countersign_model::license::License;
use countersign_model::license_key::LicenseId;
use countersign_model::stored_text::StoredText;
use countersign_model::text::printable::Printable;
use countersign_model::text::stderr;
use countersign_settings::config::Config;

#[derive(clap::Subcommand, Debug)]
pub(super) enum Verb {
    /// List sales, the latest first
    #[command(after_help = "\
Examples:
  countersign shop sales list
  countersign shop sales list --limit 200 --json
  countersign shop sales list --waiting

A sale waits for an address, an answer of the shop, a key, a first payment, an offer or the license that it renews.
Deliveries wait on the node that took them: ask there.")]
    List(Args),
}

/// The first digits of a sale's id that a table shows.
const SHOWN_DIGITS: usize = 8;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Only what waits, the oldest first, and what it waits for
    #[arg(long)]
    waiting: bool,
    /// How many to list at most
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// A sale with its licenses.
#[derive(Serialize)]
struct ListedSale<'a> {
    sale: Hex128,
    #[serde(skip_serializing_if = "Option::is_none")]
    shop: Option<String>,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<DateTime<Utc>>,
    /// The shop's order, if its text is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<&'a str>,
    licenses: Vec<ListedLicense>,
}

#[derive(Serialize)]
struct ListedLicense {
    id: LicenseId,
    standing: &'static str,
    expires: NaiveDate,
}

/// Prints sales, or what waits.
pub(super) fn run(verb: &Verb, config: &Config) -> Result<Exit, Failure> {
    let Verb::List(args) = verb;
    let stored = store::sales(config)?;
    match args.waiting {
        true => print_waiting(args, &stored, config),
        false => print_latest(args, &stored, config),
    }
}

/// Leaves so many, and tells of the others.
fn shorten<T>(listed: &mut Vec<T>, args: &Args) {
    let limit = args.limit as usize;
    if listed.len() > limit {
        let more = listed.len() - limit;
        stderr::line(format_args!(
            "note: {more} more are not listed: --limit {}",
            listed.len()
        ));
        listed.truncate(limit);
    }
}

fn print_latest(args: &Args, stored: &StoredSales, config: &Config) -> Result<Exit, Failure> {
    let mut sales: Vec<_> = stored
        .all()
        .into_iter()
        .map(|sale| (sale.facts.began(), sale))
        .collect();
    sales.sort_by_key(|(began, _)| std::cmp::Reverse(*began));
    shorten(&mut sales, args);
    let mut licenses: BTreeMap<Hex128, Vec<&IssuedLicense>> =
        sales.iter().map(|(_, sale)| (sale.id, Vec::new())).collect();
    for (sale, issued) in stored.licenses() {
        licenses.entry(sale).and_modify(|of_sale| of_sale.push(issued));
    }
    let texts = KeptTexts::of_orders(licenses.values().flatten().copied(), config);
    let today = Utc::now().date_naive();
    let listed: Vec<_> = sales
        .iter()
        .map(|(began, sale)| {
            let licenses = licenses.remove(&sale.id).unwrap_or_default();
            let mut orders = licenses.iter().filter_map(|issued| texts.order(issued));
            ListedSale {
                sale: sale.id,
                shop: waiting_sales::shop_of(sale),
                since: *began,
                order: orders.find_map(StoredText::text),
                licenses: licenses
                    .iter()
                    .map(|issued| listed_license(&issued.license, today))
                    .collect(),
            }
        })
        .collect();
    output::print(&match args.json {
        true => output::json(&listed)?,
        false => latest_text(&listed),
    })
}

fn listed_license(license: &License, today: NaiveDate) -> ListedLicense {
    ListedLicense {
        id: license.id,
        standing: license.state(today).word(),
        expires: license.expires,
    }
}

fn latest_text(listed: &[ListedSale<'_>]) -> String {
    if listed.is_empty() {
        return "No shop has reported a sale yet.\n".to_owned();
    }
    let mut table = Table::new(["SALE", "SHOP", "SINCE", "ORDER", "LICENSES"]);
    for sale in listed {
        let licenses = sale.licenses.iter().map(|license| {
            let ListedLicense { id, standing, expires } = license;
            format!("{} {standing} {expires}", id.log_tag())
        });
        let licenses: Vec<_> = licenses.collect();
        table.row([
            &short(sale.sale),
            &sale.shop.as_deref().unwrap_or("-"),
            &day(sale.since),
            &Printable(sale.order.unwrap_or("-")),
            &if licenses.is_empty() {
                "-".to_owned()
            } else {
                licenses.join(", ")
            },
        ]);
    }
    table.to_string()
}

fn print_waiting(args: &Args, stored: &StoredSales, config: &Config) -> Result<Exit, Failure> {
    let mut listed = Vec::new();
    waiting_sales::each_in_spool(&config.paths.store, |delivery| {
        let shop = &delivery.whole.queued.item.shop;
        let settings = config.shops.iter().find(|settings| settings.name == *shop);
        listed.extend(delivery.wait(settings.map(|settings| settings.kind)));
    })
    .map_err(Failure::environment)?;
    listed.extend(stored.all().iter().flat_map(waiting_sales::in_ledger));
    listed.sort_by_key(|wait| wait.since);
    shorten(&mut listed, args);
    output::print(&match args.json {
        true => output::json(&listed)?,
        false => waiting_text(&listed, Utc::now()),
    })
}

fn waiting_text(listed: &[ListedWait], now: DateTime<Utc>) -> String {
    if listed.is_empty() {
        return "No sale waits.\n".to_owned();
    }
    let mut table = Table::new(["SHOP", "SALE OR DELIVERY", "ORDER", "SOLD", "WAITS FOR", "SINCE", "AGE"]);
    for wait in listed {
        let id = wait.sale.or(wait.delivery);
        let sold = match wait.order.sold.is_empty() {
            true => "-".to_owned(),
            false => wait.order.sold.join(", "),
        };
        table.row([
            &wait.shop.as_deref().unwrap_or("-"),
            &id.map_or_else(|| "-".to_owned(), short),
            &Printable(wait.order.number.as_deref().unwrap_or("-")),
            &Printable(&sold),
            &wait.waits_for.words(),
            &day(wait.since),
            &wait.since.map_or_else(|| "-".to_owned(), |since| age(now - since)),
        ]);
    }
    table.to_string()
}

fn age(age: TimeDelta) -> String {
    match age.num_hours() {
        ..1 => format!("{} min", age.num_minutes().max(0)),
        hours @ 1..48 => format!("{hours} h"),
        _ => format!("{} d", age.num_days()),
    }
}

/// A sale in a table.
pub(super) fn short(id: Hex128) -> String {
    let mut digits = id.to_string();
    digits.truncate(SHOWN_DIGITS);
    digits
}

/// A day in a table.
pub(super) fn day(time: Option<DateTime<Utc>>) -> String {
    time.map_or_else(|| "-".to_owned(), |time| time.date_naive().to_string())
}
