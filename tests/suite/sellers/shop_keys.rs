//! `keys = "shop"`: the licenses of Lemon Squeezy have the keys that it makes and mails.

use std::fs;

use serde_json::{Value, json};

use super::orders;
use super::seller::{LARGE, SMALL, Seller, ShopEvent, ShopSale, with_sellers};
use crate::deliveries::{Shop, mails};
use crate::support::Instance;
use crate::support::instance::sha256;
use crate::support::server::countersign;
use crate::support::shop::BUYER;
use crate::support::stored::files_in;

const SETTINGS: &str = "[serve]\nforeign_keys = true\n[shops.lemonsqueezy]\nkeys = 'shop'\n\
    [mail]\nserver = '127.0.0.1'\nport = 1\ntls = 'none'\nfrom = 'licenses@acme.example'\n";

fn with_keys() -> Instance {
    let instance = with_sellers("");
    instance.write("countersign.toml", SETTINGS);
    instance
}

/// A key as Lemon Squeezy makes them.
fn key(number: u32) -> String {
    format!("38B1460A-5104-4067-A91D-CANARY{number:06}")
}

fn created(number: u32, key: &str) -> String {
    let attributes = json!({ "order_id": 1_000 + number, "key": key, "user_email": "CANARY@example.com",
        "updated_at": "2023-11-14T22:13:21Z" });
    json!({ "meta": { "event_name": "license_key_created", "test_mode": false },
        "data": { "type": "license-keys", "id": format!("{}", 5_000 + number), "attributes": attributes } })
    .to_string()
}

fn deliver(shop: &Shop, body: &str) {
    assert_eq!(
        Seller::LemonSqueezy.deliver(&shop.server, body),
        200,
        "{}",
        shop.server.log()
    );
}

fn parked(shop: &Shop) -> Vec<String> {
    let mut command = countersign(&shop.instance);
    let output = command.args(["shop", "parked", "list", "--json"]).output().unwrap();
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = list.as_array().unwrap_or_else(|| panic!("{list}"));
    all.iter()
        .map(|parked| parked["reason"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_key_of_the_shop_is_the_license_in_whichever_order_the_deliveries_come() {
    let shop = Shop::of(with_keys());
    let orders = orders(3);
    for step in 0..3 {
        for (number, order) in (0..).zip(&orders) {
            let mut bodies = ShopSale::new(Seller::LemonSqueezy, number).bodies(ShopEvent::Sold(SMALL, 1, 30), 1);
            bodies.push(created(number, &key(number)));
            deliver(&shop, &bodies[order[step]]);
        }
    }
    shop.settle();
    assert_eq!(parked(&shop), [""; 0]);
    let licenses = shop.licenses();
    assert_eq!(licenses.len(), orders.len());
    for number in 0..6 {
        let id = sha256(&key(number).to_lowercase());
        let license = licenses.iter().find(|license| license.line["license"] == id).unwrap();
        assert_eq!(
            (&license.line["origin"]["secret"], &license.line["status"]),
            (&json!(0), &json!("active"))
        );
        let answer = shop
            .server
            .ask(&json!({ "license_key": key(number), "site_url": "https://a.example" }));
        assert_eq!(answer.code(), "ok");
    }
    // It is paid, changed and refunded as any other one, and its key comes a second time.
    let sale = ShopSale::new(Seller::LemonSqueezy, 0);
    for (second, event, status) in [
        (2, ShopEvent::Paid(LARGE, 30, 60), "active"),
        (3, ShopEvent::Refunded(2), "active"),
        (4, ShopEvent::Refunded(1), "suspended"),
    ] {
        for body in sale.bodies(event, second) {
            deliver(&shop, &body);
            deliver(&shop, &created(0, &key(0)));
            shop.settle();
        }
        let id = sha256(&key(0).to_lowercase());
        let now = shop.licenses();
        let license = now.iter().find(|license| license.line["license"] == id).unwrap();
        assert_eq!(
            (&license.line["status"], &license.line["sites"]),
            (&json!(status), &json!(5))
        );
    }
    assert_eq!(shop.licenses().len(), orders.len());
    // The shop mails its keys.
    assert_eq!(mails(&shop), []);
    let log = shop.server.log();
    assert!(!log.contains("CANARY") && !log.contains("nobody was sent"), "{log}");
    for (file, content) in files_in(&shop.instance.file("store")) {
        let mut text = String::from_utf8_lossy(&content).into_owned();
        // The address can be erased, and the key is nowhere.
        if file.ends_with("store/texts.jsonl") {
            assert!(text.contains(BUYER) || text.contains("CANARY@example.com"), "{text}");
            text = text.replace(BUYER, "").replace("CANARY@example.com", "");
        }
        assert!(!text.contains("CANARY"), "{}", file.display());
    }
}

#[test]
fn what_one_key_cannot_be_for_is_parked() {
    let shop = Shop::of(with_keys());
    let sold = |number: u32, copies: u32| {
        ShopSale::new(Seller::LemonSqueezy, number).bodies(ShopEvent::Sold(SMALL, copies, 30), 1)
    };
    for (number, bodies, expected) in [
        (
            1,
            [created(1, &key(1)), created(1, &key(91))].to_vec(),
            "a second license key",
        ),
        (2, vec![created(2, "SHORT-CANARY")], "fewer than 16 characters"),
        (
            3,
            [vec![created(3, &key(3))], sold(3, 2)].concat(),
            "the offers of this one grant 2 licenses",
        ),
    ] {
        let before = parked(&shop);
        for body in bodies {
            deliver(&shop, &body);
            shop.settle();
        }
        let now = parked(&shop);
        let new: Vec<_> = now.iter().skip(before.len()).collect();
        assert!(
            !new.is_empty() && now.iter().any(|reason| reason.contains(expected)),
            "{number}: {now:?}"
        );
    }
    assert!(shop.licenses().is_empty());

    // A sale whose key does not come within three days.
    deliver(&shop, &sold(4, 1)[0]);
    crate::support::eventually("it waits for its key", || {
        let waiting = shop.deliveries("waiting");
        waiting.len() == 1 && waiting[0]["waits_for"] == "key"
    });
    let mut delivery = shop.deliveries("waiting").remove(0);
    let name = format!("store/deliveries/{}.delivery", delivery["id"].as_str().unwrap());
    let whole = fs::read_to_string(shop.instance.file(&name)).unwrap();
    let (_, body) = whole.split_once('\n').unwrap();
    delivery["queued"] = json!((chrono::Utc::now() - chrono::TimeDelta::hours(73)).to_rfc3339());
    // The server may read it at any time.
    let new = shop.instance.file("older-delivery");
    fs::write(&new, format!("{delivery}\n{body}")).unwrap();
    fs::rename(&new, shop.instance.file(&name)).unwrap();
    shop.settle();
    assert!(
        parked(&shop)
            .iter()
            .any(|reason| reason.contains("does its webhook send license_key_created?"))
    );
    // It comes after all.
    deliver(&shop, &created(4, &key(4)));
    shop.settle();
    let mut command = countersign(&shop.instance);
    let list = command.args(["shop", "parked", "list", "--json"]).output().unwrap();
    let list: Value = serde_json::from_slice(&list.stdout).unwrap();
    let waiting = list
        .as_array()
        .unwrap()
        .iter()
        .find(|parked| parked["reason"].as_str().unwrap().contains("three days"));
    let name = waiting.unwrap()["id"].as_str().unwrap();
    assert!(
        countersign(&shop.instance)
            .args(["shop", "parked", "retry", name])
            .status()
            .unwrap()
            .success()
    );
    shop.settle();
    assert_eq!(
        shop.licenses()[0].line["license"],
        json!(sha256(&key(4).to_lowercase()))
    );
}

#[test]
fn a_sale_that_is_refunded_before_its_key_came_waits_for_none() {
    let shop = Shop::of(with_keys());
    let sale = ShopSale::new(Seller::LemonSqueezy, 1);
    for body in sale.bodies(ShopEvent::Sold(SMALL, 1, 30), 1) {
        deliver(&shop, &body);
    }
    for body in sale.bodies(ShopEvent::Refunded(1), 2) {
        deliver(&shop, &body);
    }
    shop.settle();
    deliver(&shop, &created(1, &key(1)));
    shop.settle();
    assert_eq!((parked(&shop), shop.licenses().len()), (vec![], 0));
    let answer = shop
        .server
        .ask(&json!({ "license_key": key(1), "site_url": "https://a.example" }));
    assert_eq!(answer.code(), "malformed_license_key", "no license has this key");
}

#[test]
fn without_foreign_keys_the_server_does_not_start_and_doctor_says_why() {
    let instance = with_sellers("");
    instance.write("countersign.toml", &SETTINGS.replace("foreign_keys = true\n", ""));
    for verb in ["serve", "doctor"] {
        let output = countersign(&instance).arg(verb).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert!(!output.status.success(), "{said}");
        assert!(
            said.contains("[shops.lemonsqueezy] has keys = \"shop\"") && said.contains("foreign_keys = true"),
            "{said}"
        );
    }
}
