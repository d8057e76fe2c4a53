//! A ledger that is exported with all its events and imported elsewhere is the same in all that counts.

use std::fs;
use std::path::Path;

use countersign_model::digest::Digest;
use serde_json::{Value, json};

use crate::management::{Shop, forms, run, stdout_json};
use crate::support::instance::question;
use crate::support::issued::license_of;
use crate::support::server::countersign;
use crate::support::{Instance, License, Server, post_json};

fn exported(instance: &Instance) -> String {
    String::from_utf8(run(instance, &["bindings", "export", "--all"]).stdout).unwrap()
}

/// What the import of this text says, with its exit code.
fn imported(text: &[u8], store: &Path) -> (Option<i32>, String) {
    let instance = Instance::new();
    let file = instance.file("events.jsonl");
    fs::write(&file, text).unwrap();
    let output = countersign(&instance)
        .args(["bindings", "import"])
        .arg(&file)
        .arg("--store")
        .arg(store)
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn what_was_exported_and_imported_is_the_same_ledger() {
    let shop = Shop::open(&[]);
    let mut body = forms();
    body["reference"] = json!("order 7");
    body["staging_sites"] = json!(2);
    let license = license_of(&shop.issue("1", &body));
    let other = license_of(&shop.issue("2", &forms()));
    let secret = "a secret of one site";
    let mut guarded = question(&license, "a.com");
    guarded["release_hash"] = json!(Digest::of(secret.as_bytes()).to_string());
    assert_eq!(shop.server.ask(&guarded).code(), "ok");
    assert_eq!(shop.server.validate(&shop.in_file, "file.com").code(), "ok");
    for site in ["b.com", "c.com"] {
        assert_eq!(shop.server.validate(&other, site).code(), "ok");
        let leave = json!({ "license_key": other.key, "site_url": site });
        assert_eq!(
            post_json(shop.server.address, "/api/v1/release-site", &leave).status,
            200
        );
    }
    run(&shop.instance, &["license", "suspend", &other.id]);
    run(&shop.instance, &["license", "resume", &other.id]);
    let Shop {
        instance,
        server,
        bearer,
        in_file,
    } = shop;
    // Beside the running server.
    let events = exported(&instance);
    let kinds = |kind: &str| {
        let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        events.filter(|event| event["event"] == kind).count()
    };
    // Each change of a license of the last 400 days.
    assert_eq!(["bound", "released", "license", "token"].map(kinds), [4, 2, 4, 1]);
    assert!(!events.contains("previous") && !events.contains("order 7"), "{events}");
    assert!(server.stop().success());

    let commands: [&[&str]; 4] = [
        &["license", "show", &license.id],
        &["license", "show", &other.id],
        &["license", "list", "--reference", "order 7"],
        &["token", "list"],
    ];
    // Neither what sites reported nor the text of an order is an event.
    let without_reports = |mut shown: Value| {
        let listed = match shown.as_array_mut() {
            Some(all) => all.iter_mut().collect(),
            None => vec![&mut shown],
        };
        for license in listed.into_iter().filter_map(Value::as_object_mut) {
            license.remove("reference");
        }
        if let Some(bindings) = shown.get_mut("bindings").and_then(Value::as_array_mut) {
            bindings
                .iter_mut()
                .for_each(|binding| drop(binding.as_object_mut().unwrap().remove("last_seen")));
        }
        shown
    };
    let printed = || commands.map(|command| without_reports(stdout_json(&instance, command)));
    let before = printed();
    fs::rename(instance.file("store"), instance.file("old-store")).unwrap();
    let store = instance.file("store");
    assert_eq!(imported(events.as_bytes(), &store), (Some(0), String::new()));
    run(&instance, &["bindings", "verify"]);
    assert_eq!(exported(&instance), events);
    assert_eq!(printed(), before);

    let shop = Shop {
        server: Server::start(&instance),
        instance,
        bearer,
        in_file,
    };
    assert_eq!(shop.server.validate(&license, "a.com").code(), "ok");
    assert_eq!(shop.server.validate(&license, "d.com").code(), "bound_elsewhere");
    assert_eq!(shop.server.validate(&shop.in_file, "file.com").code(), "ok");
    // A retry finds its license, and the secret of the site still counts.
    let again: License = license_of(&shop.issue("1", &body));
    assert_eq!(again.key, license.key);
    let mut leave = json!({ "license_key": license.key, "site_url": "a.com", "release_secret": "wrong" });
    assert_eq!(
        post_json(shop.server.address, "/api/v1/release-site", &leave).status,
        403
    );
    leave["release_secret"] = json!(secret);
    assert_eq!(
        post_json(shop.server.address, "/api/v1/release-site", &leave).status,
        200
    );
}

#[test]
fn what_is_no_export_makes_no_ledger_and_names_the_line() {
    let shop = Shop::open(&[]);
    license_of(&shop.issue("1", &forms()));
    let events = exported(&shop.instance);
    let whole = events.as_bytes();
    let first = events.lines().next().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    for (text, reason) in [
        (whole[..whole.len() - 1].to_vec(), "has no line feed"),
        ([whole, b"{}\n"].concat(), "line 3 is no event"),
        ([whole, b"\xff\n"].concat(), "line 3 is no event"),
        (
            [whole, &[b'x'; 20_000]].concat(),
            "line 3 is longer than any of a ledger",
        ),
        (
            first.replacen('{', "{\"synced\":0,", 1).into_bytes(),
            "line 1 has no line feed",
        ),
        (
            format!("{}\n", first.replacen('{', "{\"synced\":0,", 1)).into_bytes(),
            "line 1 is no event",
        ),
        (
            format!("{}\n", first.replacen('{', "{\"note\":\"\",", 1)).into_bytes(),
            "line 1 has the member \"note\", which this version does not know",
        ),
    ] {
        let (exit, output) = imported(&text, &store);
        assert!(exit == Some(3) && output.contains(reason), "{reason}: {output}");
        assert!(!store.join("ledger.jsonl").exists(), "{reason}");
    }
    assert_eq!(imported(whole, &store).0, Some(0));
    let (exit, output) = imported(whole, &store);
    assert!(
        exit == Some(3) && output.contains("there is a ledger already"),
        "{output}"
    );
}
