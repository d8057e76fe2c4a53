//! What people and programs write of a license: kept beside the ledger, shown, and erased for good.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::management::{Shop, forms, run, stdout_json};
use crate::support::issued::license_of;
use crate::support::server::countersign;
use crate::support::stored::files_with;
use crate::support::{License, Server};

const REASON: &str = "chargeback of canary Jane";
const NOTE: &str = "canary friend of Jane";
const PERSON: &str = "canary.anna";

/// The newest event of a license.
fn latest(shop: &Shop, license: &str) -> Value {
    stdout_json(&shop.instance, &["license", "history", license, "--limit", "1"])["events"][0].clone()
}

fn command(shop: &Shop, arguments: &[&str]) -> String {
    let mut command = countersign(&shop.instance);
    let output = command.env("SUDO_USER", PERSON).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn metadata_is_in_every_answer_and_in_the_ledger_and_a_change_replaces_it() {
    let shop = Shop::open(&[]);
    let mut body = forms();
    body["metadata"] = json!({ "seller": "7", "quote": "a \"b\" é" });
    let issued = shop.issue("1", &body);
    assert_eq!(issued.json()["metadata"], body["metadata"], "{}", issued.text());
    let license = license_of(&issued);
    let retry = shop.issue("1", &body);
    assert_eq!((retry.status, &retry.json()["metadata"]), (200, &body["metadata"]));
    let target = format!("/{}", license.id);
    let patch = |metadata: Value| shop.send("PATCH", &target, &[("If-Match", "*")], &json!({ "metadata": metadata }));
    let changed = patch(json!({ "seller": "8" })).json();
    assert_eq!(
        (&changed["metadata"], &changed["revision"]),
        (&json!({ "seller": "8" }), &json!(2))
    );
    assert_eq!(patch(json!({ "seller": "8" })).json()["revision"], 2, "nothing changes");
    let suspended = shop.send("POST", &format!("{target}/suspend"), &[], &json!({})).json();
    assert_eq!(suspended["metadata"], json!({ "seller": "8" }));
    let rekeyed = shop.send(
        "POST",
        &format!("{target}/rekey"),
        &[("Idempotency-Key", "2")],
        &json!({}),
    );
    assert_eq!(
        rekeyed.json()["metadata"],
        json!({ "seller": "8" }),
        "{}",
        rekeyed.text()
    );
    assert_eq!(latest(&shop, &license.id)["what"], json!(["revoked"]));
    let id = rekeyed.json()["id"].as_str().unwrap().to_owned();
    let emptied = shop.send(
        "PATCH",
        &format!("/{id}"),
        &[("If-Match", "*")],
        &json!({ "metadata": {} }),
    );
    assert_eq!(emptied.json().get("metadata"), None, "{}", emptied.text());
    assert_eq!(latest(&shop, &id)["what"], json!(["other metadata"]));
    let key = License::new().key;
    for bad in [
        json!({ "Seller": "7" }),
        json!({ "seller": 7 }),
        json!({ "seller": "a\u{7}" }),
        json!({ "seller": key }),
        json!({ "seller": "x".repeat(1_024) }),
        json!(null),
    ] {
        let refused = shop.send(
            "PATCH",
            &format!("/{id}"),
            &[("If-Match", "*")],
            &json!({ "metadata": bad }),
        );
        assert_eq!(refused.code(), "malformed_request", "{bad}: {}", refused.text());
    }
}

#[test]
fn reasons_notes_and_names_are_beside_the_ledger_until_they_are_erased() {
    let mut shop = Shop::open(&[]);
    let issued = command(
        &shop,
        &[
            "license",
            "issue",
            "--json",
            "--module",
            "forms",
            "--expires",
            "+1y",
            "--note",
            NOTE,
        ],
    );
    let issued: Value = serde_json::from_str(&issued).unwrap();
    let id = issued["id"].as_str().unwrap().to_owned();
    let other = license_of(&shop.issue("1", &forms()));
    let step = |step: &str, body: Value| shop.send("POST", &format!("/{id}/{step}"), &[], &body);
    let suspended = step("suspend", json!({ "reason": REASON }));
    assert_eq!(suspended.status, 200, "{}", suspended.text());
    // What is so already is not written again, whatever the reason is.
    assert_eq!(step("suspend", json!({ "reason": "another" })).json()["revision"], 2);
    for bad in ["".to_owned(), "x".repeat(501), License::new().key] {
        let refused = step("resume", json!({ "reason": bad }));
        assert!((400..500).contains(&refused.status), "{bad}: {}", refused.text());
    }
    let event = latest(&shop, &id);
    assert_eq!(
        (&event["event"], &event["by"], &event["reason"]),
        (&json!("suspended"), &json!("token:shop"), &json!(REASON))
    );
    assert_eq!(event.get("who"), None, "the token's name is enough");
    command(&shop, &["license", "resume", &id]);
    command(&shop, &["license", "revoke", &other.id]);
    let who = latest(&shop, &id)["who"].as_str().unwrap().to_owned();
    assert!(who.ends_with(&format!(", claimed {PERSON}")), "{who}");
    assert_eq!(latest(&shop, &other.id)["who"], json!(who));
    let table = String::from_utf8(run(&shop.instance, &["license", "history", &id]).stdout).unwrap();
    assert!(table.contains(REASON) && table.contains(&who), "{table}");
    assert_eq!(note_of(&shop, &id), NOTE);
    let found = stdout_json(&shop.instance, &["license", "list", "--note", "canary"]);
    assert_eq!(found[0]["id"], json!(id));
    let all = [REASON, NOTE, PERSON];
    assert_eq!(
        files_with(shop.instance.path(), &all),
        [shop.instance.file("store/texts.jsonl")]
    );
    for (place, text) in [
        ("an answer", shop.send("GET", &format!("/{id}"), &[], &json!({})).text()),
        ("the log", shop.server.log()),
    ] {
        assert!(!text.contains(REASON) && !text.contains(NOTE), "{place}: {text}");
    }

    assert!(shop.server.stop().success());
    shop.server = Server::start(&shop.instance);
    let forgotten = stdout_json(&shop.instance, &["license", "forget", &id]);
    assert_eq!((&forgotten["changed"], &forgotten["texts"]), (&json!(true), &json!(2)));
    assert_eq!(files_with(shop.instance.path(), &[REASON, NOTE]), Vec::<PathBuf>::new());
    let again = stdout_json(&shop.instance, &["license", "forget", &id]);
    assert_eq!((&again["changed"], &again["texts"]), (&json!(false), &json!(0)));
    run(&shop.instance, &["license", "forget", "--person", &who]);
    assert_eq!(files_with(shop.instance.path(), &all), Vec::<PathBuf>::new());
    let history = stdout_json(&shop.instance, &["license", "history", &id]);
    let events = history["events"].as_array().unwrap();
    assert!(
        events[0].get("who_erased").is_some() && events[0].get("who").is_none(),
        "{history}"
    );
    assert!(
        events[1].get("reason_erased").is_some() && events[1].get("reason").is_none(),
        "{history}"
    );
    assert_eq!(note_of(&shop, &id), "");
    // The person's next change brings no name back.
    command(&shop, &["license", "suspend", &id]);
    assert_eq!(files_with(shop.instance.path(), &all), Vec::<PathBuf>::new());
    let Shop { instance, server, .. } = shop;
    assert!(server.stop().success());
    let verified = stdout_json(&instance, &["bindings", "verify"]);
    assert_eq!(verified["texts"], 4, "with the person who made the token");
}

fn note_of(shop: &Shop, id: &str) -> Value {
    stdout_json(&shop.instance, &["license", "show", id])["note"].clone()
}
