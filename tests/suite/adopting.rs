//! One home for licenses: the ledger adopts what files declare, and from then on files change nothing of it.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use countersign_registry::Registry;
use serde_json::{Value, json};

use crate::management::{Shop, forms};
use crate::support::issued::license_of;
use crate::support::server::countersign;
use crate::support::{Instance, License, Server, eventually};

/// Gives the running server an order, as commands do; its answer.
fn order(instance: &Instance, target: &str, order: &Value) -> Value {
    let mut socket = UnixStream::connect(instance.file("store/admin.sock")).unwrap();
    let body = order.to_string();
    let length = body.len();
    write!(
        socket,
        "POST {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
    serde_json::from_str(body).unwrap()
}

/// The digest of what the files grant now.
fn grant(instance: &Instance, license: &License) -> String {
    let registry = Registry::load_licenses(&instance.file("registry")).unwrap();
    let declared = registry.license(&license.id.parse().unwrap()).unwrap();
    declared.grant_digest().to_string()
}

fn adopt(instance: &Instance, wanted: &[(&License, String)]) -> Value {
    let licenses: Vec<_> = wanted
        .iter()
        .map(|(license, grant)| json!({ "license": license.id, "grant": grant }))
        .collect();
    order(instance, "/adoptions", &json!({ "licenses": licenses }))
}

#[track_caller]
fn assert_refused(reply: &Value, reason: &str) {
    assert!(
        reply["refused"].as_str().is_some_and(|given| given.contains(reason)),
        "{reply}"
    );
}

impl Shop {
    fn source(&self, license: &License) -> Value {
        self.document(license)["source"].clone()
    }

    fn code_at(&self, host: &str) -> String {
        self.server.validate(&self.in_file, host).code()
    }
}

#[test]
fn an_adopted_license_is_the_ledgers_whatever_files_say_later() {
    let shop = Shop::open(&[]);
    let instance = &shop.instance;
    let license = &shop.in_file;
    let issued = license_of(&shop.issue("1", &forms()));
    assert_eq!(shop.code_at("a.com"), "ok");
    assert_eq!(shop.source(license), "file");
    let of_file = shop.send("POST", &format!("/{}/suspend", license.id), &[], &json!({}));
    assert!(
        of_file.status == 409 && of_file.text().contains("licenses.toml:1"),
        "{}",
        of_file.text()
    );

    let stranger = License::new();
    let replies = adopt(
        instance,
        &[
            (license, "0".repeat(32)),
            (&stranger, "0".repeat(32)),
            (license, grant(instance, license)),
        ],
    );
    assert_refused(&replies[0], "reload");
    assert_refused(&replies[1], "no file declares");
    assert_eq!(replies[2], "adopted");
    let again = adopt(
        instance,
        &[(license, grant(instance, license)), (&issued, "0".repeat(32))],
    );
    assert_eq!(again[0], "repeated");
    assert_refused(&again[1], "no file declares");

    // It is listed and counted once, keeps its site, and changes by the API.
    assert_eq!(shop.source(license), "ledger");
    assert_eq!(shop.document(license)["hosts"][0]["host"], "a.com");
    assert_eq!(shop.ids().iter().filter(|id| **id == license.id).count(), 1);
    assert_eq!(
        shop.server.metric("countersign_licenses{standing=\"active\"}"),
        Some(2.0)
    );
    assert_eq!(shop.code_at("b.com"), "bound_elsewhere");
    let revoked = shop.send("POST", &format!("/{}/revoke", license.id), &[], &json!({}));
    assert_eq!(revoked.status, 200, "{}", revoked.text());
    assert_eq!(shop.code_at("a.com"), "revoked");

    // The declaration changes, goes, and comes back from an old checkout.
    // So many that none of the changes looks like an accident.
    let mut others: Vec<_> = (0..20).map(|_| License::new().toml("")).collect();
    for tables in [vec![license.toml("sites = 9")], vec![], vec![license.toml("")]] {
        let marker = License::new();
        others.push(marker.toml(""));
        instance.write_licenses(&[tables, others.clone()].concat());
        eventually("the files are in force", || {
            shop.server.validate(&marker, "a.com").code() == "ok"
        });
        assert_eq!(shop.code_at("a.com"), "revoked");
    }
}

#[test]
fn a_step_adopts_a_declared_license_in_one_event_and_the_ledgers_license_needs_no_adoption() {
    let shop = Shop::open(&[]);
    let instance = &shop.instance;
    let license = &shop.in_file;
    let suspend = |adopt: Option<String>| {
        let mut wanted = json!({ "license": license.id, "action": { "step": "suspend" } });
        if let Some(grant) = adopt {
            wanted["adopt"] = json!(grant);
        }
        order(instance, "/licenses", &wanted)
    };
    assert_refused(&suspend(None), "licenses.toml:1 declares the license");
    assert_refused(&suspend(Some("0".repeat(32))), "reload");
    assert_eq!(
        suspend(Some(grant(instance, license))),
        json!({ "done": { "changed": true } })
    );
    let document = shop.document(license);
    assert_eq!(
        (&document["status"], &document["revision"]),
        (&json!("suspended"), &json!(1))
    );
    assert_eq!(document["issued_by"], "operator:cli");
    assert_eq!(shop.code_at("a.com"), "suspended");
    // Now it is the ledger's, and what a command read of the file does not matter.
    for adopt in [None, Some("0".repeat(32))] {
        assert_eq!(suspend(adopt), json!({ "done": { "changed": false } }));
    }
    let mailed = order(
        instance,
        "/licenses",
        &json!({ "license": license.id, "action": { "resend": ["a@example.com", "key"] } }),
    );
    assert_refused(&mailed, "secret that it was issued with is not in keys/");
}

#[test]
fn a_declared_license_gets_a_new_key_in_one_commit() {
    let shop = Shop::open(&[]);
    let instance = &shop.instance;
    let license = &shop.in_file;
    let rekeyed = order(
        instance,
        "/licenses",
        &json!({ "license": license.id, "action": "rekey", "adopt": grant(instance, license) }),
    );
    let new = &rekeyed["rekeyed"];
    let new = License {
        key: new["license_key"].as_str().unwrap().to_owned(),
        id: new["id"].as_str().unwrap().to_owned(),
    };
    assert_eq!(shop.server.validate(&new, "a.com").code(), "ok");
    assert_eq!(shop.code_at("a.com"), "revoked");
    assert_eq!(shop.document(&new)["replaces"], json!(license.id));
    // Restarts and an unchanged file change nothing.
    let Shop {
        instance,
        server,
        in_file,
        ..
    } = shop;
    server.stop();
    let server = Server::start(&instance);
    assert_eq!(server.validate(&in_file, "a.com").code(), "revoked");
    assert_eq!(server.validate(&new, "a.com").code(), "ok");
}

#[test]
fn what_the_ledger_has_is_not_missing_and_the_rest_is() {
    let licenses: Vec<_> = (0..10).map(|_| License::new()).collect();
    let tables = |licenses: &[License]| -> Vec<_> { licenses.iter().map(|license| license.toml("")).collect() };
    let instance = Instance::with_licenses(&tables(&licenses));
    let server = Server::start(&instance);
    let adopt_all = |licenses: &[License]| {
        let wanted: Vec<_> = licenses
            .iter()
            .map(|license| (license, grant(&instance, license)))
            .collect();
        let replies = adopt(&instance, &wanted);
        assert!(
            replies.as_array().unwrap().iter().all(|reply| reply == "adopted"),
            "{replies}"
        );
    };
    adopt_all(&licenses[..8]);
    // Eight of ten are in the ledger. The other two are all that a loss of the file takes away.
    instance.write_licenses(&["# none\n".to_owned()]);
    eventually("the loss is refused", || server.part("registry")["state"] == "stale");
    let detail = server.part("registry")["detail"].to_string();
    assert!(detail.contains("lacks 2 of the 2 licenses"), "{detail}");
    assert_eq!(server.validate(&licenses[9], "a.com").code(), "ok");
    assert!(server.stop().success());
    let refused = countersign(&instance)
        .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "off"])
        .output()
        .unwrap();
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert!(
        !refused.status.success() && stderr.contains("lacks 2 of the 2 licenses"),
        "{stderr}"
    );

    instance.write_licenses(&tables(&licenses));
    let server = Server::start(&instance);
    adopt_all(&licenses[8..]);
    instance.write_licenses(&["# none\n".to_owned()]);
    eventually("the files are empty", || {
        server.log().contains("reloaded") && server.part("registry")["state"] == "ok"
    });
    assert_eq!(server.validate(&licenses[9], "a.com").code(), "ok");
    assert!(server.stop().success());
    let server = Server::start(&instance);
    assert_eq!(server.validate(&licenses[9], "a.com").code(), "ok");
}

#[test]
fn a_declaration_that_changes_after_its_adoption_is_reported_and_never_fatal() {
    let shop = Shop::open(&[]);
    let instance = &shop.instance;
    let license = &shop.in_file;
    adopt(instance, &[(license, grant(instance, license))]);
    let differing = || shop.server.metric("countersign_declarations_differing");
    assert_eq!(
        (differing(), &shop.server.part("registry")["detail"]),
        (Some(0.0), &Value::Null)
    );
    let error = "1 declaration differs from what the ledger adopted or issued, which is in force: ";
    let errors = || shop.server.log().matches(error).count();
    for (times, sites) in [(1, 7), (2, 8)] {
        instance.write_licenses(&[license.toml(&format!("sites = {sites}"))]);
        eventually("the change is logged", || errors() == times);
        // The log is written before the new state is in force.
        eventually("the change is in force", || differing() == Some(1.0));
        let part = shop.server.part("registry");
        assert_eq!(part["state"], "ok");
        assert!(part["detail"].as_str().unwrap().contains("(licenses.toml:1)"), "{part}");
    }
    // The same file again is no news.
    instance.write("registry/licenses/more.toml", "# nothing\n");
    eventually("the files are read again", || {
        shop.server.log().matches("reloaded").count() >= 3
    });
    assert_eq!(errors(), 2);
    let doctor = countersign(instance).args(["doctor", "--json"]).output().unwrap();
    assert!(String::from_utf8(doctor.stdout).unwrap().contains(error));
    instance.write_licenses(&[license.toml("")]);
    eventually("nothing differs", || {
        shop.server.part("registry")["detail"] == Value::Null
    });
    eventually("the metric says so", || differing() == Some(0.0));
}
