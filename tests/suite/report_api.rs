//! Reports of the management API: what sites run, and what looks like abuse, as the commands say it.

use chrono::Utc;
use serde_json::{Value, json};

use crate::hosted::{SECRET, put_secret};
use crate::management::{self, Shop, forms, stdout_json, token};
use crate::support::instance::{LATEST, License, question};
use crate::support::issued::license_of;
use crate::support::server::countersign;
use crate::support::{Response, Server, eventually, post_json, request};
use crate::trace::build_id;

fn get(shop: &Shop, bearer: &str, report: &str) -> Response {
    let target = format!("/api/v1/reports/{report}");
    request(shop.server.address, "GET", &target, &[("Authorization", bearer)], b"")
}

#[test]
fn a_program_reads_what_the_commands_say_of_usage_and_abuse() {
    let shop = Shop::open(&[]);
    shop.instance.publish(LATEST);
    put_secret(&shop.instance, "keys/downloads.key", &SECRET);
    let reader = token(&shop.instance, "dashboard", &["reports:read"]);
    for nothing in ["usage/acme-none", "usage/A%20b", "usage/", "other", ""] {
        assert_eq!(get(&shop, &reader, nothing).status, 404, "{nothing}");
    }
    let empty = json!({ "odd_copies": [], "many_hosts": [], "many_moves": [], "many_first_copies": [], "claims": [], "vouched": [] });
    assert_eq!(get(&shop, &reader, "review").json(), empty);

    let license = license_of(&shop.issue("1", &forms()));
    let mut asked = question(&license, "own.com");
    asked["build_id"] = json!("018f3b2e-7c1a-7000-8000-3f1c2d4e5f60");
    assert_eq!(shop.server.ask(&asked).code(), "ok");
    for number in 0..5 {
        let host = format!("host{number}.com");
        assert_eq!(shop.server.validate(&license, &host).code(), "bound_elsewhere");
    }
    let restless = license_of(&shop.issue("2", &forms()));
    for site in ["a.com", "b.com", "c.com"] {
        assert_eq!(shop.server.validate(&restless, site).code(), "ok");
        let leave = json!({ "license_key": restless.key, "site_url": site });
        assert_eq!(
            post_json(shop.server.address, "/api/v1/release-site", &leave).status,
            200
        );
    }
    let in_file = &shop.in_file;
    assert_eq!(shop.server.validate(in_file, "shop.com").code(), "ok");
    assert_eq!(
        shop.server
            .updates(in_file, "shop.com", "&current_version=1.1.0")
            .status,
        200
    );

    // Reports are written a moment after the answer.
    eventually("the report is stored", || {
        get(&shop, &reader, "usage/acme-forms").json()["sites"] == 1
            && !get(&shop, &reader, "review").json()["odd_copies"]
                .as_array()
                .unwrap()
                .is_empty()
            && !get(&shop, &reader, "review").json()["many_hosts"]
                .as_array()
                .unwrap()
                .is_empty()
    });
    let usage = get(&shop, &reader, "usage/acme-forms?days=7").json();
    assert_eq!(
        usage,
        stdout_json(&shop.instance, &["usage", "acme-forms", "--days", "7"])
    );
    assert_eq!(
        (&usage["versions"][0]["version"], &usage["latest"]),
        (&json!("1.1.0"), &json!(LATEST))
    );

    let found = get(&shop, &reader, "review").json();
    let reviewed = stdout_json(&shop.instance, &["review"]);
    let without = |list: &Value, members: &[&str]| {
        let mut list = list.clone();
        for entry in list.as_array_mut().unwrap() {
            members
                .iter()
                .for_each(|member| drop(entry.as_object_mut().unwrap().remove(*member)));
        }
        list
    };
    assert_eq!(found["many_hosts"], without(&reviewed["many_hosts"], &["note"]));
    assert_eq!(found["many_moves"], without(&reviewed["many_moves"], &["note"]));
    assert_eq!(
        found["odd_copies"],
        without(&reviewed["odd_reports"], &["oddity", "given_to"])
    );
    let sizes = ["odd_copies", "many_hosts", "many_moves"].map(|list| found[list].as_array().unwrap().len());
    assert_eq!(sizes, [1, 1, 1], "{found}");
}

#[test]
fn what_happens_is_counted_by_day_and_kept_over_a_restart() {
    let shop = Shop::open(&[]);
    shop.instance.publish(LATEST);
    let reader = token(&shop.instance, "dashboard", &["reports:read"]);
    let license = &shop.in_file;
    let mut asked = question(license, "shop.com");
    asked["plugin"] = json!("acme-forms");
    asked["wp_version"] = json!("6.9.1");
    asked["php_version"] = json!("8.3.12-1ubuntu");
    for _ in 0..2 {
        assert_eq!(shop.server.ask(&asked).code(), "ok");
    }
    // Of no plugin: one that is not covered, one that nobody knows, and what is no text.
    for (plugin, wordpress) in [
        (json!("acme-pdf"), json!("nonsense")),
        (json!("acme-none"), json!(["6.9"])),
        (json!({ "a": 1 }), Value::Null),
    ] {
        asked["plugin"] = plugin;
        asked["wp_version"] = wordpress;
        assert_eq!(shop.server.ask(&asked).code(), "ok");
    }
    // A stranger adds no plugin and no version.
    let mut stranger = question(&License::new(), "shop.com");
    stranger["plugin"] = json!("acme-forms");
    stranger["wp_version"] = json!("6.1");
    assert_eq!(shop.server.ask(&stranger).code(), "unknown_license");
    for version in ["1.0.0", LATEST] {
        let updates = shop
            .server
            .updates(license, "shop.com", &format!("&current_version={version}"));
        assert_eq!(updates.status, 200);
    }
    assert_eq!(shop.server.updates(license, "other.com", "").status, 403);

    let day = Utc::now().date_naive();
    let none = json!({ "day": day, "counts": {
        "validations": { "ok": 3, "unknown_license": 1 }, "php": { "8.3": 3 },
    }});
    let forms = json!({ "day": day, "plugin": "acme-forms", "counts": {
        "validations": { "ok": 2 }, "wordpress": { "6.9": 2 }, "php": { "8.3": 2 },
        "updates": { "update": 1, "up_to_date": 1, "bound_elsewhere": 1 },
    }});
    let answer = get(&shop, &reader, "history?days=2").json();
    if Utc::now().date_naive() != day {
        return;
    }
    assert_eq!(
        answer,
        json!({ "days": 2, "since": day.pred_opt(), "history": [none, forms] })
    );
    let one = get(&shop, &reader, "history?slug=acme-forms").json();
    assert_eq!((&one["days"], &one["history"]), (&json!(30), &json!([forms])));
    assert_eq!(get(&shop, &reader, "history?slug=acme-none").status, 404);

    // The end of the server stores it, and the next one adds to it.
    let Shop { instance, server, .. } = shop;
    server.stop();
    let printed = stdout_json(&instance, &["usage", "--history", "acme-forms", "--days", "2"]);
    assert_eq!(printed["history"], json!([forms]));
    let again = Server::start(&instance);
    assert_eq!(
        again
            .updates(license, "shop.com", &format!("&current_version={LATEST}"))
            .status,
        200
    );
    again.stop();
    let printed = stdout_json(&instance, &["usage", "--history", "acme-forms", "--days", "2"]);
    assert_eq!(printed["history"][0]["counts"]["updates"]["up_to_date"], 2);
    let table = countersign(&instance).args(["usage", "--history"]).output().unwrap();
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.contains("PHP, by validations: 8.3 100.0 %"), "{table}");
    assert!(!instance.file("store/history.jsonl").exists());
}

#[test]
fn reports_need_their_scope_and_nothing_else_opens_them() {
    let shop = Shop::open(&[]);
    let reader = token(&shop.instance, "dashboard", &["reports:read"]);
    let refused = |bearer: &str, report: &str, status: u16, code: &str| {
        let answer = get(&shop, bearer, report);
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (status, code),
            "{report}: {}",
            answer.text()
        );
    };
    for report in ["review", "history", "usage/acme-forms"] {
        refused("", report, 401, "unauthorized");
        refused("Bearer cst_wrong", report, 401, "unauthorized");
        refused(&shop.bearer, report, 403, "insufficient_scope");
    }
    for malformed in [
        "usage/acme-forms?days=0",
        "usage/acme-forms?days=1&days=2",
        "usage/acme-forms?day=1",
        "review?x=1",
        "history?days=0",
        "history?slug=A",
        "history?days=1&days=2",
    ] {
        refused(&reader, malformed, 400, "malformed_request");
    }
    let post = request(
        shop.server.address,
        "POST",
        "/api/v1/reports/review",
        &[("Authorization", &reader)],
        b"",
    );
    assert_eq!((post.status, post.header("allow")), (405, Some("GET, HEAD")));
    management::run(&shop.instance, &["token", "revoke", "dashboard"]);
    refused(&reader, "review", 401, "unauthorized");
}

#[test]
fn a_license_with_a_new_key_keeps_the_copies_of_the_old_one() {
    let shop = Shop::open(&[]);
    put_secret(&shop.instance, "keys/downloads.key", &SECRET);
    let reader = token(&shop.instance, "dashboard", &["reports:read"]);
    let old = license_of(&shop.issue("1", &forms()));
    let rekeyed = shop.send(
        "POST",
        &format!("/{}/rekey", old.id),
        &[("Idempotency-Key", "rekey")],
        &json!({}),
    );
    let new = license_of(&rekeyed);
    let other = license_of(&shop.issue("2", &forms()));
    let mut asked = Vec::new();
    for (license, given) in [(&new, &old), (&other, &new)] {
        let site = format!("{}.example", asked.len());
        let mut question = question(license, &site);
        let today = chrono::Utc::now().date_naive();
        question["build_id"] = json!(build_id(&SECRET, given, &site, today, "acme-forms", LATEST));
        assert_eq!(shop.server.ask(&question).code(), "ok");
        asked.push(site);
    }
    // Reports are written a moment after the answer, and the server reads a new key for downloads within seconds.
    eventually("the other license's site is in the report, and no other", || {
        let odd = get(&shop, &reader, "review").json()["odd_copies"].clone();
        odd.as_array().unwrap().len() == 1 && odd[0]["host"] == json!(asked[1])
    });
}
