//! The vendor's verbs for sales: what remains, what waits, and what is granted later.

use serde_json::{Value, json};

use crate::deliveries::Shop;
use crate::support::cli_json::Page;
use crate::support::server::countersign;
use crate::support::shop::invoice;
use crate::support::Instance;

/// What a command prints with `--json`, after its check against a schema.
fn printed(instance: &Instance, schema: &str, arguments: &[&str]) -> Value {
    let output = countersign(instance).args(arguments).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = serde_json::from_slice(&output.stdout).unwrap();
    Page::read().check(schema, &printed);
    printed
}

fn text(instance: &Instance, arguments: &[&str]) -> String {
    let output = countersign(instance).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The first invoice of a subscription with an item beside, whose price has no offer.
fn invoice_of_two() -> Value {
    let mut sold = invoice("in_1", "subscription_create", "price_small", 1, 30);
    let lines = sold["lines"]["data"].as_array_mut().unwrap();
    let mut other = lines[0].clone();
    other["pricing"]["price_details"]["price"] = json!("price_maps");
    other["parent"]["subscription_item_details"]["subscription_item"] = json!("si_2");
    lines.push(other);
    sold["total"] = json!(3_800);
    sold["amount_paid"] = json!(3_800);
    sold
}

#[test]
fn what_no_license_follows_is_listed_once() {
    let shop = Shop::open();
    shop.deliver("invoice.paid", 1, &invoice_of_two());
    let payment = json!({ "invoice": "in_1", "payment": { "payment_intent": "pi_1" } });
    shop.deliver("invoice_payment.paid", 3, &payment);
    let part = json!({ "id": "ch_1", "payment_intent": "pi_1", "amount": 3_800, "amount_refunded": 500 });
    shop.deliver("charge.refunded", 4, &part);
    shop.settle();
    let instance = &shop.instance;
    let list = printed(instance, "shop-remainder-list", &["shop", "remainder", "list"]);
    let mut kinds: Vec<_> = list.as_array().unwrap().iter().map(|left| &left["kind"]).collect();
    kinds.sort_by_key(|kind| kind.to_string());
    assert_eq!(kinds, ["no_offer", "partial_refund"], "{list}");
    let left = |kind: &str| {
        let mut all = list.as_array().unwrap().iter();
        all.find(|left| left["kind"] == kind).unwrap().clone()
    };
    assert_eq!(left("no_offer")["prices"], json!(["price_maps"]));
    assert_eq!(left("partial_refund")["prices"], json!(["price_maps", "price_small"]));
    assert!(left("no_offer")["since"].is_string() && left("no_offer")["shop"] == "stripe");
    let table = text(instance, &["shop", "remainder", "list"]);
    assert!(
        table.starts_with("SHOP") && table.contains("no offer") && table.contains("price_maps"),
        "{table}"
    );
}
