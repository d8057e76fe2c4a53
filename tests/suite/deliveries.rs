//! What deliveries of a shop do: licenses follow the state of their sale, whatever comes, however often, in any order.

use std::fs;
use std::path::PathBuf;

use chrono::{Days, Utc};
use countersign_files::spool::Spool;
use countersign_model::issued_license::IssueOrigin;
use countersign_model::issuing_key::IssuingKey;
use serde_json::{Value, json};

use crate::support::server::countersign;
use crate::support::shop::{BUYER, add_shop, deliver, deliver_text, invoice};
use crate::support::{Instance, Server, eventually};

pub struct Shop {
    pub instance: Instance,
    pub server: Server,
}

/// A license of the ledger, as its last line says.
pub struct Issued {
    pub key: String,
    pub line: Value,
}

impl Shop {
    pub fn open() -> Self {
        let instance = Instance::new();
        add_shop(&instance);
        Self::of(instance)
    }

    pub fn of(instance: Instance) -> Self {
        let server = Server::start(&instance);
        Self { instance, server }
    }

    pub fn deliver(&self, kind: &str, second: i64, object: &Value) {
        assert_eq!(
            deliver(&self.server, kind, second, object),
            200,
            "{}",
            self.server.log()
        );
    }

    /// Waits until every delivery is applied or parked.
    pub fn settle(&self) {
        eventually("every delivery is applied", || none_waits(&self.instance));
    }

    /// Waits until all is applied, except changes of sales that are not issued yet.
    pub fn settle_but_what_waits(&self) {
        eventually("every delivery is applied or waits", || {
            self.deliveries("waiting")
                .iter()
                .all(|delivery| delivery["waits_for"] == "renewed_license")
        });
    }

    /// The deliveries in this state, as their files say.
    pub fn deliveries(&self, state: &str) -> Vec<Value> {
        deliveries(&self.instance, state)
    }

    /// The licenses of the ledger in the order of their first lines.
    pub fn licenses(&self) -> Vec<Issued> {
        let secret: [u8; 32] = fs::read(self.instance.file("keys/issuing.key"))
            .unwrap()
            .try_into()
            .unwrap();
        let secret = IssuingKey::new(&secret);
        let ledger = fs::read_to_string(self.instance.file("store/ledger.jsonl")).unwrap();
        let mut found: Vec<Issued> = Vec::new();
        for line in ledger.lines().filter(|line| line.starts_with("{\"event\":\"license\"")) {
            let line: Value = serde_json::from_str(line).unwrap();
            if let Some(known) = found.iter_mut().find(|known| known.line["license"] == line["license"]) {
                known.line = line;
                continue;
            }
            let part = |name: &str| line["origin"][name].as_str().unwrap().parse().unwrap();
            let origin = IssueOrigin {
                body: part("body"),
                key: part("key"),
                salt: part("salt"),
                scope: std::sync::Arc::new(line["origin"]["scope"].as_str().unwrap().parse().unwrap()),
                secret: secret.number(),
                issued: chrono::DateTime::UNIX_EPOCH,
            };
            let key = secret.license_key(&origin).reveal().to_owned();
            found.push(Issued { key, line });
        }
        found
    }

    /// Waits until the server uses the registry as it is now.
    fn wait_for_registry(&self) {
        let waited = countersign(&self.instance).arg("wait").output().unwrap();
        assert!(waited.status.success(), "{waited:?}");
    }

    /// Waits for what the log says of a parked delivery, once it is durably parked.
    pub fn log_says(&self, words: &str) {
        eventually(words, || self.server.log().contains(words));
    }

    /// What the log says that deliveries of the shop did to a license.
    fn logged_of(&self, license: &Issued) -> Vec<&'static str> {
        let tag = &license.line["license"].as_str().unwrap()[..12];
        let log = self.server.log();
        let of_license = log
            .lines()
            .filter(|line| line.contains(tag) && line.contains("shop=\"stripe\"") && line.contains("INFO"));
        let words = ["issued", "suspended", "resumed", "revoked"];
        let word = |line: &str| words.into_iter().find(|word| line.contains(&format!(" {word} ")));
        of_license.map(|line| word(line).unwrap_or("?")).collect()
    }

    fn code(&self, license: &Issued, site: &str) -> String {
        self.server
            .ask(&json!({ "license_key": license.key, "site_url": site }))
            .code()
    }

    fn parked(&self, arguments: &[&str]) -> Value {
        let all = [&["shop", "parked"][..], arguments, &["--json"]].concat();
        let output = countersign(&self.instance).args(all).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// The deliveries in this state, as their files say.
fn deliveries(instance: &Instance, state: &str) -> Vec<Value> {
    // One that is gone was applied meanwhile, and one that is damaged has no state.
    let texts = delivery_files(instance)
        .into_iter()
        .filter_map(|path| fs::read_to_string(path).ok());
    // The body is behind the first line.
    let all = texts.filter_map(|text| serde_json::from_str::<Value>(text.lines().next()?).ok());
    all.filter(|delivery| delivery["state"] == state).collect()
}

/// Whether every delivery is applied or parked.
pub fn none_waits(instance: &Instance) -> bool {
    deliveries(instance, "waiting").is_empty()
}

/// The files of all deliveries.
pub fn delivery_files(instance: &Instance) -> Vec<PathBuf> {
    let entries = fs::read_dir(instance.file("store/deliveries")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "delivery"))
        .collect()
}

/// The subscription, as it is now.
fn subscription(price: &str, quantity: u32) -> Value {
    json!({ "id": "sub_1", "status": "active", "items": { "data": [{ "id": "si_1", "price": { "id": price }, "quantity": quantity }] } })
}

/// All of a payment went back.
fn refund(charge: &str, payment: &str) -> Value {
    json!({ "id": charge, "payment_intent": payment, "amount": 1_900, "amount_refunded": 1_900, "refunded": true })
}

/// The day that many days from now.
pub fn day(days: u64) -> String {
    Utc::now()
        .checked_add_days(Days::new(days))
        .unwrap()
        .date_naive()
        .to_string()
}

#[test]
fn a_sale_issues_once_is_renewed_changed_disputed_and_refunded() {
    let shop = Shop::open();
    let first = invoice("in_1", "subscription_create", "price_small", 1, 30);
    for second in [1, 1, 2] {
        shop.deliver("invoice.paid", second, &first);
    }
    shop.settle();
    let licenses = shop.licenses();
    assert_eq!(licenses.len(), 1, "{}", shop.server.log());
    let license = &licenses[0];
    assert_eq!(
        (&license.line["expires"], &license.line["sites"]),
        (&json!(day(30)), &json!(1))
    );
    assert_eq!(shop.code(license, "a.com"), "ok");
    assert_eq!(shop.code(license, "b.com"), "bound_elsewhere");

    shop.deliver(
        "invoice.paid",
        10,
        &invoice("in_2", "subscription_cycle", "price_small", 1, 60),
    );
    shop.deliver("customer.subscription.updated", 12, &subscription("price_large", 1));
    // What is older than the last change of the subscription changes nothing.
    shop.settle();
    shop.deliver("customer.subscription.updated", 11, &subscription("price_small", 1));
    shop.settle();
    let line = &shop.licenses()[0].line;
    assert_eq!(
        (&line["expires"], &line["sites"]),
        (&json!(day(60)), &json!(5)),
        "a change moves no end"
    );
    assert_eq!(line["modules"], json!({ "forms": [], "maps": [] }));
    assert_eq!(shop.code(license, "b.com"), "ok");

    // One more, and one less again.
    shop.deliver("customer.subscription.updated", 13, &subscription("price_large", 2));
    shop.settle();
    let two = shop.licenses();
    assert_eq!((two.len(), &two[1].line["expires"]), (2, &json!(day(60))));
    shop.deliver("customer.subscription.updated", 14, &subscription("price_large", 1));
    shop.settle();
    assert_eq!(shop.code(&two[1], "c.com"), "suspended");
    assert_eq!(shop.code(license, "a.com"), "ok");

    // The payment is joined to its invoice only now, and is disputed, won, and refunded at last.
    let payment = json!({ "invoice": "in_2", "payment": { "payment_intent": "pi_2" } });
    shop.deliver("invoice_payment.paid", 15, &payment);
    shop.settle();
    shop.deliver(
        "charge.dispute.created",
        20,
        &json!({ "id": "du_2", "payment_intent": "pi_2", "status": "needs_response" }),
    );
    shop.settle();
    // The first period is paid all the same.
    let end = |shop: &Shop| shop.licenses()[0].line["expires"].clone();
    assert_eq!(
        (shop.code(license, "a.com"), end(&shop)),
        ("ok".to_owned(), json!(day(30)))
    );
    shop.deliver(
        "charge.dispute.closed",
        30,
        &json!({ "id": "du_2", "payment_intent": "pi_2", "status": "won" }),
    );
    shop.settle();
    assert_eq!(
        (shop.code(license, "a.com"), end(&shop)),
        ("ok".to_owned(), json!(day(60)))
    );
    shop.deliver("charge.refunded", 40, &refund("ch_2", "pi_2"));
    shop.deliver(
        "invoice_payment.paid",
        41,
        &json!({ "invoice": "in_1", "payment": { "payment_intent": "pi_1" } }),
    );
    shop.deliver("charge.refunded", 42, &refund("ch_1", "pi_1"));
    // The shop delivers an older event late.
    shop.deliver(
        "charge.dispute.closed",
        31,
        &json!({ "id": "du_2", "payment_intent": "pi_2", "status": "won" }),
    );
    shop.settle();
    assert_eq!(shop.code(license, "a.com"), "suspended");
    assert_eq!(shop.licenses().len(), 2);

    let verified = countersign(&shop.instance)
        .args(["bindings", "verify"])
        .output()
        .unwrap();
    assert!(
        verified.status.success(),
        "{}",
        String::from_utf8_lossy(&verified.stderr)
    );
    assert_eq!(
        shop.licenses()
            .iter()
            .map(|license| shop.logged_of(license))
            .collect::<Vec<_>>(),
        [&["issued", "suspended"][..], &["issued", "suspended"]],
        "{}",
        shop.server.log()
    );
    for personal in ["CANARY", "sub_1", "si_1", "pi_2", "price_", "in_1", "in_2"] {
        assert!(
            !shop.server.log().contains(personal),
            "{personal}: {}",
            shop.server.log()
        );
    }
    let ledger = fs::read_to_string(shop.instance.file("store/ledger.jsonl")).unwrap();
    assert!(
        !["CANARY", "sub_1", "si_1", "pi_2", "in_1"]
            .iter()
            .any(|personal| ledger.contains(personal))
    );
}

#[test]
fn deliveries_in_any_order_end_in_the_same_licenses() {
    let refunded = refund("ch_2", "pi_2");
    let payment = json!({ "invoice": "in_2", "payment": { "payment_intent": "pi_2" } });
    let sold = invoice("in_1", "subscription_create", "price_small", 2, 30);
    let renewed = invoice("in_2", "subscription_cycle", "price_large", 2, 60);
    let larger = subscription("price_large", 2);
    let events = [
        ("invoice.paid", 1, &sold),
        ("invoice_payment.paid", 2, &payment),
        ("customer.subscription.updated", 3, &larger),
        ("invoice.paid", 4, &renewed),
        ("charge.refunded", 5, &refunded),
    ];
    let forwards = [0, 1, 2, 3, 4];
    for order in [
        forwards,
        [4, 3, 2, 1, 0],
        [2, 0, 3, 1, 4],
        [3, 1, 0, 4, 2],
        [2, 4, 1, 3, 0],
    ] {
        for is_refunded in [false, true] {
            let shop = Shop::open();
            for number in order.into_iter().filter(|number| is_refunded || *number < 4) {
                let (kind, second, object) = events[number];
                shop.deliver(kind, second, object);
                shop.settle_but_what_waits();
            }
            shop.settle();
            let end = if is_refunded { 30 } else { 60 };
            let expected = json!(["active", 5, { "forms": [], "maps": [] }, day(end)]);
            let licenses = shop.licenses();
            let lines = licenses.iter().map(|license| &license.line);
            let terms: Vec<_> = lines
                .map(|line| json!([line["status"], line["sites"], line["modules"], line["expires"]]))
                .collect();
            assert_eq!(terms, [expected.clone(), expected], "{order:?} {is_refunded}");
            assert_eq!(shop.deliveries("parked"), [""; 0]);
        }
    }
}

/// The mails of the queue: the address and the licenses of each.
pub fn mails(shop: &Shop) -> Vec<(String, Vec<String>)> {
    let entries = fs::read_dir(shop.instance.file("store/mail")).unwrap();
    let files = entries.map(|entry| entry.unwrap().path());
    let texts = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .map(|path| fs::read_to_string(path).unwrap());
    let mails = texts.map(|text| serde_json::from_str::<Value>(&text).unwrap());
    mails
        .map(|mail| {
            let licenses = serde_json::from_value(mail["licenses"].clone()).unwrap();
            (mail["address"].as_str().unwrap().to_owned(), licenses)
        })
        .collect()
}

#[test]
fn a_sale_of_many_licenses_mails_every_key() {
    for (count, expected) in [(3, 1), (100, 1), (101, 2), (250, 3)] {
        let instance = Instance::new();
        add_shop(&instance);
        // Nobody answers there, so the mails wait.
        let mail = "[mail]\nserver = '127.0.0.1'\nport = 1\ntls = 'none'\nfrom = 'licenses@acme.example'\n";
        instance.write("countersign.toml", &format!("[shops.stripe]\n{mail}"));
        let shop = Shop::of(instance);
        shop.deliver(
            "invoice.paid",
            1,
            &invoice("in_1", "subscription_create", "price_small", count, 30),
        );
        shop.settle();
        let mails: Vec<_> = mails(&shop).into_iter().map(|(_, licenses)| licenses).collect();
        assert_eq!(mails.len(), expected, "{count}");
        assert!(mails.iter().all(|licenses| licenses.len() <= 100));
        let mut mailed = mails.concat();
        let licenses = shop.licenses();
        let mut issued: Vec<_> = licenses
            .iter()
            .map(|license| license.line["license"].as_str().unwrap())
            .collect();
        mailed.sort_unstable();
        issued.sort_unstable();
        assert_eq!(
            (mailed.len(), mailed),
            (count as usize, issued.iter().map(ToString::to_string).collect())
        );
    }
}

#[test]
fn without_a_mail_server_the_log_says_once_that_nobody_got_the_key() {
    let shop = Shop::open();
    for second in [1, 2] {
        shop.deliver(
            "invoice.paid",
            second,
            &invoice("in_1", "subscription_create", "price_small", 1, 30),
        );
        shop.settle();
    }
    let log = shop.server.log();
    assert_eq!(log.matches("nobody was sent the keys").count(), 1, "{log}");
    let license = shop.licenses().remove(0);
    let tag = &license.line["license"].as_str().unwrap()[..12];
    assert!(log.contains(tag) && !log.contains("CANARY"), "{log}");
}

#[test]
fn a_delivery_changes_a_license_of_the_ledger_whatever_a_file_declares() {
    let shop = Shop::open();
    shop.deliver(
        "invoice.paid",
        1,
        &invoice("in_1", "subscription_create", "price_small", 1, 30),
    );
    shop.settle();
    let before = shop.licenses().remove(0);
    let id = before.line["license"].as_str().unwrap();
    let table = format!("[[license]]\nid = \"{id}\"\nexpires = 2099-12-31\n[license.modules]\nforms = []\n");
    shop.instance.write_licenses(&[table]);
    shop.wait_for_registry();
    let ask = json!({ "license_key": before.key, "site_url": "a.com" });
    let expires = || shop.server.ask(&ask).json()["expires"].clone();
    assert_eq!(expires(), before.line["expires"]);
    shop.deliver(
        "invoice.paid",
        2,
        &invoice("in_2", "subscription_cycle", "price_small", 1, 60),
    );
    shop.settle();
    assert_eq!(shop.parked(&["list"]), json!([]));
    let after = shop.licenses().remove(0);
    assert_ne!(after.line["expires"], before.line["expires"]);
    assert_eq!(expires(), after.line["expires"]);
}

#[test]
fn a_session_is_parked_with_what_is_wrong_with_the_offer_that_it_names() {
    let shop = Shop::open();
    let offer = "shop = 'stripe'\nmode = 'test'\nprices = ['price_test']\nperiod = '1y'\nmodules.forms = []\n";
    shop.instance.write("registry/offers/trial.toml", offer);
    shop.wait_for_registry();
    let cases = [
        (
            json!({}),
            "a session has no lines: write offer = \"NAME\" into the metadata of the payment link",
        ),
        (
            json!({ "offer": "maps" }),
            "line 1 of the sale: the sale names the offer \"maps\", and there is no registry/offers/maps.toml",
        ),
        (
            json!({ "offer": "trial" }),
            "line 1 of the sale: the sale names the offer \"trial\", which is for test sales; this is a live sale",
        ),
        (
            json!({ "offer": BUYER }),
            "line 1 of the sale: the sale names an offer by what is no name",
        ),
    ];
    for (number, (metadata, expected)) in cases.into_iter().enumerate() {
        let session =
            json!({ "id": format!("cs_{number}"), "mode": "payment", "payment_status": "paid", "metadata": metadata });
        shop.deliver("checkout.session.completed", number as i64, &session);
        shop.settle();
        let listed = shop.parked(&["list"]);
        let reasons: Vec<_> = listed
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["reason"].as_str().unwrap())
            .collect();
        assert!(
            reasons.len() == number + 1 && reasons.iter().any(|reason| reason.starts_with(expected)),
            "{expected}: {reasons:?}"
        );
        shop.log_says(expected);
    }
    assert!(!shop.server.log().contains(BUYER), "{}", shop.server.log());
    assert!(shop.licenses().is_empty());
}

#[test]
fn what_fits_no_offer_is_parked_and_applied_once_there_is_one() {
    let shop = Shop::open();
    shop.deliver(
        "invoice.paid",
        1,
        &invoice("in_1", "subscription_create", "price_new", 1, 30),
    );
    assert_eq!(deliver_text(&shop.server, "{\"no\":\"event of Stripe\"}"), 200);
    shop.deliver("invoice.created", 2, &json!({ "id": "in_9" }));
    shop.settle();
    let listed = shop.parked(&["list"]);
    let listed = listed.as_array().unwrap();
    assert_eq!(listed.len(), 2, "{listed:?}");
    let of_sale = listed.iter().find(|parked| parked["event"] == "invoice.paid").unwrap();
    let reason = "line 1 of the sale: no offer of this shop and mode is for this product or price";
    assert_eq!(
        (&of_sale["reason"], &of_sale["shop"]),
        (&json!(reason), &json!("stripe"))
    );
    shop.log_says(reason);
    assert!(shop.licenses().is_empty());

    let offer = "shop = 'stripe'\nprices = ['price_new']\nperiod = '1y'\nmodules.forms = []\n";
    shop.instance.write("registry/offers/new.toml", offer);
    shop.wait_for_registry();
    let name = of_sale["id"].as_str().unwrap();
    let retry = countersign(&shop.instance)
        .args(["shop", "parked", "retry", &name[..8], "--json"])
        .output()
        .unwrap();
    if retry.status.success() {
        let said: Value = serde_json::from_slice(&retry.stdout).unwrap();
        assert_eq!(said["retried"], json!([name]));
    } else {
        // The server tries again by itself, too, and may be faster.
        let said = String::from_utf8_lossy(&retry.stderr);
        assert!(said.contains("no such delivery waits or is parked"), "{said}");
    }
    shop.settle();
    eventually("it is applied", || shop.licenses().len() == 1);
    let doctor = countersign(&shop.instance).arg("doctor").output().unwrap();
    let stdout = String::from_utf8(doctor.stdout).unwrap();
    assert!(
        stdout.contains(" and 1 license, the ledger's chain is whole"),
        "{stdout}"
    );
    assert!(stdout.contains("0 licenses in files"), "{stdout}");
    assert!(shop.server.log().contains("licenses_in_ledger=0"));
    assert_eq!(shop.parked(&["drop", "--all"])["dropped"].as_array().unwrap().len(), 1);
    assert_eq!(shop.parked(&["list"]), json!([]));
}

#[test]
fn a_renewal_of_a_subscription_that_nobody_knows_is_parked_until_a_person_says_that_it_is_a_sale() {
    let shop = Shop::open();
    shop.deliver(
        "invoice.paid",
        1,
        &invoice("in_7", "subscription_cycle", "price_small", 1, 30),
    );
    eventually("it waits for the first payment", || {
        let waiting = shop.deliveries("waiting");
        waiting.len() == 1 && waiting[0]["waits_for"] == "renewed_license"
    });
    // An hour later.
    let mut delivery = shop.deliveries("waiting").remove(0);
    let name = format!("store/deliveries/{}.delivery", delivery["id"].as_str().unwrap());
    let whole = fs::read_to_string(shop.instance.file(&name)).unwrap();
    let (_, body) = whole.split_once('\n').unwrap();
    delivery["queued"] = json!((Utc::now() - chrono::TimeDelta::hours(2)).to_rfc3339());
    let new = shop.instance.file("older-delivery");
    fs::write(&new, format!("{delivery}\n{body}")).unwrap();
    fs::rename(&new, shop.instance.file(&name)).unwrap();
    shop.settle();
    assert!(shop.licenses().is_empty());
    let listed = shop.parked(&["list"]);
    let reason = listed[0]["reason"].as_str().unwrap();
    assert!(reason.contains("a subscription that nobody here knows"), "{reason}");
    assert_eq!(listed[0]["subscription"], "sub_1");
    let table = countersign(&shop.instance)
        .args(["shop", "parked", "list"])
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&table.stdout).contains("invoice.paid of sub_1"));
    let id = listed[0]["id"].as_str().unwrap();
    assert_eq!(shop.parked(&["retry", "--all"])["retried"], json!([id]));
    shop.settle();
    assert_eq!(
        shop.parked(&["list"])[0]["id"],
        json!(id),
        "a retry issues nothing by itself"
    );
    assert!(shop.licenses().is_empty());
    assert_eq!(shop.parked(&["retry", id, "--issue"])["retried"], json!([id]));
    shop.settle();
    assert_eq!(shop.licenses().len(), 1, "{}", shop.server.log());
    assert_eq!(shop.parked(&["list"]), json!([]));
}

#[test]
fn an_order_with_a_line_that_no_offer_is_for_grants_the_others_and_what_was_sold_outlives_its_offer() {
    let shop = Shop::open();
    let mut both = invoice("in_1", "subscription_create", "price_small", 1, 30);
    let mut other = both["lines"]["data"][0].clone();
    other["pricing"]["price_details"]["price"] = json!("price_support");
    other["parent"]["subscription_item_details"]["subscription_item"] = json!("si_2");
    both["lines"]["data"].as_array_mut().unwrap().push(other);
    shop.deliver("invoice.paid", 1, &both);
    shop.settle();
    assert_eq!(shop.parked(&["list"]), json!([]));
    let first = shop.licenses();
    assert_eq!((first.len(), &first[0].line["expires"]), (1, &json!(day(30))));

    // The vendor sells it no more. The customer goes on paying.
    fs::remove_file(shop.instance.file("registry/offers/small.toml")).unwrap();
    shop.wait_for_registry();
    let renewed = invoice("in_2", "subscription_cycle", "price_small", 1, 60);
    shop.deliver("invoice.paid", 2, &renewed);
    shop.settle();
    assert_eq!(shop.parked(&["list"]), json!([]));
    let second = shop.licenses();
    assert_eq!((second.len(), &second[0].line["expires"]), (1, &json!(day(60))));
}

#[test]
fn what_a_person_changed_holds_while_the_shop_says_what_it_said() {
    let shop = Shop::open();
    shop.deliver(
        "invoice.paid",
        1,
        &invoice("in_1", "subscription_create", "price_small", 1, 30),
    );
    shop.settle();
    let license = shop.licenses().remove(0);
    let id = license.line["license"].as_str().unwrap();
    let until = day(45);
    let renewed = countersign(&shop.instance)
        .args(["license", "renew", id, "--expires", &until])
        .output()
        .unwrap();
    assert!(renewed.status.success(), "{}", String::from_utf8_lossy(&renewed.stderr));
    let end = || shop.licenses()[0].line["expires"].clone();
    assert_eq!(end(), json!(until));
    // A card update says nothing of the end.
    shop.deliver("customer.subscription.updated", 2, &subscription("price_small", 1));
    shop.settle();
    assert_eq!(end(), json!(until));
    shop.deliver(
        "invoice.paid",
        3,
        &invoice("in_2", "subscription_cycle", "price_small", 1, 60),
    );
    shop.settle();
    assert_eq!(end(), json!(day(60)), "the shop's end is later");
    // Back to what the shop said then.
    shop.deliver("charge.refunded", 4, &refund("ch_2", "pi_2"));
    let joined = json!({ "invoice": "in_2", "payment": { "payment_intent": "pi_2" } });
    shop.deliver("invoice_payment.paid", 5, &joined);
    shop.settle();
    assert_eq!(end(), json!(until));
}

#[test]
fn a_server_that_is_killed_while_it_applies_issues_nothing_twice() {
    let mut shop = Shop::open();
    for round in 0..5 {
        for number in 0..10 {
            let mut sale = invoice(
                &format!("in_{round}_{number}"),
                "subscription_create",
                "price_small",
                1,
                30,
            );
            sale["parent"]["subscription_details"]["subscription"] = json!(format!("sub_{round}_{number}"));
            shop.deliver("invoice.paid", round * 10 + number, &sale);
        }
        let Shop { instance, server } = shop;
        server.kill();
        let server = Server::start(&instance);
        shop = Shop { instance, server };
    }
    shop.settle();
    let licenses = shop.licenses();
    assert_eq!(licenses.len(), 50);
    for license in &licenses {
        assert_eq!(shop.code(license, "a.com"), "ok");
    }
}

#[test]
fn a_server_that_is_killed_before_a_mail_is_queued_mails_the_key_that_it_issued() {
    let instance = Instance::new();
    add_shop(&instance);
    let mail = "[mail]\nserver = '127.0.0.1'\nport = 1\ntls = 'none'\nfrom = 'licenses@acme.example'\n";
    instance.write("countersign.toml", &format!("[shops.stripe]\n{mail}"));
    let mut shop = Shop::of(instance);
    let sale = invoice("in_1", "subscription_create", "price_small", 2, 30);
    // The disk fails for the queue of mails, after the licenses were issued.
    let queue = shop.instance.file("store/mail");
    let away = shop.instance.file("store/mail-away");
    fs::rename(&queue, &away).unwrap();
    fs::write(&queue, "").unwrap();
    shop.deliver("invoice.paid", 1, &sale);
    eventually("both are issued", || shop.licenses().len() == 2);
    eventually("the log says that deliveries wait", || {
        shop.server.log().contains("deliveries of shops wait")
    });
    let waiting = shop.deliveries("waiting");
    let owed = waiting[0]["owed"].as_array().unwrap();
    assert_eq!((waiting.len(), owed.len()), (1, 2), "{owed:?}");
    let Shop { instance, server } = shop;
    server.kill();
    fs::remove_file(&queue).unwrap();
    fs::rename(&away, &queue).unwrap();
    let server = Server::start(&instance);
    shop = Shop { instance, server };
    shop.settle();
    let licenses = shop.licenses();
    let mut issued: Vec<_> = licenses
        .iter()
        .map(|license| license.line["license"].as_str().unwrap().to_owned())
        .collect();
    let mut mailed = mails(&shop);
    assert_eq!(mailed.len(), 1);
    let (address, mut keys) = mailed.remove(0);
    issued.sort_unstable();
    keys.sort_unstable();
    assert_eq!((address.as_str(), keys), (BUYER, issued));
    // The shop delivers it again.
    shop.deliver("invoice.paid", 1, &sale);
    shop.settle();
    assert_eq!((shop.licenses().len(), mails(&shop).len()), (2, 1));
}

#[test]
fn a_damaged_delivery_and_what_an_older_version_left_stop_no_other() {
    let instance = Instance::new();
    add_shop(&instance);
    let folder = instance.file("store/deliveries");
    let spool = Spool::open(&instance.file("store")).unwrap();
    for body in ["1", "2"] {
        spool
            .put(&"stripe".parse().unwrap(), Utc::now(), body.as_bytes())
            .unwrap();
    }
    let ids = spool.waiting();
    let file = |number: usize| folder.join(format!("{}.delivery", ids[number]));
    fs::write(file(0), "{").unwrap();
    let other_body = fs::read_to_string(file(1)).unwrap() + "3";
    fs::write(file(1), other_body).unwrap();
    let older = folder.join("0".repeat(32));
    fs::write(&older, "{}").unwrap();
    let shop = Shop::of(instance);
    shop.deliver(
        "invoice.paid",
        1,
        &invoice("in_1", "subscription_create", "price_small", 1, 30),
    );
    eventually("the sale is applied", || {
        shop.licenses().len() == 1 && delivery_files(&shop.instance).len() == 2
    });
    let listed = shop.parked(&["list"]);
    let states: Vec<_> = listed.as_array().unwrap().iter().map(|one| &one["state"]).collect();
    assert_eq!(states, ["damaged"; 2], "{listed}");
    let log = shop.server.log();
    assert!(
        log.contains("passed over") && log.contains(".delivery: damaged"),
        "{log}"
    );
    assert_eq!(shop.parked(&["drop", "--all"])["dropped"].as_array().unwrap().len(), 2);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    assert_eq!(fs::read(&older).unwrap(), b"{}");
}
