//! Reports of the management API: what sites run, and what looks like abuse, as the commands say it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::hosted::{SECRET, put_secret};
use crate::management::{self, Shop, forms, stdout_json, token};
use crate::support::instance::{LATEST, question};
use crate::support::issued::license_of;
use crate::support::{Response, eventually, post_json, request};
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
    let empty = json!({ "odd_copies": [], "many_hosts": [], "many_moves": [], "many_first_copies": [], "claims": [] });
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
    eventually("the report is stored", Duration::from_secs(10), || {
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
    for report in ["review", "usage/acme-forms"] {
        refused("", report, 401, "unauthorized");
        refused("Bearer cst_wrong", report, 401, "unauthorized");
        refused(&shop.bearer, report, 403, "insufficient_scope");
    }
    for malformed in [
        "usage/acme-forms?days=0",
        "usage/acme-forms?days=1&days=2",
        "usage/acme-forms?day=1",
        "review?x=1",
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
    eventually(
        "the other license's site is told, and no other",
        Duration::from_secs(40),
        || {
            let odd = get(&shop, &reader, "review").json()["odd_copies"].clone();
            odd.as_array().unwrap().len() == 1 && odd[0]["host"] == json!(asked[1])
        },
    );
}
