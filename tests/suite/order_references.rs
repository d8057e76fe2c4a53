//! The orders of licenses: kept with them, shown, and erased for good.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use serde_json::{Value, json};

use crate::management::{Shop, forms, run, stdout_json};
use crate::support::issued::license_of;
use crate::support::server::countersign;
use crate::support::shop::{add_shop, deliver, invoice};
use crate::support::stored::files_with;
use crate::support::{Instance, License, Server, eventually, get};

const FILE: &str = "store/texts.jsonl";
const ORDER: &str = "order 7 of anna@buyer.example";
fn with_order(order: &str) -> Value {
    let mut body = forms();
    body["reference"] = json!(order);
    body
}

/// The order of a license, as the API shows it in a license and in the list.
fn shown(shop: &Shop, license: &License) -> Option<String> {
    let one = shop.send("GET", &format!("/{}", license.id), &[], &json!({})).json();
    let all = shop.send("GET", "?limit=500", &[], &json!({})).json();
    let listed = all["licenses"].as_array().unwrap().iter();
    let listed = listed.clone().find(|other| other["id"] == license.id.as_str()).unwrap();
    assert_eq!(one, *listed);
    one.get("reference").map(|text| text.as_str().unwrap().to_owned())
}

/// Every license of the list with this order.
fn count_of_order(shop: &Shop, order: &str) -> usize {
    let query: String = url::form_urlencoded::byte_serialize(order.as_bytes()).collect();
    let found = shop.send("GET", &format!("?reference={query}"), &[], &json!({})).json();
    found["licenses"].as_array().unwrap().len()
}

fn forget(instance: &Instance, order: &str) -> Output {
    countersign(instance)
        .args(["license", "forget", "--json", "--reference", order])
        .output()
        .unwrap()
}

fn output_text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Another server on the same instance.
fn restarted(mut shop: Shop, end: impl FnOnce(Server)) -> Shop {
    let server = shop.server;
    end(server);
    shop.server = Server::start(&shop.instance);
    shop
}

#[test]
fn the_order_of_an_acknowledged_license_survives_kill_9_and_is_shown_everywhere() {
    let shop = Shop::open(&[]);
    let issued = shop.issue("1", &with_order(ORDER));
    assert_eq!(
        (issued.status, &issued.json()["reference"]),
        (201, &json!(ORDER)),
        "{}",
        issued.text()
    );
    let license = license_of(&issued);
    let without = license_of(&shop.issue("2", &forms()));
    let shop = restarted(shop, Server::kill);
    assert_eq!(shown(&shop, &license).as_deref(), Some(ORDER));
    assert_eq!(shown(&shop, &without), None);
    let retry = shop.issue("1", &with_order(ORDER));
    assert_eq!((retry.status, &retry.json()["reference"]), (200, &json!(ORDER)));
    let suspended = shop.send("POST", &format!("/{}/suspend", license.id), &[], &json!({}));
    assert_eq!(suspended.json()["reference"], ORDER);
    let rekeyed = shop.send(
        "POST",
        &format!("/{}/rekey", license.id),
        &[("Idempotency-Key", "3")],
        &json!({}),
    );
    assert_eq!(rekeyed.json()["reference"], ORDER, "{}", rekeyed.text());
    let text = String::from_utf8(run(&shop.instance, &["license", "show", &license.id]).stdout).unwrap();
    assert!(text.contains(&format!("order        {ORDER}\n")), "{text}");
    let show = stdout_json(&shop.instance, &["license", "show", &license.id]);
    assert_eq!(show["reference"], ORDER);
    let list = stdout_json(&shop.instance, &["license", "list", "--reference", ORDER]);
    let orders: Vec<_> = list.as_array().unwrap().iter().map(|one| &one["reference"]).collect();
    assert_eq!(orders, [ORDER, ORDER]);
    let verified = stdout_json(&shop.instance, &["bindings", "verify"]);
    assert_eq!(verified["texts"], 2, "with the person who made the token");
}

#[test]
fn an_erased_order_is_in_no_file_and_no_retry_rotation_or_import_brings_it_back() {
    let shop = Shop::open(&[]);
    let license = license_of(&shop.issue("1", &with_order(ORDER)));
    license_of(&shop.issue("2", &with_order(ORDER)));
    let other = license_of(&shop.issue("3", &with_order("order 8")));
    let unknown = forget(&shop.instance, "order 9");
    assert_eq!(unknown.status.code(), Some(3), "{}", output_text(&unknown));
    assert!(
        output_text(&unknown).contains("no license has this order"),
        "{}",
        output_text(&unknown)
    );

    let erased = forget(&shop.instance, ORDER);
    let document: Value = serde_json::from_slice(&erased.stdout).unwrap_or_else(|_| panic!("{}", output_text(&erased)));
    assert_eq!((&document["changed"], &document["licenses"]), (&json!(true), &json!(2)));
    assert_eq!(files_with(shop.instance.path(), &[ORDER]), Vec::<PathBuf>::new());
    let again: Value = serde_json::from_slice(&forget(&shop.instance, ORDER).stdout).unwrap();
    assert_eq!(
        (&again["changed"], &again["erased"]),
        (&json!(false), &document["erased"])
    );
    let stays_erased = |shop: &Shop| {
        assert_eq!(shown(shop, &license), None);
        assert_eq!(shown(shop, &other).as_deref(), Some("order 8"));
        assert_eq!(files_with(shop.instance.path(), &[ORDER]), Vec::<PathBuf>::new());
    };
    stays_erased(&shop);
    let retry = shop.issue("1", &with_order(ORDER));
    assert_eq!((retry.status, retry.json().get("reference")), (200, None));
    let more = shop.issue("4", &with_order(ORDER));
    assert_eq!((more.status, more.json().get("reference")), (201, None));
    stays_erased(&shop);
    assert_eq!(
        count_of_order(&shop, ORDER),
        3,
        "who knows the order finds its licenses"
    );

    // The order has another HMAC from here on.
    let shop = restarted(shop, |server| assert!(server.stop().success()));
    run(&shop.instance, &["keys", "generate", "--references", "--rotate"]);
    let shop = restarted(shop, |server| assert!(server.stop().success()));
    let rotated = shop.issue("5", &with_order(ORDER));
    assert_eq!((rotated.status, rotated.json().get("reference")), (201, None));
    import(&shop.instance, ORDER);
    stays_erased(&shop);
    assert_eq!(count_of_order(&shop, ORDER), 5);
    let list = stdout_json(&shop.instance, &["license", "list", "--reference", ORDER]);
    for one in list.as_array().unwrap() {
        assert_eq!(
            (one.get("reference"), &one["reference_erased"]),
            (None, &document["erased"])
        );
    }
    let text = String::from_utf8(run(&shop.instance, &["license", "show", &license.id]).stdout).unwrap();
    let day = document["erased"]
        .as_str()
        .unwrap()
        .split('T')
        .next()
        .unwrap()
        .to_owned();
    assert!(text.contains(&format!("order        erased on {day}\n")), "{text}");

    // Without a server, the command works on the store itself.
    let Shop { instance, server, .. } = shop;
    assert!(server.stop().success());
    let erased = forget(&instance, "order 8");
    assert!(erased.status.success(), "{}", output_text(&erased));
    assert_eq!(files_with(&instance.file("store"), &["order 8"]), Vec::<PathBuf>::new());
}

/// Imports a license with this order. The export goes through a pipe, so that no file has it.
fn import(instance: &Instance, order: &str) {
    let mut child = countersign(instance)
        .args(["license", "import", "-", "--from", "csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let text = format!("key,expires,modules,reference\nan-imported-key-1,2099-12-31,forms,{order}\n");
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", output_text(&output));
}

#[test]
fn imports_and_sales_of_shops_keep_their_orders_and_an_import_restores_a_lost_file() {
    let instance = Instance::new();
    add_shop(&instance);
    // The first start makes the store. Then the command writes to it by itself.
    assert!(Server::start(&instance).stop().success());
    import(&instance, "order of an export");
    let server = Server::start(&instance);
    let sale = invoice("in_1", "subscription_create", "price_small", 1, 30);
    assert_eq!(deliver(&server, "invoice.paid", 1, &sale), 200);
    let orders = || {
        let list = stdout_json(&instance, &["license", "list"]);
        let mut orders: Vec<_> = list
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|one| Some(one.get("reference")?.as_str()?.to_owned()))
            .collect();
        orders.sort();
        orders
    };
    eventually("the delivery is applied", || orders().len() == 2);
    assert_eq!(orders(), ["order of an export", "sub_1"]);
    assert!(server.stop().success());
    fs::remove_file(instance.file(FILE)).unwrap();
    let server = Server::start(&instance);
    assert!(server.log().contains("no file with the texts"), "{}", server.log());
    import(&instance, "order of an export");
    assert_eq!(orders(), ["order of an export"]);
}

#[test]
fn a_torn_end_is_cut_and_a_damaged_line_is_named() {
    let shop = Shop::open(&[]);
    let license = license_of(&shop.issue("1", &with_order(ORDER)));
    shop.issue("2", &with_order("order 8"));
    let file = shop.instance.file(FILE);
    let shop = restarted(shop, |server| {
        server.kill();
        let whole = fs::read(&file).unwrap();
        fs::write(&file, [&whole[..], &whole[..70]].concat()).unwrap();
    });
    assert!(
        shop.server.log().contains("was never acknowledged"),
        "{}",
        shop.server.log()
    );
    assert_eq!(shown(&shop, &license).as_deref(), Some(ORDER));
    let Shop { instance, server, .. } = shop;
    assert!(server.stop().success());
    let whole = fs::read_to_string(&file).unwrap();
    fs::write(&file, whole.replace("order 8", "order 6")).unwrap();
    for arguments in [
        &["serve", "--listen", "127.0.0.1:0", "--admin-listen", "off"][..],
        &["bindings", "verify"],
    ] {
        let refused = countersign(&instance).args(arguments).output().unwrap();
        assert_eq!(refused.status.code(), Some(3), "{}", output_text(&refused));
        let expected = format!(
            "{}: the file with the texts of licenses is damaged: line 3: ",
            file.display()
        );
        assert!(output_text(&refused).contains(&expected), "{}", output_text(&refused));
        assert!(!output_text(&refused).contains("order 6"), "{}", output_text(&refused));
    }
}

#[test]
fn where_an_order_cannot_be_written_no_license_is_issued() {
    let shop = Shop::open(&[]);
    let first = license_of(&shop.issue("1", &with_order("order 1")));
    let ledger = || fs::read(shop.instance.file("store/ledger.jsonl")).unwrap();
    let file = shop.instance.file(FILE);
    let aside = shop.instance.file("store/aside");
    fs::rename(&file, &aside).unwrap();
    let before = ledger();
    for _ in 0..2 {
        let refused = shop.issue("2", &with_order("order 2"));
        assert_eq!((refused.status, refused.code().as_str()), (503, "store_unavailable"));
    }
    assert_eq!(ledger(), before);
    let failed = forget(&shop.instance, "order 1");
    assert_eq!(failed.status.code(), Some(4), "{}", output_text(&failed));
    assert!(
        output_text(&failed).contains("could not be erased"),
        "{}",
        output_text(&failed)
    );
    fs::rename(&aside, &file).unwrap();
    eventually("the store is well again", || {
        get(shop.server.admin, "/readyz").status == 200
    });
    assert_eq!(shop.issue("2", &with_order("order 2")).status, 201);
    assert_eq!(shown(&shop, &first).as_deref(), Some("order 1"));
}

#[test]
fn on_a_full_disk_no_license_is_issued_and_nothing_is_erased_by_half() {
    let in_file = License::new();
    let instance = Instance::with_licenses(&[in_file.toml("")]);
    for key in ["--issuing", "--references"] {
        run(&instance, &["keys", "generate", key]);
    }
    let server = Server::start_limitable(&instance, &[]);
    let bearer = crate::management::token(&instance, "shop", &["licenses:write"]);
    let shop = Shop {
        instance,
        server,
        bearer,
        in_file,
    };
    let long = format!("order {}", "x".repeat(190));
    let license = license_of(&shop.issue("1", &with_order(&long)));
    let file = shop.instance.file(FILE);
    let before = fs::read(&file).unwrap();
    // The line is cut off in its middle.
    shop.server.limit_files(&(before.len() + 50).to_string());
    let refused = shop.issue("full", &with_order("order that does not fit"));
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert_eq!(fs::read(&file).unwrap(), before, "the torn line was cut");
    shop.server.limit_files("100");
    let failed = forget(&shop.instance, &long);
    assert_eq!(failed.status.code(), Some(4), "{}", output_text(&failed));
    assert_eq!(fs::read(&file).unwrap(), before);
    assert!(!shop.instance.file("store/.texts.jsonl.new").exists());
    shop.server.limit_files("unlimited");
    eventually("the store is well again", || {
        get(shop.server.admin, "/readyz").status == 200
    });
    assert_eq!(shown(&shop, &license).as_deref(), Some(long.as_str()));
    assert_eq!(shop.issue("full", &with_order("order that does not fit")).status, 201);
    assert!(forget(&shop.instance, &long).status.success());
    assert_eq!(shown(&shop, &license), None);
}
