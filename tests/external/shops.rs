//! Deliveries, signed by the shops' own SDKs where they sign, are accepted as they are and in no other way.

use std::fs;
use std::process::Command;

use chrono::DateTime;
use countersign_shops::SHOPS;
use countersign_shops::shop::Shop;
use countersign_shops::signature::{ShopSecret, SignatureError, verify};
use serde_json::{Value, json};

use crate::support::random::Random;
use crate::support::server::countersign;
use crate::support::shop::{add_shop, deliver, invoice};
use crate::support::{Instance, Server, eventually};
use crate::tools::program::run;
use crate::tools::strace::whole_trace;

/// A JSON document with what signing may stumble over: other scripts, escapes, slashes, white space at the end.
fn body(random: &mut Random, number: usize) -> String {
    let texts = [
        "é", "\u{2028}", "漢字", "\\u00e9", "a/b", "\\/", "😀", "&amp;", " ", "\\\\",
    ];
    let text: String = (0..random.below(20))
        .map(|_| texts[random.below(texts.len())])
        .collect();
    let end = if number.is_multiple_of(3) { "\n" } else { "" };
    format!("{{\"id\": \"evt_{number}\", \"object\": \"event\",\"text\":\"{text}\"}}{end}")
}

#[test]
fn what_the_shops_own_libraries_sign_is_accepted_and_nothing_else_is() {
    let mut random = Random::new(0x5851_F42D_4C95_7F2D);
    let deliveries: Vec<Value> = (0..100 * SHOPS.len())
        .map(|number| {
            let secret = format!("whsec_{:08x}{:08x}+/=", random.below(1 << 32), random.below(1 << 32));
            json!({ "shop": SHOPS[number % SHOPS.len()].name, "secret": secret, "body": body(&mut random, number) })
        })
        .collect();
    let lines: String = deliveries.iter().map(|delivery| format!("{delivery}\n")).collect();
    let signed = run("node", "tests/tools/shops.mjs", &lines);
    let signed: Vec<Value> = signed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(signed.len(), deliveries.len());
    for (delivery, signed) in deliveries.iter().zip(signed) {
        let shop: &Shop = delivery["shop"].as_str().unwrap().parse().unwrap();
        let secret = |text: &str| ShopSecret::new(text).unwrap_or_else(|_| panic!("{text}"));
        let own = [secret(delivery["secret"].as_str().unwrap())];
        let body = delivery["body"].as_str().unwrap();
        let header = signed["header"].as_str().unwrap();
        let now = DateTime::from_timestamp(signed["seconds"].as_i64().unwrap(), 0).unwrap();
        let check = |body: &str| verify(shop, &own, Some(header), body.as_bytes(), now);
        assert_eq!(check(body), Ok(()), "{delivery}");
        assert_eq!(check(&format!("{body} ")), Err(SignatureError::Wrong));
        let other = [secret("another-secret")];
        assert_eq!(
            verify(shop, &other, Some(header), body.as_bytes(), now),
            Err(SignatureError::Wrong)
        );
        // Each SDK that verifies agrees.
        match shop.name {
            "stripe" | "paddle" => assert!(signed["right"] == true && signed["forged"] == false, "{delivery}"),
            _ => assert!(signed["right"].is_null(), "{delivery}"),
        }
    }
}

#[test]
fn a_saved_delivery_is_checked_with_its_header_and_secret() {
    let instance = Instance::empty();
    instance.write("countersign.toml", "");
    instance.write("registry/plugins/.gitkeep", "");
    instance.write(
        "registry/offers/forms.toml",
        "shop = \"stripe\"\nprices = [\"price_1\"]\nperiod = \"1y\"\nsites = 3\nmodules.acme = []\n",
    );
    let body =
        json!({ "id": "evt_1", "object": "event", "type": "checkout.session.completed", "created": 1_700_000_000,
        "livemode": true, "data": { "object": { "id": "cs_1", "mode": "payment", "payment_status": "paid",
            "payment_intent": "pi_1", "metadata": { "offer": "forms" } } } })
        .to_string();
    let line = json!({ "shop": "stripe", "secret": "whsec_of_the_test", "body": body });
    let signed = run("node", "tests/tools/shops.mjs", &format!("{line}\n"));
    let signed: Value = serde_json::from_str(&signed).unwrap();
    fs::write(instance.file("delivery.json"), &body).unwrap();
    fs::write(instance.file("secret.txt"), "whsec_of_the_test\n").unwrap();
    let check = |at: i64| {
        let at = DateTime::from_timestamp(at, 0).unwrap().to_rfc3339();
        let header = format!("stripe-signature: {}", signed["header"].as_str().unwrap());
        let output = countersign(&instance)
            .args(["shop", "check", "stripe", "--json", "--header", &header, "--at", &at])
            .arg(instance.file("delivery.json"))
            .arg("--secret-file")
            .arg(instance.file("secret.txt"))
            .output()
            .unwrap();
        let printed: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        (output.status.code(), printed)
    };
    let seconds = signed["seconds"].as_i64().unwrap();
    let (exit, printed) = check(seconds + 299);
    assert_eq!(
        (exit, &printed["deliveries"][0]["signature"]),
        (Some(0), &json!("right"))
    );
    assert_eq!(printed["licenses"][0]["expires"], "2024-11-14");
    let (exit, printed) = check(seconds + 301);
    assert_eq!(exit, Some(3));
    let signature = printed["deliveries"][0]["signature"].as_str().unwrap();
    assert!(signature.contains("replayed"), "{printed}");
}

/// Whether a delivery was renamed, and its folder synced, before these words were written.
fn is_durable_before(trace: &str, words: &str) -> bool {
    let lines: Vec<_> = trace.lines().collect();
    let is_telling = |line: &&str| line.contains("write(") && line.contains(words);
    let told = lines.iter().position(is_telling).expect(words);
    let is_rename = |line: &&str| line.contains("rename") && line.contains("/deliveries/");
    let is_sync = |line: &&str| line.contains("fsync(") && line.contains("/deliveries>");
    let renamed = lines[..told].iter().rposition(is_rename);
    renamed.is_some_and(|renamed| lines[renamed..told].iter().any(is_sync))
}

#[test]
fn a_parked_delivery_is_durably_parked_before_anybody_is_told() {
    const CALLS: &str = "rename,renameat,renameat2,fsync,write";
    let instance = Instance::new();
    add_shop(&instance);
    let trace = instance.file("trace");
    let server = Server::start_traced(&instance, CALLS, &trace);
    let unknown = invoice("in_1", "subscription_create", "price_of_nothing", 1, 30);
    assert_eq!(deliver(&server, "invoice.paid", 1, &unknown), 200);
    eventually("the log says that it is parked", || {
        server.log().contains("a delivery is parked")
    });
    assert!(server.stop().success());
    let traced = whole_trace(&trace);
    assert!(is_durable_before(&traced, "a delivery is parked"), "{traced}");

    let plain = countersign(&instance);
    let mut command = Command::new("strace");
    command
        .args(["-f", "-y", "-q", "-e", &format!("trace={CALLS}"), "-o"])
        .arg(&trace);
    command.arg(plain.get_program()).args(plain.get_args());
    // As JSON, the words come first.
    let retried = command.args(["shop", "parked", "retry", "--all", "--json"]).output();
    let retried = retried.unwrap();
    assert!(retried.status.success(), "{retried:?}");
    let trace = fs::read_to_string(&trace).unwrap();
    assert!(is_durable_before(&trace, "retried"), "{trace}");
}
