//! The vendor's verbs for sales: what remains, what waits, and what is granted later.

use serde_json::{Value, json};

use crate::deliveries::{Shop, day};
use crate::support::cli_json::Page;
use crate::support::server::countersign;
use crate::support::shop::invoice;
use crate::support::{Instance, eventually};

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
fn what_no_license_follows_is_listed_once_and_so_is_what_waits() {
    let shop = Shop::open();
    shop.deliver("invoice.paid", 1, &invoice_of_two());
    let payment = json!({ "invoice": "in_1", "payment": { "payment_intent": "pi_1" } });
    shop.deliver("invoice_payment.paid", 3, &payment);
    let part = json!({ "id": "ch_1", "payment_intent": "pi_1", "amount": 3_800, "amount_refunded": 500 });
    shop.deliver("charge.refunded", 4, &part);
    shop.settle();
    let mut unknown = invoice("in_9", "subscription_cycle", "price_small", 1, 60);
    unknown["parent"]["subscription_details"]["subscription"] = json!("sub_9");
    shop.deliver("invoice.paid", 5, &unknown);
    shop.settle_but_what_waits();

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

    let latest = printed(instance, "shop-sales-list", &["shop", "sales", "list"]);
    assert_eq!(latest.as_array().unwrap().len(), 1, "{latest}");
    assert_eq!(latest[0]["licenses"][0]["standing"], "active");
    assert_eq!(latest[0]["licenses"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&latest[0]["order"], &latest[0]["sale"]),
        (&json!("sub_1"), &left("no_offer")["sale"])
    );
    assert!(text(instance, &["shop", "sales", "list"]).contains("sub_1"));

    let waiting = printed(instance, "shop-sales-waiting", &["shop", "sales", "list", "--waiting"]);
    let waits: Vec<_> = waiting
        .as_array()
        .unwrap()
        .iter()
        .map(|wait| &wait["waits_for"])
        .collect();
    assert_eq!(waits, ["offer", "renewed_license"], "{waiting}");
    assert!(waiting[0]["sale"].is_string() && waiting[1]["delivery"].is_string());
    assert!(
        waiting[0]["sold"][0].is_string() && waiting[1]["sold"][0].is_string(),
        "{waiting}"
    );
    let one = ["shop", "sales", "list", "--waiting", "--limit", "1"];
    assert_eq!(
        printed(instance, "shop-sales-waiting", &one).as_array().unwrap().len(),
        1
    );
    let table = text(instance, &["shop", "sales", "list", "--waiting"]);
    assert!(
        table.contains("license that it renews") && table.contains(" min"),
        "{table}"
    );
}

/// Changes the offer of `price_small`, and waits until the server has it in force.
fn edit_small(shop: &Shop, more: &str) {
    let text = format!("shop = 'stripe'\nprices = ['price_small']\nperiod = '1y'\nmodules.forms = []\n{more}");
    shop.instance.write("registry/offers/small.toml", &text);
}

/// What `shop regrant small` prints once the server has the offer in force.
fn regrant(shop: &Shop, arguments: &[&str]) -> Value {
    let all = [&["shop", "regrant", "small", "--json"], arguments].concat();
    let mut printed = Value::Null;
    eventually("the offer is in force", || {
        let output = countersign(&shop.instance).args(&all).output().unwrap();
        if output.status.success() {
            printed = serde_json::from_slice(&output.stdout).unwrap();
        }
        output.status.success()
    });
    Page::read().check("shop-regrant", &printed);
    printed
}

#[test]
fn what_was_sold_gets_the_terms_of_today_only_when_a_person_says_so() {
    let shop = Shop::open();
    shop.deliver(
        "invoice.paid",
        1,
        &invoice("in_1", "subscription_create", "price_small", 1, 30),
    );
    let mut other = invoice("in_2", "subscription_create", "price_small", 1, 30);
    other["parent"]["subscription_details"]["subscription"] = json!("sub_2");
    shop.deliver("invoice.paid", 2, &other);
    let mut large = invoice("in_3", "subscription_create", "price_large", 1, 30);
    large["parent"]["subscription_details"]["subscription"] = json!("sub_3");
    shop.deliver("invoice.paid", 3, &large);
    shop.settle();
    let ids: Vec<_> = shop
        .licenses()
        .iter()
        .map(|issued| issued.line["license"].clone())
        .collect();
    assert_eq!(ids.len(), 3);
    let sites = |shop: &Shop| -> Vec<Value> {
        shop.licenses()
            .iter()
            .map(|issued| issued.line["sites"].clone())
            .collect()
    };
    let small = |sites: Vec<Value>| -> Vec<Value> { sites.into_iter().filter(|sites| *sites != json!(5)).collect() };
    // A person gave one of them more time.
    let id = shop
        .licenses()
        .iter()
        .find(|issued| issued.line["sites"] == json!(1))
        .map(|issued| issued.line["license"].as_str().unwrap().to_owned())
        .unwrap();
    text(&shop.instance, &["license", "renew", &id, "--expires", "2090-12-31"]);

    edit_small(&shop, "sites = 3\nmodules.maps = []\n");
    let planned = regrant(&shop, &["--dry-run"]);
    assert_eq!((&planned["changed"], &planned["dry_run"]), (&json!(2), &json!(true)));
    assert_eq!(planned["licenses"][0]["before"]["sites"], json!(1));
    assert_eq!(planned["licenses"][0]["after"]["sites"], json!(3));
    assert_eq!(small(sites(&shop)), [json!(1), json!(1)], "nothing is changed");
    let doctor = countersign(&shop.instance).arg("doctor").output().unwrap();
    let doctor = String::from_utf8(doctor.stdout).unwrap();
    assert!(
        doctor.contains("have today: 2; `countersign shop regrant small --dry-run`"),
        "{doctor}"
    );
    // The next delivery keeps what was sold.
    shop.deliver(
        "invoice.paid",
        4,
        &invoice("in_4", "subscription_cycle", "price_small", 1, 60),
    );
    shop.settle();
    assert_eq!(small(sites(&shop)), [json!(1), json!(1)]);

    assert_eq!(regrant(&shop, &[])["changed"], json!(2));
    assert_eq!(small(sites(&shop)), [json!(3), json!(3)]);
    let changed = shop.licenses();
    let changed = changed
        .iter()
        .find(|issued| issued.line["license"] == json!(id))
        .unwrap();
    assert_eq!(changed.line["scope"], "operator:cli");
    assert!(changed.line["who"].is_string(), "{}", changed.line);
    assert_eq!(changed.line["expires"], "2090-12-31");
    assert_eq!(changed.line["modules"], json!({ "forms": [], "maps": [] }));
    assert_eq!(regrant(&shop, &[])["changed"], json!(0));
    // What was bought later has it, too, and a delivery changes nothing of it.
    shop.deliver(
        "invoice.paid",
        5,
        &invoice("in_5", "subscription_cycle", "price_small", 1, 90),
    );
    shop.settle();
    assert_eq!(small(sites(&shop)), [json!(3), json!(3)]);
    let table = text(&shop.instance, &["shop", "regrant", "small"]);
    assert!(table.contains("terms of today"), "{table}");

    // Without a server the command does it itself.
    let instance = shop.instance;
    drop(shop.server);
    instance.write(
        "registry/offers/small.toml",
        "shop = 'stripe'\nprices = ['price_small']\nperiod = '1y'\nsites = 7\nmodules.forms = []\n",
    );
    let table = text(&instance, &["shop", "regrant", "small", "--dry-run"]);
    assert!(
        table.contains("2 licenses would change.") && table.contains("7 sites"),
        "{table}"
    );
    let table = text(&instance, &["shop", "regrant", "small"]);
    assert!(table.contains("2 licenses changed."), "{table}");
    let verified = countersign(&instance).args(["bindings", "verify"]).output().unwrap();
    assert!(
        verified.status.success(),
        "{}",
        String::from_utf8_lossy(&verified.stderr)
    );
}

#[test]
fn an_offer_that_is_added_later_grants_what_was_sold_before() {
    let shop = Shop::open();
    shop.deliver("invoice.paid", 1, &invoice_of_two());
    let mut unsold = invoice("in_7", "subscription_create", "price_maps", 1, 30);
    unsold["parent"]["subscription_details"]["subscription"] = json!("sub_7");
    shop.deliver("invoice.paid", 2, &unsold);
    shop.settle();
    assert_eq!((shop.licenses().len(), shop.deliveries("parked").len()), (1, 1));
    shop.instance.write(
        "registry/offers/maps.toml",
        "shop = 'stripe'\nprices = ['price_maps']\nperiod = '1y'\nsites = 2\nmodules.maps = []\n",
    );
    eventually("both are granted", || shop.licenses().len() == 3);
    let licenses = shop.licenses();
    let of_maps = licenses
        .iter()
        .filter(|issued| issued.line["modules"] == json!({ "maps": [] }));
    assert_eq!(of_maps.count(), 2, "{}", shop.server.log());
    eventually("nothing is parked", || {
        shop.deliveries("parked").is_empty() && shop.deliveries("waiting").is_empty()
    });
    shop.log_says("offers grant what was sold before they were added sales=1 licenses=1");
    shop.log_says("nobody was sent the keys");
    let list = ["shop", "remainder", "list"];
    assert_eq!(printed(&shop.instance, "shop-remainder-list", &list), json!([]));
    // A delivery of the sale changes nothing of it.
    shop.deliver("invoice.paid", 3, &invoice_of_two());
    shop.settle();
    assert_eq!(shop.licenses().len(), 3);
}

/// A renewal of a subscription that was sold before the server knew of it.
fn renewal(subscription: &str, id: &str, days: u64) -> Value {
    let mut renewal = invoice(id, "subscription_cycle", "price_small", 1, days);
    renewal["parent"]["subscription_details"]["subscription"] = json!(subscription);
    renewal
}

/// The license of a line of the ledger, as `license show` has it.
fn shown(instance: &Instance, id: &str) -> Value {
    let output = countersign(instance)
        .args(["license", "show", id, "--json"])
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(instance: &Instance, arguments: &[&str]) -> String {
    let output = countersign(instance).args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_subscription_that_a_person_attaches_renews_the_imported_license() {
    let shop = Shop::open();
    let instance = &shop.instance;
    let first = "imported-key-number-0001";
    let second = "imported-key-number-0002";
    let export = format!(
        "key,status,expires,modules,subscription\n{first},active,{},forms,\n{second},active,{},forms,sub_8\n",
        day(5),
        day(5)
    );
    instance.write("export.csv", &export);
    let import = ["license", "import", "export.csv", "--from", "csv", "--shop", "stripe"];
    let file = instance.file("export.csv");
    let import = import.map(|part| {
        if part == "export.csv" {
            file.to_str().unwrap()
        } else {
            part
        }
    });
    let planned = printed(instance, "license-import", &[&import[..], &["--dry-run"]].concat());
    assert_eq!(
        (&planned["subscriptions"], &planned["changed"]),
        (&json!(1), &json!(false))
    );
    let imported = printed(instance, "license-import", &import);
    assert_eq!(imported["subscriptions"], json!(1), "{imported}");
    assert_eq!(imported["not_taken_over"], json!([]));
    assert!(text(instance, &import).contains("1 subscription renews its license."));

    shop.deliver("invoice.paid", 1, &renewal("sub_8", "in_8", 35));
    shop.deliver("invoice.paid", 2, &renewal("sub_9", "in_9", 35));
    shop.settle_but_what_waits();
    assert_eq!(shop.licenses().len(), 2, "no second key");
    assert_eq!(shown(instance, second)["expires"], json!(day(35)));
    assert_eq!(shown(instance, first)["expires"], json!(day(5)));
    let waiting = printed(instance, "shop-sales-waiting", &["shop", "sales", "list", "--waiting"]);
    assert_eq!(waiting[0]["waits_for"], "renewed_license");

    // Mistakes change nothing.
    let wrong = refused(instance, &["shop", "attach", "sub_8", first]);
    assert!(wrong.contains("the subscription renews another license"), "{wrong}");
    let wrong = refused(instance, &["shop", "attach", "sub_9", second]);
    assert!(wrong.contains("a subscription renews the license already"), "{wrong}");
    let usage = countersign(instance)
        .args(["shop", "attach", "1207", first])
        .output()
        .unwrap();
    assert_eq!(usage.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&usage.stderr).contains("such as sub_1MowQVLkdIwHu7ix"));

    let attached = printed(instance, "shop-attach", &["shop", "attach", "sub_9", first]);
    assert_eq!(attached["changed"], json!(true));
    shop.settle();
    let license = shown(instance, first);
    assert_eq!(license["expires"], json!(day(35)), "{license}");
    assert_eq!(shop.licenses().len(), 2);
    assert_eq!(
        printed(instance, "shop-attach", &["shop", "attach", "sub_9", first])["changed"],
        json!(false)
    );

    // Every name of the sale finds it.
    for name in ["sub_9", "in_9", "sub_8"] {
        let found = printed(instance, "license-list", &["license", "list", "--reference", name]);
        let found = found.as_array().unwrap();
        assert_eq!(
            (found.len(), found[0]["expires"].as_str()),
            (1, Some(&*day(35))),
            "{name}"
        );
    }
    for name in ["in_10", "9", "subscription:9"] {
        let list = ["license", "list", "--reference", name];
        assert_eq!(printed(instance, "license-list", &list), json!([]), "{name}");
    }

    // A refund of the renewal leaves what the import said.
    let payment = json!({ "invoice": "in_9", "payment": { "payment_intent": "pi_9" } });
    shop.deliver("invoice_payment.paid", 3, &payment);
    let refund =
        json!({ "id": "ch_9", "payment_intent": "pi_9", "amount": 1_900, "amount_refunded": 1_900, "refunded": true });
    shop.deliver("charge.refunded", 4, &refund);
    shop.settle();
    let license = shown(instance, first);
    assert_eq!(
        (&license["expires"], &license["status"]),
        (&json!(day(5)), &json!("active"))
    );

    // A subscription that was sold here has its license.
    shop.deliver(
        "invoice.paid",
        5,
        &invoice("in_1", "subscription_create", "price_small", 1, 30),
    );
    shop.settle();
    let wrong = refused(instance, &["shop", "attach", "sub_1", first]);
    assert!(wrong.contains("the subscription has a license already"), "{wrong}");

    // Without a server the command does it itself, and the ledger is whole.
    let issued = printed(
        instance,
        "license-issue",
        &["license", "issue", "--module", "forms", "--expires", &day(9)],
    );
    let instance = shop.instance;
    drop(shop.server);
    let id = issued["id"].as_str().unwrap();
    assert_eq!(
        printed(&instance, "shop-attach", &["shop", "attach", "sub_10", id])["changed"],
        json!(true)
    );
    text(&instance, &["bindings", "verify"]);
}
