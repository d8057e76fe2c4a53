//! Reads the sample deliveries of `tests/data/shops`, whose sources its README names, and compares what they are read as with
//! what is written beside them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::event::ShopDelivery;
use crate::shop::Shop;
use countersign_model::sale::facts::SaleFacts;
use countersign_model::sale::terms::Terms;

/// Set to write what deliveries are read as. Read it before it is committed.
const BLESS: &str = "COUNTERSIGN_BLESS";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/shops")
}

/// A sample of a shop.
pub(crate) fn read(shop: &Shop, name: &str) -> ShopDelivery {
    let path = root().join(shop.name).join(format!("{name}.json"));
    let body = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    crate::read(shop, &body).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A delivery, with what is serialized nowhere else.
fn shown(delivery: &ShopDelivery) -> String {
    let mut shown = serde_json::to_value(delivery).unwrap();
    if let Some(record) = delivery.content.record() {
        shown["order"] = json!(record.order);
        shown["buyer"] = json!([record.buyer.address, record.buyer.customer]);
        shown["bad_key"] = json!(record.bad_key.map(|error| error.to_string()));
        if let Some(token) = record.bought_for {
            shown["bought_for"] = json!(token.map_or_else(|error| error.to_string(), |token| token.reveal()));
        }
    }
    format!("{shown:#}\n")
}

/// Compares all samples of a shop.
pub(crate) fn compare(shop: &Shop) {
    let folder = root().join(shop.name);
    let index = fs::read_to_string(root().join("README.md")).unwrap();
    let files = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = files
        .filter_map(|file| file.strip_suffix(".json").map(str::to_owned))
        .filter(|name| !name.ends_with(".facts"))
        .collect();
    names.sort();
    assert!(!names.is_empty(), "{}", folder.display());
    let mut wrong = Vec::new();
    for name in names {
        let row = format!("| `{}/{name}.json` | https://", shop.name);
        assert!(index.contains(&row), "the README has no line {row}");
        let shown = shown(&read(shop, &name));
        let golden = folder.join(format!("{name}.facts.json"));
        if std::env::var_os(BLESS).is_some() {
            fs::write(&golden, &shown).unwrap();
        }
        let expected = fs::read_to_string(&golden).unwrap_or_default();
        if shown != expected {
            wrong.push(format!("{name}: {shown}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Terms of an offer, such as `{ "offer": "pro", "modules": { "forms": [] }, … }`.
pub(crate) fn terms(offer: &str, lasts: &str, sites: u32) -> Terms {
    let value = json!({ "grace_days": 3, "lasts": lasts, "modules": { "forms": [] }, "offer": offer, "quantity": "sites",
        "sites": sites });
    serde_json::from_value(value).unwrap()
}

/// What a customer has after each sample, and what they have at last in other orders: status, sites and last day of each license
/// that is sold.
pub(crate) fn live(shop: &Shop, offers: &[(&str, Terms)], life: &[(&str, &[&str])]) {
    let mut facts = SaleFacts::default();
    let had = life.iter().map(|(name, _)| {
        take(&mut facts, &read(shop, name), offers);
        (*name, licenses(&facts))
    });
    let expected = life
        .iter()
        .map(|(name, expected)| (*name, expected.iter().map(|license| (*license).to_owned()).collect()));
    assert_eq!(had.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    let deliveries: Vec<_> = life.iter().map(|(name, _)| read(shop, name)).collect();
    let forward = deliveries.iter().collect::<Vec<_>>();
    let backward = deliveries.iter().rev().collect::<Vec<_>>();
    let last = life.last().map(|(_, last)| *last).unwrap_or_default();
    for mut order in [forward, backward] {
        for _ in 0..order.len() {
            order.rotate_left(1);
            let mut facts = SaleFacts::default();
            // Shops deliver more than once.
            for delivery in order.iter().chain(order.first()) {
                take(&mut facts, delivery, offers);
            }
            let names: Vec<_> = order.iter().map(|delivery| &delivery.event).collect();
            assert_eq!(licenses(&facts), last, "{names:?}");
        }
    }
}

fn take(facts: &mut SaleFacts<String>, delivery: &ShopDelivery, offers: &[(&str, Terms)]) {
    let Some(record) = delivery.content.record() else {
        return;
    };
    record.facts.iter().for_each(|fact| facts.take(fact.clone()));
    let unknown = facts.without_terms().into_iter();
    let unknown: Vec<_> = unknown.map(|(sale, thing)| (sale, thing.price.clone())).collect();
    for (sale, price) in unknown {
        if let Some((_, terms)) = offers.iter().find(|(of, _)| *of == price.as_str()) {
            facts.remember(sale, price, terms.clone());
        }
    }
    facts.assign_places();
}

fn licenses(facts: &SaleFacts<String>) -> Vec<String> {
    let licenses = facts.grants().licenses;
    let sold = licenses.iter().filter(|license| license.is_sold).map(|license| {
        let grant = &license.grant;
        let status = serde_json::to_value(grant.status).unwrap();
        let renews = if grant.renewal_days.is_some() { " renews" } else { "" };
        format!("{} {} {}{renews}", status.as_str().unwrap(), grant.sites, grant.expires)
    });
    let mut sold: Vec<_> = sold.collect();
    sold.sort();
    sold
}
