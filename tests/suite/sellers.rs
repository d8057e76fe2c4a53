//! What each of the four shops can tell, from the signed delivery to the license.

mod asked_buyers;
mod asked_stripe;
mod bought_for;
pub mod seller;
mod shop_keys;

use chrono::Utc;
use serde_json::{Value, json};

use crate::deliveries::{Shop, day};
use crate::support::server::countersign;

use seller::{LARGE, SEATS, SELLERS, SMALL, Seller, ShopEvent, ShopSale, with_sellers};

/// Status, sites, modules and last day of a license.
type Terms = (String, Value, Value, String);

fn terms(status: &str, price: u32, days: u64) -> Terms {
    let (sites, modules) = match price {
        LARGE => (5, json!({ "forms": [], "maps": [] })),
        _ => (1, json!({ "forms": [] })),
    };
    (status.to_owned(), json!(sites), modules, day(days))
}

fn terms_of(line: &Value) -> Terms {
    let text = |name: &str| line[name].as_str().unwrap().to_owned();
    (
        text("status"),
        line["sites"].clone(),
        line["modules"].clone(),
        text("expires"),
    )
}

impl Shop {
    /// Delivers what happened, and waits until it is applied.
    fn tell(&self, sale: ShopSale, event: ShopEvent, second: u32) {
        for body in sale.bodies(event, second) {
            assert_eq!(sale.seller.deliver(&self.server, &body), 200, "{}", self.server.log());
            self.settle();
        }
        assert_eq!(self.deliveries("parked"), [""; 0], "{event:?}: {}", self.server.log());
    }

    /// The terms of the licenses after the first `known`.
    fn terms_after(&self, known: usize) -> Vec<Terms> {
        self.licenses()[known..]
            .iter()
            .map(|license| terms_of(&license.line))
            .collect()
    }
}

/// The status while a subscription is paused: what is paid stays in WooCommerce.
fn paused(seller: Seller) -> &'static str {
    match seller {
        Seller::WooCommerce => "active",
        _ => "suspended",
    }
}

#[test]
fn every_shop_issues_renews_changes_pauses_and_refunds() {
    let shop = Shop::of(with_sellers(""));
    for seller in SELLERS {
        let known = shop.licenses().len();
        let sale = ShopSale::new(seller, 1);
        for (second, event, expected) in [
            (1, ShopEvent::Sold(SMALL, 1, 30), terms("active", SMALL, 30)),
            // A second time, and a part of the money back.
            (1, ShopEvent::Sold(SMALL, 1, 30), terms("active", SMALL, 30)),
            (2, ShopEvent::PartRefunded(1), terms("active", SMALL, 30)),
            (3, ShopEvent::Paid(SMALL, 30, 60), terms("active", SMALL, 60)),
            (4, ShopEvent::Changed(LARGE, 1, 60), terms("active", LARGE, 60)),
            (5, ShopEvent::Paused(LARGE, 60), terms(paused(seller), LARGE, 60)),
            (6, ShopEvent::Paid(LARGE, 60, 90), terms("active", LARGE, 90)),
            (7, ShopEvent::Paused(LARGE, 90), terms(paused(seller), LARGE, 90)),
            // What is older changes nothing.
            (6, ShopEvent::Changed(SMALL, 1, 90), terms(paused(seller), LARGE, 90)),
            (8, ShopEvent::Changed(LARGE, 1, 90), terms("active", LARGE, 90)),
            // One period back: what is paid before it stays.
            (9, ShopEvent::Refunded(6), terms("active", LARGE, 60)),
            (10, ShopEvent::Refunded(1), terms("active", LARGE, 60)),
            (11, ShopEvent::Refunded(3), terms("suspended", LARGE, 90)),
            // The next one that is paid lifts it.
            (12, ShopEvent::Paid(LARGE, 90, 120), terms("active", LARGE, 120)),
        ] {
            shop.tell(sale, event, second);
            assert_eq!(shop.terms_after(known), [expected], "{seller:?} {second} {event:?}");
        }
    }
}

#[test]
fn every_shop_sells_copies_seats_and_trials() {
    let shop = Shop::of(with_sellers(""));
    for seller in SELLERS {
        let known = shop.licenses().len();
        shop.tell(ShopSale::new(seller, 1), ShopEvent::Sold(SMALL, 2, 30), 1);
        assert_eq!(
            shop.terms_after(known),
            [terms("active", SMALL, 30), terms("active", SMALL, 30)]
        );
        shop.tell(ShopSale::new(seller, 2), ShopEvent::Sold(SEATS, 3, 30), 1);
        let seats = shop.terms_after(known + 2);
        assert_eq!((seats.len(), &seats[0].1), (1, &json!(6)), "{seller:?}");
        let trial = ShopSale::new(seller, 3);
        shop.tell(trial, ShopEvent::Trial(SMALL, 14), 1);
        assert_eq!(shop.terms_after(known + 3), [terms("active", SMALL, 14)], "{seller:?}");
        shop.tell(trial, ShopEvent::Paid(SMALL, 14, 44), 2);
        assert_eq!(shop.terms_after(known + 3), [terms("active", SMALL, 44)], "{seller:?}");
    }
}

#[test]
fn every_shop_takes_the_offers_of_the_test_mode_for_tests() {
    let shop = Shop::of(with_sellers("mode = 'test'"));
    for seller in SELLERS {
        let known = shop.licenses().len();
        let sale = ShopSale {
            is_test: true,
            ..ShopSale::new(seller, 1)
        };
        shop.tell(sale, ShopEvent::Sold(SMALL, 1, 30), 1);
        let issued = shop.terms_after(known);
        assert_eq!((issued.len(), &issued[0].1), (1, &json!(9)), "{seller:?}");
    }
}

#[test]
fn a_saved_delivery_is_checked_as_the_server_would_take_it() {
    let instance = with_sellers("mode = 'test'");
    let settings = "[shops.own-store]\nkind = 'woocommerce'\nmode = 'test'\nsecret_file = 'store.secret'\n";
    instance.write("countersign.toml", settings);
    instance.write_secret("store.secret", "whsec_new\nwhsec_old\n");
    let offer = "shop = 'own-store'\nmode = 'test'\nprices = ['11']\nperiod = '1y'\nsites = 9\nmodules.forms = []\n";
    instance.write("registry/offers/own-store.toml", offer);
    let body = ShopSale::new(Seller::WooCommerce, 1)
        .bodies(ShopEvent::Sold(SMALL, 1, 30), 1)
        .remove(0);
    instance.write("order.json", &body);
    let check = |more: &[&str]| {
        let mut command = countersign(&instance);
        command.args(["shop", "check", "own-store", "--json"]).args(more);
        let output = command.arg(instance.file("order.json")).output().unwrap();
        let printed: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        printed
    };
    let printed = check(&[]);
    assert_eq!(
        (&printed["kind"], &printed["deliveries"][0]["offers_of"]),
        (&json!("woocommerce"), &json!("test"))
    );
    assert_eq!(printed["licenses"][0]["sites"], 9, "{printed}");
    assert_eq!(printed["deliveries"][0]["signature"], "not_checked");
    assert_eq!(check(&["--mode", "live"])["deliveries"][0]["offers_of"], "live");
    for (secret, expected) in [("whsec_new", true), ("whsec_old", true), ("whsec_other", false)] {
        let signature = Seller::WooCommerce.signature(secret, 0, &body);
        let header = format!("{}: {signature}", Seller::WooCommerce.header());
        assert_eq!(
            check(&["--header", &header])["deliveries"][0]["signature"] == "right",
            expected,
            "{secret}"
        );
    }
    // A header that nothing can check is an error.
    instance.write("countersign.toml", "");
    let mut command = countersign(&instance);
    command.args([
        "shop",
        "check",
        "own-store",
        "--kind",
        "woocommerce",
        "--header",
        "X-WC-Webhook-Signature: x",
    ]);
    let output = command.arg(instance.file("order.json")).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(
        error.contains("no secret") && error.contains("hint: name the file with --secret-file"),
        "{error}"
    );
}

/// Every order of so many things.
fn orders(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let insert = |order: Vec<usize>| {
        (0..count).map(move |place| {
            let mut order = order.clone();
            order.insert(place, count - 1);
            order
        })
    };
    orders(count - 1).into_iter().flat_map(insert).collect()
}

/// Delivers these bodies of a sale in every order, each order to a sale of its own, and compares all licenses.
fn in_every_order(seller: Seller, bodies: impl Fn(ShopSale) -> Vec<String>, expected: &Terms) {
    let shop = Shop::of(with_sellers(""));
    let count = bodies(ShopSale::new(seller, 0)).len();
    let mut orders = orders(count);
    if count > 4 {
        // Of 120 orders, 24.
        orders = orders.into_iter().step_by(5).collect();
    }
    for step in 0..count {
        for (number, order) in (0..).zip(&orders) {
            let bodies = bodies(ShopSale::new(seller, number));
            assert_eq!(seller.deliver(&shop.server, &bodies[order[step]]), 200);
        }
        // What changes a sale that is not issued yet waits for it.
        if step == count - 1 {
            shop.settle();
        } else {
            shop.settle_but_what_waits();
        }
    }
    assert_eq!(shop.deliveries("parked"), [""; 0], "{}", shop.server.log());
    let all = shop.terms_after(0);
    match expected.0.as_str() {
        "active" => assert_eq!(all.len(), orders.len(), "{seller:?}"),
        // What fell before it came is never issued.
        _ => assert!((1..=orders.len()).contains(&all.len()), "{seller:?}"),
    }
    for (place, found) in all.iter().enumerate() {
        assert_eq!(found, expected, "{seller:?} {place}");
    }
}

#[test]
fn deliveries_of_every_shop_in_any_order_end_in_the_same_license() {
    for seller in SELLERS {
        let deliveries = |with_refund: bool| {
            move |sale: ShopSale| {
                let last = match with_refund {
                    true => (ShopEvent::Refunded(6), 7),
                    false => (ShopEvent::Paused(LARGE, 60), 4),
                };
                let all = [
                    (ShopEvent::Sold(SMALL, 1, 14), 1),
                    (ShopEvent::Paid(LARGE, 14, 60), 6),
                    last,
                ];
                let bodies = all.into_iter().flat_map(|(event, second)| sale.bodies(event, second));
                bodies.collect()
            }
        };
        in_every_order(seller, deliveries(false), &terms("active", LARGE, 60));
        // The first period stays paid.
        in_every_order(seller, deliveries(true), &terms("active", LARGE, 14));
    }
}

#[test]
fn only_the_end_of_a_dispute_lifts_what_a_dispute_suspends() {
    let dispute = |sale: ShopSale, status: &str, second: u32| {
        let kind = match status {
            "needs_response" => "charge.dispute.created",
            _ => "charge.dispute.closed",
        };
        let object = json!({ "id": format!("du_{}", sale.number), "payment_intent": format!("pi_{}_1", sale.number), "status": status });
        sale.stripe_event(kind, second, &object).to_string()
    };
    let disputed = |sale: ShopSale| {
        [
            sale.bodies(ShopEvent::Sold(SMALL, 1, 30), 1),
            vec![dispute(sale, "needs_response", 3)],
        ]
        .concat()
    };
    in_every_order(Seller::Stripe, disputed, &terms("suspended", SMALL, 30));
    let won = |sale: ShopSale| [disputed(sale), vec![dispute(sale, "won", 6)]].concat();
    in_every_order(Seller::Stripe, won, &terms("active", SMALL, 30));
    // The next period is paid: what is disputed is the first one alone.
    let paid = |sale: ShopSale| [disputed(sale), sale.bodies(ShopEvent::Paid(SMALL, 30, 60), 5)].concat();
    in_every_order(Seller::Stripe, paid, &terms("active", SMALL, 60));
    // The money went back before: to win the dispute brings no license back.
    let refunded = |sale: ShopSale| [won(sale), sale.bodies(ShopEvent::Refunded(1), 4)].concat();
    in_every_order(Seller::Stripe, refunded, &terms("suspended", SMALL, 30));
}

#[test]
fn what_is_paid_once_lasts_as_long_as_the_offer_says_in_every_shop() {
    let shop = Shop::of(with_sellers(""));
    for (known, seller) in SELLERS.into_iter().enumerate() {
        let sale = ShopSale::new(seller, 1);
        let body = sale.paid_once(SMALL, 1);
        for _ in 0..2 {
            assert_eq!(seller.deliver(&shop.server, &body), 200);
            shop.settle();
        }
        // A year from November 14th, 2023, which is the time by the shop's clock.
        let (status, _, _, until) = &shop.terms_after(known)[0];
        assert_eq!(
            (status.as_str(), until.as_str()),
            ("active", "2024-11-14"),
            "{seller:?}"
        );
        shop.tell(sale, ShopEvent::Refunded(1), 2);
        assert_eq!(shop.terms_after(known)[0].0, "suspended", "{seller:?}");
    }
}

#[test]
fn an_order_of_woocommerce_switches_a_subscription_to_another_product() {
    let shop = Shop::of(with_sellers(""));
    let sale = ShopSale::new(Seller::WooCommerce, 1);
    shop.tell(sale, ShopEvent::Sold(SMALL, 1, 30), 1);
    let mut switch: Value = serde_json::from_str(&sale.paid_once(LARGE, 2)).unwrap();
    switch["id"] = json!(9_001);
    switch["date_modified_gmt"] = json!("2023-11-14T22:13:22");
    switch["meta_data"] = json!([{ "key": "_subscription_switch", "value": "2001" }]);
    for _ in 0..2 {
        assert_eq!(sale.seller.deliver(&shop.server, &switch.to_string()), 200);
        shop.settle();
        // The subscription's own delivery says what it has now.
        assert_eq!(shop.terms_after(0), [terms("active", SMALL, 30)]);
    }
    shop.tell(sale, ShopEvent::Changed(LARGE, 1, 30), 2);
    assert_eq!(shop.terms_after(0), [terms("active", LARGE, 30)]);
    shop.tell(sale, ShopEvent::Paid(LARGE, 30, 60), 3);
    assert_eq!(shop.terms_after(0), [terms("active", LARGE, 60)]);
    assert_eq!(shop.deliveries("parked"), [""; 0], "{}", shop.server.log());
}

#[test]
fn a_copy_that_is_not_sold_anymore_comes_back_only_when_it_is_sold_again() {
    let shop = Shop::of(with_sellers(""));
    let sale = ShopSale::new(Seller::Paddle, 1);
    let adjusted = |second: u32, action: &str| {
        let data = json!({ "id": format!("adj_{second}"), "transaction_id": "txn_1_1", "status": "approved", "action": action });
        let body = sale.paddle_event("adjustment.updated", second, &data).to_string();
        assert_eq!(sale.seller.deliver(&shop.server, &body), 200);
        shop.settle();
    };
    let statuses = || -> Vec<String> { shop.terms_after(0).into_iter().map(|terms| terms.0).collect() };
    shop.tell(sale, ShopEvent::Sold(SMALL, 2, 30), 1);
    shop.tell(sale, ShopEvent::Changed(SMALL, 1, 30), 2);
    assert_eq!(statuses(), ["active", "suspended"]);
    // The subscription pauses and goes on, and a bank takes the money and gives it back.
    shop.tell(sale, ShopEvent::Paused(SMALL, 30), 3);
    assert_eq!(statuses(), ["suspended", "suspended"]);
    shop.tell(sale, ShopEvent::Changed(SMALL, 1, 30), 4);
    assert_eq!(statuses(), ["active", "suspended"]);
    adjusted(5, "chargeback");
    assert_eq!(statuses(), ["suspended", "suspended"]);
    adjusted(6, "chargeback_reverse");
    assert_eq!(statuses(), ["active", "suspended"]);
    // Fewer are sold of what is paused.
    shop.tell(sale, ShopEvent::Changed(SMALL, 2, 30), 7);
    assert_eq!(statuses(), ["active", "active"]);
    shop.tell(sale, ShopEvent::Paused(SMALL, 30), 8);
    shop.tell(sale, ShopEvent::Changed(SMALL, 1, 30), 9);
    assert_eq!(statuses(), ["active", "suspended"]);
    shop.tell(sale, ShopEvent::Changed(SMALL, 2, 30), 10);
    assert_eq!(statuses(), ["active", "active"]);
}

#[test]
fn what_others_change_of_a_copy_that_is_not_sold_anymore_does_not_bring_it_back_or_hold_it() {
    let shop = Shop::of(with_sellers(""));
    let statuses = |number: usize| -> Vec<String> {
        let all = shop.terms_after(2 * number).into_iter();
        all.take(2).map(|terms| terms.0).collect()
    };
    let run = |arguments: &[&str]| countersign(&shop.instance).args(arguments).output().unwrap();
    for (number, verb, after_verb, sold_again) in [
        (0, &["renew", "--expires", "2098-12-31"][..], "suspended", "active"),
        (1, &["suspend"], "suspended", "suspended"),
        // A person lifts nothing that the shop suspends.
        (2, &["resume"], "suspended", "active"),
    ] {
        let sale = ShopSale::new(Seller::Paddle, number as u32);
        shop.tell(sale, ShopEvent::Sold(SMALL, 2, 30), 1);
        shop.tell(sale, ShopEvent::Changed(SMALL, 1, 30), 2);
        assert_eq!(statuses(number), ["active", "suspended"]);
        let id = shop.licenses()[2 * number + 1].line["license"]
            .as_str()
            .unwrap()
            .to_owned();
        let output = run(&[&["license", verb[0], &id], &verb[1..]].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.success(), verb[0] != "resume", "{verb:?}: {said}");
        assert_eq!(
            said.contains("it works again when the shop says so"),
            verb[0] == "resume",
            "{said}"
        );
        assert_eq!(statuses(number), ["active", after_verb], "{verb:?}");
        // The shop sends the same number again, and then a larger one.
        shop.tell(sale, ShopEvent::Changed(SMALL, 1, 30), 3);
        assert_eq!(statuses(number), ["active", "suspended"], "{verb:?}");
        shop.tell(sale, ShopEvent::Changed(SMALL, 2, 30), 4);
        assert_eq!(statuses(number), ["active", sold_again], "{verb:?}");
    }
}

#[test]
fn of_two_words_of_one_second_the_more_generous_counts() {
    let shop = Shop::of(with_sellers(""));
    let sale = ShopSale::new(Seller::LemonSqueezy, 1);
    shop.tell(sale, ShopEvent::Sold(SMALL, 1, 30), 1);
    shop.tell(sale, ShopEvent::Paused(SMALL, 30), 2);
    assert_eq!(shop.terms_after(0), [terms("suspended", SMALL, 30)]);
    shop.tell(sale, ShopEvent::Paid(SMALL, 30, 60), 2);
    assert_eq!(shop.terms_after(0), [terms("active", SMALL, 60)]);
    // A renewal of WooCommerce passes through on-hold within a second, and the two may arrive in any order.
    let sale = ShopSale::new(Seller::WooCommerce, 1);
    shop.tell(sale, ShopEvent::Sold(SMALL, 1, 30), 1);
    shop.tell(sale, ShopEvent::Paid(SMALL, 30, 60), 2);
    shop.tell(sale, ShopEvent::Paused(SMALL, 60), 2);
    assert_eq!(shop.terms_after(1), [terms("active", SMALL, 60)]);
}

#[test]
fn what_the_vendor_suspends_stays_suspended_whatever_is_paid() {
    let shop = Shop::of(with_sellers(""));
    for (known, seller) in SELLERS.into_iter().enumerate() {
        let sale = ShopSale::new(seller, 1);
        shop.tell(sale, ShopEvent::Sold(SMALL, 1, 30), 1);
        let id = shop.licenses()[known].line["license"].as_str().unwrap().to_owned();
        let suspended = countersign(&shop.instance)
            .args(["license", "suspend", &id])
            .output()
            .unwrap();
        assert!(
            suspended.status.success(),
            "{}",
            String::from_utf8_lossy(&suspended.stderr)
        );
        for (second, event) in [
            (2, ShopEvent::Paid(SMALL, 30, 60)),
            (3, ShopEvent::Paused(SMALL, 60)),
            (4, ShopEvent::Changed(LARGE, 1, 60)),
            (5, ShopEvent::Paid(LARGE, 60, 90)),
        ] {
            shop.tell(sale, event, second);
            let found = &shop.terms_after(known)[0];
            assert_eq!(found.0, "suspended", "{seller:?} {event:?}");
        }
        assert_eq!(shop.terms_after(known), [terms("suspended", LARGE, 90)], "{seller:?}");
        let resumed = countersign(&shop.instance).args(["license", "resume", &id]).status();
        assert!(resumed.unwrap().success());
        assert_eq!(shop.terms_after(known), [terms("active", LARGE, 90)], "{seller:?}");
    }
}

#[test]
fn a_sale_follows_its_license_to_a_new_key() {
    let shop = Shop::of(with_sellers(""));
    let sale = ShopSale::new(Seller::Stripe, 1);
    shop.tell(sale, ShopEvent::Sold(SMALL, 1, 30), 1);
    let id = shop.licenses()[0].line["license"].as_str().unwrap().to_owned();
    let mut command = countersign(&shop.instance);
    let rekeyed = command.args(["license", "rekey", &id]).output().unwrap();
    assert!(rekeyed.status.success(), "{}", String::from_utf8_lossy(&rekeyed.stderr));
    for (second, event, expected) in [
        (2, ShopEvent::Paid(SMALL, 30, 60), terms("active", SMALL, 60)),
        (3, ShopEvent::Changed(LARGE, 1, 60), terms("active", LARGE, 60)),
        (4, ShopEvent::Paused(LARGE, 60), terms("suspended", LARGE, 60)),
        (5, ShopEvent::Paid(LARGE, 60, 90), terms("active", LARGE, 90)),
        (6, ShopEvent::Refunded(5), terms("active", LARGE, 60)),
    ] {
        shop.tell(sale, event, second);
        let old = terms("revoked", SMALL, 30);
        assert_eq!(shop.terms_after(0), [old, expected], "{event:?}");
    }
}

#[test]
fn hostile_calls_to_every_shop_change_nothing() {
    let shop = Shop::of(with_sellers(""));
    let now = Utc::now().timestamp();
    let mut calls = 0;
    for seller in SELLERS {
        let body = ShopSale::new(seller, 1)
            .bodies(ShopEvent::Sold(SMALL, 1, 30), 1)
            .remove(0);
        let secret = seller.secret();
        let right = seller.signature(&secret, now, &body);
        let mac = seller.mac(&secret, now, &body);
        let header = seller.header();
        let large = format!("{body}{}", " ".repeat(1 << 20));
        let signed_large = seller.signature(&secret, now, &large);
        let mut hostile: Vec<(&str, String, &str)> = vec![
            (header, String::new(), &body),
            (header, seller.signature("whsec_of_nobody", now, &body), &body),
            (header, seller.signature(&secret, now, ""), &body),
            (header, right[..right.len() - 2].to_owned(), &body),
            (header, format!("sha256={mac}"), &body),
            (header, "alg=none".to_owned(), &body),
            (header, right.clone(), &body[..body.len() - 1]),
            (header, right.clone(), ""),
            (header, signed_large, &large),
            ("X-Other-Signature", right.clone(), &body),
        ];
        for other in SELLERS.into_iter().filter(|other| *other != seller) {
            // With its own secret and header, and with this shop's secret in that shop's form.
            hostile.push((other.header(), other.signature(&other.secret(), now, &body), &body));
            hostile.push((other.header(), other.signature(&secret, now, &body), &body));
        }
        let at = |time: i64| seller.signature(&secret, time, &body);
        match seller {
            Seller::Stripe => {
                for value in [
                    at(now - 310),
                    at(now + 310),
                    format!("t={},{right}", now - 5),
                    format!("{right},t={}", now + 5),
                    format!("t={now},v0={mac}"),
                    format!("t={now},none={mac}"),
                    format!("v1={mac}"),
                    format!("t={now}"),
                    format!("t=now,v1={mac}"),
                    format!("t={},v1={mac}", now - 1),
                ] {
                    hostile.push((header, value, &body));
                }
            }
            Seller::Paddle => {
                for value in [
                    at(now - 70),
                    at(now + 70),
                    format!("ts={};{right}", now - 5),
                    format!("{right};ts={}", now + 5),
                    format!("ts={now};h2={mac}"),
                    format!("h1={mac}"),
                    format!("ts={now}"),
                    format!("ts={};h1={mac}", now - 1),
                ] {
                    hostile.push((header, value, &body));
                }
            }
            _ => {}
        }
        let unsigned = seller.send(&shop.server, &[], &body);
        assert_eq!(unsigned.status, 401, "{seller:?}");
        calls += 1;
        for (name, value, sent) in &hostile {
            let answer = seller.send(&shop.server, &[(name, value)], sent);
            let expected = if sent.len() > 1 << 20 { 413 } else { 401 };
            assert_eq!(answer.status, expected, "{seller:?} {name}: {value}");
            assert!(!answer.text().contains("CANARY"));
            calls += 1;
        }
    }
    assert!(calls >= 40, "{calls}");
    assert_eq!(shop.deliveries("waiting"), [""; 0]);
    assert_eq!(shop.deliveries("parked"), [""; 0]);
    assert!(shop.licenses().is_empty());
    assert!(!shop.server.log().contains("CANARY"));

    // What is right is taken, and taken once.
    for (known, seller) in SELLERS.into_iter().enumerate() {
        let sale = ShopSale::new(seller, 1);
        let body = sale.bodies(ShopEvent::Sold(SMALL, 1, 30), 1).remove(0);
        let right = seller.signature(&seller.secret(), Utc::now().timestamp(), &body);
        for _ in 0..3 {
            assert_eq!(
                seller.send(&shop.server, &[(seller.header(), &right)], &body).status,
                200
            );
            shop.settle();
        }
        assert_eq!(shop.licenses().len(), known + 1, "{seller:?}");
    }
}
