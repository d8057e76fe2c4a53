//! What is bought for a license that the customer has, from a signed delivery with a renewal token to the license.

use std::fs;

use countersign_model::download_key::DownloadKey;
use countersign_model::renewal_token::RenewalToken;
use serde_json::{Value, json};

use crate::deliveries::{Issued, Shop};
use crate::support::server::countersign;
use crate::support::{Instance, eventually};

use super::seller::{LARGE, SELLERS, SMALL, Seller, ShopEvent, ShopSale, with_sellers};

/// A price of which the license has nothing.
const MAPS: u32 = 14;

fn secret(instance: &Instance) -> DownloadKey {
    let secret: [u8; 32] = fs::read(instance.file("keys/downloads.key"))
        .unwrap()
        .try_into()
        .unwrap();
    DownloadKey::new(&secret)
}

fn token(shop: &Shop, license: &Value) -> String {
    let id = license.as_str().unwrap().parse().unwrap();
    RenewalToken::new(&secret(&shop.instance), &id).reveal()
}

/// A delivery with a renewal token where this shop carries it.
fn carrying(seller: Seller, body: &str, token: &str) -> String {
    let mut body: Value = serde_json::from_str(body).unwrap();
    match seller {
        Seller::Stripe => {
            let object = &mut body["data"]["object"];
            let metadata = json!({ "countersign": token });
            if object["mode"] == "payment" {
                object["client_reference_id"] = json!(token);
            } else if object["parent"].is_object() {
                object["parent"]["subscription_details"]["metadata"] = metadata;
            } else {
                object["metadata"] = metadata;
            }
        }
        Seller::Paddle => body["data"]["custom_data"] = json!({ "countersign": token }),
        Seller::LemonSqueezy => body["meta"]["custom_data"] = json!({ "countersign": token }),
        Seller::WooCommerce => {
            let field = json!({ "id": 1, "key": "_countersign_renew", "value": token });
            if !body["meta_data"].is_array() {
                body["meta_data"] = json!([]);
            }
            body["meta_data"].as_array_mut().unwrap().push(field);
        }
    }
    body.to_string()
}

impl Shop {
    fn hear(&self, seller: Seller, body: &str) {
        assert_eq!(seller.deliver(&self.server, body), 200, "{}", self.server.log());
        self.settle();
        assert_eq!(self.deliveries("parked"), [""; 0], "{body}: {}", self.server.log());
    }

    fn hear_all(&self, sale: ShopSale, event: ShopEvent, second: u32, token: &str) {
        for body in sale.bodies(event, second) {
            self.hear(sale.seller, &carrying(sale.seller, &body, token));
        }
    }
}

fn has(license: &Issued) -> (&str, &str, &Value) {
    let text = |name: &str| license.line[name].as_str().unwrap();
    (text("status"), text("expires"), &license.line["sites"])
}

fn open() -> Shop {
    let instance = with_sellers("");
    instance.write_secret("keys/downloads.key", "32 bytes of a secret in a test.\n");
    for seller in SELLERS {
        let name = seller.name();
        let text = format!("shop = '{name}'\nprices = ['{MAPS}']\nperiod = '1y'\nmodules.maps = []\n");
        instance.write(&format!("registry/offers/{name}-maps.toml"), &text);
    }
    Shop::of(instance)
}

fn issue(shop: &Shop, more: &[&str]) -> String {
    let fixed = [
        "license",
        "issue",
        "--json",
        "--module",
        "forms",
        "--expires",
        "2030-01-01",
    ];
    let output = countersign(&shop.instance).args(fixed).args(more).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    printed["license"]["id"]
        .as_str()
        .or(printed["id"].as_str())
        .unwrap_or_else(|| panic!("{printed}"))
        .to_owned()
}

fn line_of<'a>(licenses: &'a [Issued], id: &str) -> &'a Issued {
    licenses.iter().find(|license| license.line["license"] == id).unwrap()
}

#[test]
fn in_each_shop_a_renewal_adds_time_an_upgrade_its_terms_and_a_refund_takes_its_own_alone() {
    let shop = open();
    for (number, seller) in SELLERS.into_iter().enumerate() {
        let first = ShopSale::new(seller, 10);
        shop.hear(seller, &first.paid_once(SMALL, 1));
        let licenses = shop.licenses();
        assert_eq!(
            (licenses.len(), has(&licenses[number])),
            (number + 1, ("active", "2024-11-14", &json!(1)))
        );
        let token = token(&shop, &licenses[number].line["license"]);
        let says = |words: (&str, &str, u32)| {
            let licenses = shop.licenses();
            assert_eq!(licenses.len(), number + 1, "{seller:?} {}", shop.server.log());
            let (status, end, sites) = words;
            assert_eq!(
                has(&licenses[number]),
                (status, end, &json!(sites)),
                "{seller:?} {}",
                shop.server.log()
            );
        };
        let renewal = ShopSale::new(seller, 20);
        let body = carrying(seller, &renewal.paid_once(SMALL, 1), &token);
        shop.hear(seller, &body);
        shop.hear(seller, &body);
        says(("active", "2025-11-14", 1));
        let upgrade = ShopSale::new(seller, 30);
        shop.hear(seller, &carrying(seller, &upgrade.paid_once(LARGE, 5), &token));
        says(("active", "2025-11-14", 5));
        // Words about the old order undo nothing; those of a refund do not name the license.
        shop.hear(seller, &first.paid_once(SMALL, 2));
        for (sale, words) in [
            (renewal, ("active", "2024-11-14", 5)),
            (upgrade, ("active", "2024-11-14", 1)),
            (first, ("suspended", "2025-11-14", 5)),
        ] {
            if sale.number == 30 && matches!(seller, Seller::LemonSqueezy | Seller::WooCommerce) {
                // Their refunds repeat what was sold, which is another price here.
                break;
            }
            sale.bodies(ShopEvent::Refunded(1), 9)
                .iter()
                .for_each(|body| shop.hear(seller, body));
            says(words);
        }
    }
}

#[test]
fn a_subscription_that_is_bought_for_a_license_is_this_license_and_renews_it() {
    let shop = open();
    for (number, seller) in SELLERS.into_iter().enumerate() {
        let first = ShopSale::new(seller, 10);
        shop.hear(seller, &first.paid_once(SMALL, 1));
        let token = token(&shop, &shop.licenses()[number].line["license"]);
        let subscription = ShopSale::new(seller, 20);
        shop.hear_all(subscription, ShopEvent::Sold(LARGE, 1, 30), 5, &token);
        shop.hear_all(subscription, ShopEvent::Paid(LARGE, 30, 60), 40, &token);
        let licenses = shop.licenses();
        assert_eq!(licenses.len(), number + 1, "{seller:?} {}", shop.server.log());
        let end = crate::deliveries::day(60);
        assert_eq!(
            has(&licenses[number]),
            ("active", end.as_str(), &json!(5)),
            "{seller:?}"
        );
        assert_eq!(
            licenses[number].line["renewal_days"], 3,
            "{seller:?} {}",
            licenses[number].line
        );
    }
}

#[test]
fn a_license_that_a_person_issued_gets_time_and_has_what_it_had_after_the_refund() {
    let shop = open();
    let seller = Seller::Stripe;
    let id = issue(&shop, &["--sites", "1"]);
    eventually("the license", || shop.licenses().len() == 1);
    let before = shop.licenses()[0].line.clone();
    let token = token(&shop, &json!(id));
    let renewal = ShopSale::new(seller, 20);
    shop.hear(seller, &carrying(seller, &renewal.paid_once(SMALL, 1), &token));
    assert_eq!(
        has(line_of(&shop.licenses(), &id)),
        ("active", "2031-01-01", &json!(1)),
        "{}",
        shop.server.log()
    );
    let second = ShopSale::new(seller, 30);
    shop.hear(seller, &carrying(seller, &second.paid_once(LARGE, 2), &token));
    assert_eq!(has(line_of(&shop.licenses(), &id)), ("active", "2031-01-01", &json!(5)));
    for sale in [second, renewal] {
        sale.bodies(ShopEvent::Refunded(1), 9)
            .iter()
            .for_each(|body| shop.hear(seller, body));
    }
    let licenses = shop.licenses();
    let after = &line_of(&licenses, &id).line;
    for field in [
        "status",
        "expires",
        "sites",
        "modules",
        "site_moves",
        "staging_sites",
        "renewal_days",
    ] {
        assert_eq!(after[field], before[field], "{field}");
    }
    assert_eq!(licenses.len(), 1);
    // Another shop's sale of it would be of two shops: it is a license of its own.
    let other = ShopSale::new(Seller::Paddle, 40);
    shop.hear(
        Seller::Paddle,
        &carrying(Seller::Paddle, &other.paid_once(SMALL, 1), &token),
    );
    assert_eq!(shop.licenses().len(), 2);
    assert!(
        shop.server
            .log()
            .contains("another shop, or the other mode of this one, sold the license")
    );
}

#[test]
fn what_is_no_token_of_a_license_is_a_new_sale_and_the_log_says_so_without_it() {
    let shop = open();
    let seller = Seller::Stripe;
    shop.hear(seller, &ShopSale::new(seller, 1).paid_once(SMALL, 1));
    let victim = shop.licenses()[0].line["license"].clone();
    let good = token(&shop, &victim);
    let other_key = RenewalToken::new(&DownloadKey::new(&[9; 32]), &victim.as_str().unwrap().parse().unwrap()).reveal();
    let no_license = RenewalToken::new(&secret(&shop.instance), &"00".repeat(32).parse().unwrap()).reveal();
    let swapped = format!("{}{}", &good[..16], &no_license[16..]);
    let revoked = issue(&shop, &[]);
    let made = countersign(&shop.instance)
        .args(["license", "revoke", &revoked])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    eventually("the revocation", || {
        shop.licenses()
            .iter()
            .any(|license| license.line["status"] == "revoked")
    });
    let known = shop.licenses().len();
    let hostile = [
        other_key.clone(),
        no_license,
        swapped,
        good.to_uppercase(),
        good.replacen("r1-", "R1-", 1),
        good.replacen("r1-", "r2-", 1),
        good[3..].to_owned(),
        format!("{good}a"),
        good[..good.len() - 1].to_owned(),
        format!("{good}="),
        format!(" {good}"),
        format!("{good}\n"),
        good.replace(&good[5..6], "1"),
        good.replace(&good[5..6], "\u{441}"),
        good.repeat(100),
        "r1-".to_owned(),
        victim.as_str().unwrap().to_owned(),
        "../../../etc/passwd".to_owned(),
        "'; DROP TABLE licenses; --".to_owned(),
        token(&shop, &json!(revoked)),
    ];
    for (number, text) in (0_u32..).zip(&hostile) {
        let sale = ShopSale::new(seller, 100 + number);
        let mut body: Value = serde_json::from_str(&sale.paid_once(SMALL, 3)).unwrap();
        body["data"]["object"]["metadata"] = json!({ "countersign": text });
        shop.hear(seller, &body.to_string());
    }
    let licenses = shop.licenses();
    assert_eq!(licenses.len(), known + hostile.len());
    assert_eq!(
        has(line_of(&licenses, victim.as_str().unwrap())),
        ("active", "2024-11-14", &json!(1))
    );
    // A test sale, one of nothing that the license covers, and a reference of the vendor's own.
    let test = ShopSale {
        is_test: true,
        ..ShopSale::new(seller, 200)
    };
    shop.hear(seller, &carrying(seller, &test.paid_once(SMALL, 3), &good));
    shop.hear(
        seller,
        &carrying(seller, &ShopSale::new(seller, 201).paid_once(MAPS, 3), &good),
    );
    shop.hear(
        seller,
        &carrying(seller, &ShopSale::new(seller, 202).paid_once(SMALL, 3), "user-7"),
    );
    let licenses = shop.licenses();
    assert_eq!(licenses.len(), known + hostile.len() + 3);
    assert_eq!(
        has(line_of(&licenses, victim.as_str().unwrap())),
        ("active", "2024-11-14", &json!(1))
    );
    let log = shop.server.log();
    let refused = log
        .lines()
        .filter(|line| line.contains("what was bought for a license is a sale of its own"));
    assert_eq!(refused.count(), hostile.len() + 2, "{log}");
    for words in [
        "not a renewal token",
        "no license has this",
        "is revoked",
        "other mode",
        "covers nothing of what was sold",
    ] {
        assert!(log.contains(words), "{words}: {log}");
    }
    for text in [&good[3..], &other_key[3..], "DROP TABLE"] {
        assert!(!log.contains(text), "{text}");
    }
}

#[test]
fn who_has_a_new_key_buys_with_the_old_token_and_another_shop_sells_a_license_of_its_own() {
    let shop = open();
    let seller = Seller::Paddle;
    shop.hear(seller, &ShopSale::new(seller, 10).paid_once(SMALL, 1));
    let first = shop.licenses()[0].line["license"].clone();
    let token = token(&shop, &first);
    let rekeyed = countersign(&shop.instance)
        .args(["license", "rekey", first.as_str().unwrap(), "--json"])
        .output()
        .unwrap();
    assert!(rekeyed.status.success(), "{}", String::from_utf8_lossy(&rekeyed.stderr));
    eventually("the new key", || shop.licenses().len() == 2);
    let renewal = ShopSale::new(seller, 20);
    shop.hear(seller, &carrying(seller, &renewal.paid_once(SMALL, 1), &token));
    let licenses = shop.licenses();
    assert_eq!(licenses.len(), 2);
    assert_eq!(has(&licenses[0]).0, "revoked");
    assert_eq!(has(&licenses[1]), ("active", "2025-11-14", &json!(1)));
    for body in renewal.bodies(ShopEvent::Refunded(1), 9) {
        shop.hear(seller, &body);
    }
    assert_eq!(has(&shop.licenses()[1]), ("active", "2024-11-14", &json!(1)));

    for (number, other) in (3..).zip(SELLERS.into_iter().filter(|other| *other != seller)) {
        let sale = ShopSale::new(other, 30);
        shop.hear(other, &carrying(other, &sale.paid_once(SMALL, 1), &token));
        let licenses = shop.licenses();
        assert_eq!(licenses.len(), number, "{other:?}");
        assert_eq!(has(&licenses[1]), ("active", "2024-11-14", &json!(1)), "{other:?}");
    }
    let log = shop.server.log();
    assert_eq!(
        log.matches("another shop, or the other mode of this one, sold the license")
            .count(),
        3,
        "{log}"
    );
    assert!(!log.contains(&token));
}

#[test]
fn a_check_of_a_saved_delivery_shows_the_token_that_it_carries() {
    let instance = with_sellers("");
    for seller in SELLERS {
        let body = ShopSale::new(seller, 10).paid_once(SMALL, 1);
        for (text, is_token) in [("r1-aaaqeayeaudapwdu7nnbw2dvqy", true), ("r1-none", false)] {
            instance.write("sale.json", &carrying(seller, &body, text));
            let file = instance.file("sale.json");
            let check = ["shop", "check", seller.name(), file.to_str().unwrap()];
            let output = countersign(&instance).args(check).arg("--json").output().unwrap();
            let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
            let shown = printed["deliveries"][0]["renewal_token"].as_str().unwrap();
            assert_eq!(shown == text, is_token, "{seller:?} {shown}");
            let output = countersign(&instance).args(check).output().unwrap();
            let table = String::from_utf8(output.stdout).unwrap();
            assert!(table.contains("bought for a license: "), "{table}");
        }
    }
}
