//! Checkouts that the shops' own SDKs make for a license that the customer has: the renewal token comes back in the delivery, and
//! what was paid is one more payment of that license.
//!
//! No shop is asked. What an SDK would send is put into a delivery as the shop's documents say: Stripe copies `client_reference_id`
//! and `metadata` into the session and `subscription_data.metadata` into the subscription's invoices, Paddle `custom_data` into the
//! transaction, Lemon Squeezy `checkout_data.custom` into `meta.custom_data`, `WooCommerce` `meta_data` into the order.

use std::fs;

use chrono::{Days, NaiveDate, Utc};
use serde_json::{Value, json};

use crate::support::server::countersign;
use crate::support::{Instance, Server, eventually, request};
use crate::tools::program::run;

const SHOPS: [(&str, &str); 4] = [
    ("stripe", "Stripe-Signature"),
    ("paddle", "Paddle-Signature"),
    ("lemonsqueezy", "X-Signature"),
    ("woocommerce", "X-WC-Webhook-Signature"),
];

const SECRET: &str = "whsec_of_a_test";

/// Four shops that sell a year of one module for price 11.
fn open() -> Instance {
    let instance = Instance::new();
    instance.write(
        "countersign.toml",
        &SHOPS.map(|(shop, _)| format!("[shops.{shop}]\n")).concat(),
    );
    for secret in ["--issuing", "--references"] {
        let made = countersign(&instance)
            .args(["keys", "generate", secret])
            .status()
            .unwrap();
        assert!(made.success());
    }
    instance.write_secret("keys/downloads.key", "32 bytes of a secret in a test.\n");
    for (shop, _) in SHOPS {
        instance.write_secret(&format!("keys/shops/{shop}.secret"), SECRET);
        let offer = format!("shop = '{shop}'\nprices = ['11']\nperiod = '1y'\nmodules.forms = []\n");
        instance.write(&format!("registry/offers/{shop}.toml"), &offer);
    }
    instance
}

/// The delivery of a sale that was paid now, after a checkout with this request.
fn sold(shop: &str, sale: usize, request: &Value) -> Value {
    let now = Utc::now();
    match shop {
        "stripe" => {
            let (kind, object) = match request["mode"].as_str() {
                Some("subscription") => (
                    "invoice.paid",
                    json!({ "id": format!("in_{sale}"), "billing_reason": "subscription_create", "customer_email": "jane@example.com",
                        "total": 2_990, "amount_paid": 2_990, "payment_intent": format!("pi_{sale}"),
                        "parent": { "subscription_details": { "subscription": format!("sub_{sale}"),
                            "metadata": request["subscription_data"]["metadata"] } },
                        "lines": { "data": [{ "pricing": { "price_details": { "price": "11" } }, "amount": 2_990, "quantity": 1,
                            "parent": { "subscription_item_details": { "subscription_item": format!("si_{sale}") } },
                            "period": { "start": now.timestamp(), "end": (now + Days::new(365)).timestamp() } }] } }),
                ),
                _ => (
                    "checkout.session.completed",
                    json!({ "id": format!("cs_{sale}"), "mode": "payment", "payment_status": "paid",
                        "payment_intent": format!("pi_{sale}"), "customer_details": { "email": "jane@example.com" },
                        "client_reference_id": request["client_reference_id"], "metadata": request["metadata"], "amount_total": 2_990,
                        "line_items": { "data": [{ "price": { "id": "11" }, "quantity": 1 }] } }),
                ),
            };
            json!({ "id": format!("evt_{sale}"), "type": kind, "created": now.timestamp(), "livemode": true,
                "data": { "object": object } })
        }
        "paddle" => json!({ "event_id": format!("evt_{sale}"), "event_type": "transaction.completed",
            "occurred_at": now.to_rfc3339(), "data": { "id": format!("txn_{sale}"), "subscription_id": null, "origin": "web",
                "details": { "totals": { "grand_total": "2990", "grand_total_tax": "0" } }, "customer_id": format!("ctm_{sale}"),
                "billing_period": null, "custom_data": request["custom_data"],
                "items": [{ "price": { "id": "11", "product_id": "pro_1" }, "quantity": 1 }] } }),
        "lemonsqueezy" => json!({ "meta": { "event_name": "order_created", "test_mode": false,
                "custom_data": request["data"]["attributes"]["checkout_data"]["custom"] },
            "data": { "type": "orders", "id": format!("{sale}"), "attributes": { "status": "paid", "user_email": "jane@example.com",
                "created_at": now.to_rfc3339(), "updated_at": now.to_rfc3339(), "total": 2_990, "refunded_amount": 0,
                "first_order_item": { "variant_id": 11, "product_id": 9, "quantity": 1 } } } }),
        "woocommerce" => {
            let time = now.format("%Y-%m-%dT%H:%M:%S").to_string();
            let meta = if request["meta_data"].is_array() {
                request["meta_data"].clone()
            } else {
                json!([])
            };
            json!({ "id": sale, "status": "completed", "currency": "EUR", "total": "29.90", "date_modified_gmt": time,
                "date_paid_gmt": time, "billing": { "email": "jane@example.com" }, "refunds": [], "meta_data": meta,
                "line_items": [{ "product_id": 9, "variation_id": 11, "quantity": 1 }] })
        }
        other => panic!("{other}"),
    }
}

/// Delivers it with the signature of the shop's SDK, where that signs.
fn deliver(server: &Server, shop: &str, header: &str, body: &Value) {
    let body = body.to_string();
    let line = json!({ "shop": shop, "secret": SECRET, "body": body }).to_string() + "\n";
    let signed: Value = serde_json::from_str(&run("node", "tests/tools/shops.mjs", &line)).unwrap();
    let headers = [
        ("Content-Type", "application/json"),
        (header, signed["header"].as_str().unwrap()),
    ];
    let answer = request(
        server.address,
        "POST",
        &format!("/hooks/{shop}"),
        &headers,
        body.as_bytes(),
    );
    assert_eq!(answer.status, 200, "{shop}: {}", server.log());
}

/// The licenses that were sold by a shop, oldest first.
fn licenses(instance: &Instance, shop: &str) -> Vec<Value> {
    let output = countersign(instance)
        .args(["license", "list", "--json"])
        .output()
        .unwrap();
    let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let licenses = listed.as_array().unwrap_or_else(|| panic!("{listed}"));
    let of_shop = licenses.iter().filter(|license| license["offer"] == shop);
    of_shop.cloned().collect()
}

/// Whether a delivery is neither applied nor parked.
fn waits(instance: &Instance) -> bool {
    let deliveries = fs::read_dir(instance.file("store/deliveries")).unwrap();
    let mut texts = deliveries.filter_map(|entry| fs::read_to_string(entry.unwrap().path()).ok());
    texts.any(|text| text.lines().next().is_some_and(|head| head.contains("\"waiting\"")))
}

#[test]
fn a_checkout_of_each_shops_own_sdk_with_a_renewal_token_is_one_more_payment_of_the_license() {
    let instance = open();
    let server = Server::start(&instance);
    let mut number = 100;
    for (shop, header) in SHOPS {
        deliver(&server, shop, header, &sold(shop, number, &Value::Null));
        eventually("the first sale is a license", || licenses(&instance, shop).len() == 1);
        let id = licenses(&instance, shop)[0]["id"].as_str().unwrap().to_owned();
        let shown = countersign(&instance)
            .args(["license", "show", "--json", &id])
            .output()
            .unwrap();
        let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
        let token = shown["renewal_token"].as_str().unwrap_or_else(|| panic!("{shown}"));
        let made = run(
            "node",
            "tests/tools/checkouts.mjs",
            &(json!({ "shop": shop, "token": token }).to_string() + "\n"),
        );
        let made: Value = serde_json::from_str(&made).unwrap();
        let requests = made["requests"].as_array().unwrap();
        assert!(!requests.is_empty(), "{shop}");
        for request in requests {
            number += 1;
            let end = |license: &Value| license["expires"].as_str().unwrap().parse::<NaiveDate>().unwrap();
            let before = end(&licenses(&instance, shop)[0]);
            deliver(&server, shop, header, &sold(shop, number, request));
            // A subscription that is bought for the license pays for its own year.
            let is_longer = || end(&licenses(&instance, shop)[0]) > before;
            if request["mode"] != "subscription" {
                eventually("the license is a year longer", is_longer);
            }
            eventually("no delivery waits", || !waits(&instance));
            assert_eq!(licenses(&instance, shop).len(), 1, "{shop} {request}: {}", server.log());
        }
        // Without a token, the same checkout is a new license.
        number += 1;
        deliver(&server, shop, header, &sold(shop, number, &Value::Null));
        eventually("a new license", || licenses(&instance, shop).len() == 2);
    }
}
