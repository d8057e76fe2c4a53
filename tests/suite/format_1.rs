//! A store of format 1, opened by this version.

use std::fs;

use serde_json::{Value, json};

use crate::management::{run, stdout_json};
use crate::support::format_1::{LEDGER, REFERENCES, RENEWED, SUCCESSOR};
use crate::support::server::countersign;
use crate::support::{Instance, Server};

/// The license that another one replaced, of an order that was erased.
const REPLACED: &str = "20b3f6ebf277ba693df7e0bc22056b4c62c581295399f6d61d83454a067be5f7";

/// What each event of a license's history says, the newest first.
fn history(instance: &Instance, license: &str) -> Vec<String> {
    let history = stdout_json(instance, &["license", "history", license]);
    assert_eq!(history["license"], license);
    let events = history["events"].as_array().unwrap().iter();
    let words = |event: &Value| {
        let what = event["what"].as_array().unwrap().iter();
        what.map(|word| word.as_str().unwrap()).collect::<Vec<_>>().join(", ")
    };
    events.map(words).collect()
}

#[test]
fn a_store_of_format_1_is_read_opened_exported_and_compacted() {
    let instance = Instance::new();
    instance.write_secret("store/ledger.jsonl", LEDGER);
    instance.write_secret("store/references.jsonl", REFERENCES);
    let verified = |lines: u64| {
        let verified = stdout_json(&instance, &["bindings", "verify"]);
        let counts = ["lines", "bindings", "issued", "texts"].map(|name| verified[name].as_u64().unwrap());
        assert_eq!(counts, [lines, 2, 5, 3], "{verified}");
    };
    let renewed = [
        "seat of two.example freed",
        "two.example bound",
        "one.example bound",
        "resumed",
        "suspended",
        "extended to 2028-12-31",
        "issued, forms=pdf, for 2 sites, until 2027-12-31",
    ];
    let shows = || {
        let of = |license| stdout_json(&instance, &["license", "show", license]);
        assert_eq!(
            (&of(RENEWED)["reference"], &of(RENEWED)["revision"]),
            (&json!("order 1"), &json!(5))
        );
        assert_eq!(of(REPLACED)["reference_erased"], "2026-11-26T21:33:21Z");
        assert_eq!(history(&instance, RENEWED), renewed);
        let in_place = format!("issued in place of {}, forms, for 1 site, never ends", &REPLACED[..12]);
        let replaced = ["revoked", &in_place, "issued, forms, for 1 site, never ends"];
        assert_eq!(history(&instance, SUCCESSOR), replaced);
    };
    // Before a server converts anything.
    verified(17);
    shows();
    let export = String::from_utf8(run(&instance, &["bindings", "export", "--all"]).stdout).unwrap();
    assert_eq!(export.lines().count(), 15, "without the tokens' first lines");

    assert!(Server::start(&instance).stop().success());
    assert_eq!(fs::read_to_string(instance.file("store/ledger.jsonl")).unwrap(), LEDGER);
    assert!(!instance.file("store/references.jsonl").exists());
    let texts = fs::read_to_string(instance.file("store/texts.jsonl")).unwrap();
    assert!(texts.contains("\"text\":\"order of an import\""), "{texts}");
    verified(17);
    shows();
    run(&instance, &["bindings", "compact"]);
    verified(16);
    shows();
    let refused = countersign(&instance)
        .args(["license", "history", "00112233"])
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");

    let table = String::from_utf8(run(&instance, &["license", "history", RENEWED, "--limit", "2"]).stdout).unwrap();
    let expected = "\
TIME                  LICENSE       WHAT                       BY          REASON
2026-11-26T21:33:21Z  45cd36beb2ff  seat of two.example freed  token shop  -
2026-11-26T21:33:21Z  45cd36beb2ff  two.example bound          the site    -
5 older left out
";
    assert_eq!(table, expected);
}
