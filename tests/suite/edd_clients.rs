//! `serve.compat = ["edd"]`: clients of Easy Digital Downloads, in the shapes of their requests, from the same gate as our own.

use std::fs;

use serde_json::{Value, json};

use crate::hosted::{hosting, put_secret};
use crate::support::instance::{LATEST, sha256};
use crate::support::{Instance, License, Response, Server, eventually, get, request};

const KEY: &str = "cc22c1ec86304b36883440e2e84cddff";

const ON: [&str; 4] = ["--foreign-keys", "true", "--compat", "edd"];

fn license(key: &str) -> License {
    License {
        key: key.to_owned(),
        id: sha256(&key.to_lowercase()),
    }
}

/// An instance whose plugin `acme-forms` is download 12, "Acme Forms".
fn instance(tables: &[String]) -> Instance {
    let (instance, _) = hosting(tables, &[("acme-forms", &[LATEST], true)]);
    put_secret(&instance, "keys/downloads.key", &crate::hosted::SECRET);
    let file = instance.file("registry/plugins/acme-forms.toml");
    let entry = fs::read_to_string(&file).unwrap();
    fs::write(
        &file,
        format!("edd_item_id = [12, 99]\nedd_item_name = 'Acme Forms'\n{entry}"),
    )
    .unwrap();
    instance
}

fn form(fields: &[(&str, &str)]) -> String {
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    form.extend_pairs(fields);
    form.finish()
}

/// What the classic client sends: a form to the shop's root.
fn post(server: &Server, fields: &[(&str, &str)]) -> Response {
    let kind = ("Content-Type", "application/x-www-form-urlencoded");
    let agent = ("User-Agent", "WordPress/6.5; https://agent.example");
    request(server.address, "POST", "/", &[kind, agent], form(fields).as_bytes())
}

fn ask(server: &Server, action: &str, site: &str) -> Value {
    let fields = [
        ("edd_action", action),
        ("license", KEY),
        ("item_id", "12"),
        ("item_name", "Acme%20Forms"),
        ("url", site),
        ("environment", "production"),
    ];
    let answer = post(server, &fields);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let by_post = answer.json();
    if action == "check_license" {
        // What the newer client sends: a query.
        let asked = get(server.address, &format!("/?{}", form(&fields)));
        assert_eq!(asked.json(), by_post);
        assert_eq!(get(server.address, &format!("/edd?{}", form(&fields))).json(), by_post);
    }
    by_post
}

#[test]
fn without_the_setting_the_root_is_what_it_was() {
    let instance = instance(&[license(KEY).toml("")]);
    let server = Server::start_with(&instance, &["--foreign-keys", "true"]);
    let query = form(&[
        ("edd_action", "check_license"),
        ("license", KEY),
        ("item_id", "12"),
        ("url", "a.com"),
    ]);
    for (path, posted) in [("/", 405), ("/edd", 404)] {
        let asked = get(server.address, &format!("{path}?{query}"));
        assert_eq!(asked.body, get(server.address, path).body, "{path}");
        let answer = request(server.address, "POST", path, &[], query.as_bytes());
        assert_eq!(answer.status, posted, "{path}");
    }
}

#[test]
fn a_site_activates_checks_and_deactivates_with_the_words_of_edd() {
    let instance = instance(&[license(KEY).toml("")]);
    let server = Server::start_with(&instance, &ON);
    // Checking binds nothing.
    let checked = ask(&server, "check_license", "https://a.com");
    assert_eq!(
        (&checked["license"], &checked["success"]),
        (&json!("inactive"), &json!(true))
    );
    assert_eq!(
        (&checked["site_count"], &checked["activations_left"]),
        (&json!(0), &json!(1))
    );
    let expected = json!({
        "success": true, "license": "valid", "item_id": 12, "item_name": "Acme Forms", "expires": "2099-12-31 23:59:59",
        "license_limit": 1, "site_count": 1, "activations_left": 0, "payment_id": 0, "customer_name": "",
        "customer_email": "", "price_id": false,
    });
    assert_eq!(ask(&server, "activate_license", "https://a.com/shop/"), expected);
    assert_eq!(ask(&server, "check_license", "a.com"), expected);
    assert_eq!(ask(&server, "check_license", "b.com")["license"], "site_inactive");
    let refused = ask(&server, "activate_license", "b.com");
    assert_eq!(
        (
            &refused["success"],
            &refused["license"],
            &refused["error"],
            &refused["max_sites"]
        ),
        (
            &json!(false),
            &json!("invalid"),
            &json!("no_activations_left"),
            &json!(1)
        )
    );
    // The same gate: our own clients see the same.
    assert_eq!(server.validate(&license(KEY), "b.com").json()["bound_domain"], "a.com");
    assert_eq!(ask(&server, "deactivate_license", "b.com")["license"], "failed");
    // With the number of another product, nothing is given back.
    let other = [
        ("edd_action", "deactivate_license"),
        ("license", KEY),
        ("item_id", "13"),
        ("url", "a.com"),
    ];
    assert_eq!(post(&server, &other).json()["license"], "failed");
    assert_eq!(ask(&server, "check_license", "a.com"), expected);
    let left = ask(&server, "deactivate_license", "a.com");
    assert_eq!(
        (&left["license"], &left["success"], &left["site_count"]),
        (&json!("deactivated"), &json!(true), &json!(0))
    );
    assert_eq!(server.validate(&license(KEY), "b.com").code(), "ok");
    assert_eq!(
        server.metric("countersign_requests_total{operation=\"edd\",code=\"bound_elsewhere\"}"),
        Some(1.0)
    );
    let log = server.log();
    assert!(!log.contains(KEY), "{log}");
}

#[test]
fn a_license_that_is_over_or_for_another_plugin_is_answered_in_the_words_of_edd() {
    let keys: Vec<String> = (0..5).map(|number| format!("0123456789abcdef{number:016}")).collect();
    let [active, expired, suspended, revoked, other] = &keys[..] else {
        unreachable!()
    };
    let instance = instance(&[
        license(active)
            .toml("sites = 'unlimited'")
            .replace("'unlimited'", "\"unlimited\""),
        license(expired).toml_with("2001-01-01", "", "forms = []"),
        license(suspended).toml("status = 'suspended'"),
        license(revoked).toml("status = 'revoked'"),
        license(other).toml_with("9999-12-31", "", "others = []"),
    ]);
    let server = Server::start_with(&instance, &ON);
    let asked = |action: &str, key: &str, item: &[(&str, &str)]| {
        let fields = [("edd_action", action), ("license", key), ("url", "https://a.com")];
        post(&server, &[&fields[..], item].concat()).json()
    };
    let id = [("item_id", "12")];
    for (key, checked, error) in [
        (expired, "expired", "expired"),
        (suspended, "disabled", "disabled"),
        (revoked, "disabled", "disabled"),
        (other, "invalid_item_id", "invalid_item_id"),
        (&"f".repeat(32), "invalid", "missing"),
        (&"short".to_owned(), "invalid", "missing"),
    ] {
        assert_eq!(asked("check_license", key, &id)["license"], checked, "{key}");
        let activated = asked("activate_license", key, &id);
        assert_eq!(
            (&activated["license"], &activated["error"]),
            (&json!("invalid"), &json!(error)),
            "{key}"
        );
        let version = asked("get_version", key, &id);
        assert_eq!(
            (&version["package"], &version["download_link"]),
            (&json!(""), &json!("")),
            "{version}"
        );
        assert!(!version["msg"].as_str().unwrap().is_empty());
    }
    for (item, expected) in [
        (&[("item_id", "13")][..], "invalid_item_id"),
        (&[("item_name", "Acme Maps")], "item_name_mismatch"),
        (&[], "item_name_mismatch"),
        (&[("item_id", "13"), ("item_name", "acme forms")], "inactive"),
        (&[("item_name", "Acme+Forms")], "inactive"),
        (&[("item_id", "99")], "inactive"),
    ] {
        assert_eq!(asked("check_license", active, item)["license"], expected, "{item:?}");
    }
    let lifetime = asked("check_license", other, &id);
    assert_eq!(lifetime["expires"], "lifetime");
    let unlimited = asked("activate_license", active, &id);
    assert_eq!(
        (&unlimited["license_limit"], &unlimited["activations_left"]),
        (&json!(0), &json!("unlimited"))
    );
    // Without a site in the form, the one in the User-Agent counts.
    let by_agent = post(
        &server,
        &[
            ("edd_action", "activate_license"),
            ("license", active),
            ("item_id", "12"),
        ],
    );
    assert_eq!(
        (
            by_agent.json()["license"].as_str(),
            by_agent.json()["site_count"].as_u64()
        ),
        (Some("valid"), Some(2))
    );
}

#[test]
fn the_package_is_offered_to_an_entitled_site_only_and_downloads() {
    let instance = instance(&[license(KEY).toml("")]);
    let server = Server::start_with(&instance, &ON);
    let fields = |site: &'static str| {
        [
            ("edd_action", "get_version"),
            ("license", KEY),
            ("item_name", "Acme Forms"),
            ("item_id", ""),
            ("version", "1.0.0"),
            ("slug", "acme"),
            ("author", "Acme"),
            ("url", site),
            ("beta", ""),
        ]
    };
    let before = post(&server, &fields("a.com")).json();
    assert_eq!((&before["package"], &before["new_version"]), (&json!(""), &json!("")));
    assert_eq!(before["msg"], "Your license is not active for this site.");
    assert_eq!(ask(&server, "activate_license", "a.com")["license"], "valid");
    let offered = post(&server, &fields("a.com")).json();
    assert_eq!(
        (&offered["new_version"], &offered["stable_version"]),
        (&json!(LATEST), &json!(LATEST))
    );
    assert_eq!((&offered["slug"], &offered["msg"]), (&json!("acme"), &json!("")));
    assert!(offered["sections"].as_str().unwrap().starts_with("a:"), "{offered}");
    let link = offered["package"].as_str().unwrap();
    assert_eq!(offered["download_link"], link);
    let path = link
        .split_once("/api/")
        .map(|(_, path)| format!("/api/{path}"))
        .unwrap();
    assert_eq!(get(server.address, &path).status, 200);
    assert_eq!(post(&server, &fields("b.com")).json()["package"], "");
    // Several plugins at once.
    let several = [
        ("edd_action", "get_version"),
        ("products[one][license]", KEY),
        ("products[one][item_id]", "12"),
        ("products[one][url]", "a.com"),
        ("products[two][license]", "0000000000000000"),
        ("products[two][item_id]", "12"),
        ("products[two][url]", "a.com"),
    ];
    let several = post(&server, &several).json();
    assert_eq!(
        (&several["one"]["new_version"], &several["two"]["new_version"]),
        (&json!(LATEST), &json!(""))
    );
    // Over: the answer names the latest release without a package, with what EDD's updaters read of whatever has a version.
    instance.write_licenses(&[license(KEY).toml_with("2001-01-01", "", "forms = []")]);
    eventually("it is over", || {
        post(&server, &fields("a.com")).json()["msg"] == "Your license has expired."
    });
    let over = post(&server, &fields("a.com")).json();
    assert_eq!(
        (&over["new_version"], &over["package"], &over["url"]),
        (&json!(LATEST), &json!(""), &json!(""))
    );
}

#[test]
fn a_staging_copy_leaves_its_seat_to_another_site() {
    let instance = instance(&[license(KEY).toml("sites = 2")]);
    let server = Server::start_with(&instance, &ON);
    let counts = |answer: &Value| (answer["site_count"].clone(), answer["activations_left"].clone());
    for (site, used, left) in [
        ("one.example", 1, 1),
        ("staging.one.example", 1, 1),
        ("two.example", 2, 0),
    ] {
        let answer = ask(&server, "activate_license", site);
        assert_eq!(
            (&answer["license"], counts(&answer)),
            (&json!("valid"), (json!(used), json!(left))),
            "{site}"
        );
    }
    assert_eq!(
        counts(&ask(&server, "check_license", "staging.one.example")),
        (json!(2), json!(0))
    );
    assert_eq!(
        ask(&server, "activate_license", "three.example")["error"],
        "no_activations_left"
    );
}

#[test]
fn what_cannot_be_asked_is_no_answer() {
    let instance = instance(&[license(KEY).toml("")]);
    let flags = ["--failures-per-minute", "5", "--requests-per-license", "3"];
    let server = Server::start_with(&instance, &[&ON[..], &flags].concat());
    let check = [
        ("edd_action", "check_license"),
        ("license", KEY),
        ("item_id", "12"),
        ("url", "a.com"),
    ];
    let statuses: Vec<_> = (0..9).map(|_| post(&server, &check).status).collect();
    assert!(
        statuses.contains(&200) && statuses.contains(&503),
        "the license's limit: {statuses:?}"
    );
    let wrong = [
        ("edd_action", "check_license"),
        ("license", "00000000000000000000000000000000"),
        ("item_id", "12"),
    ];
    let statuses: Vec<_> = (0..12).map(|_| post(&server, &wrong).status).collect();
    // A bucket that is all but empty answers one more as soon as a little is there again.
    assert!(
        statuses.starts_with(&[200]) && statuses.contains(&503),
        "the address's limit: {statuses:?}"
    );
    assert!(!statuses.contains(&429));
}

#[test]
fn each_wrong_key_of_a_request_about_several_plugins_counts() {
    let instance = instance(&[license(KEY).toml("")]);
    let server = Server::start_with(&instance, &[&ON[..], &["--failures-per-minute", "2"]].concat());
    let mut form = "edd_action=get_version".to_owned();
    for number in 0..32 {
        form += &format!("&products[{number}][license]={number:032}&products[{number}][item_id]=12");
    }
    let kind = [("Content-Type", "application/x-www-form-urlencoded")];
    let guessed = request(server.address, "POST", "/", &kind, form.as_bytes());
    assert_eq!(guessed.status, 503, "{}", guessed.text());
    let wrong = [
        ("edd_action", "check_license"),
        ("license", "00000000000000000000000000000000"),
        ("item_id", "12"),
    ];
    // A bucket that is all but empty answers one more as soon as a little is there again, and then owes for half a
    // minute.
    let next: Vec<_> = (0..3).map(|_| post(&server, &wrong).status).collect();
    assert!(next.contains(&503), "the limit of the address is used up: {next:?}");
}

#[test]
fn malformed_requests_are_problems_that_quote_nothing() {
    let instance = instance(&[license(KEY).toml("")]);
    let server = Server::start_with(&instance, &ON);
    let long = "x".repeat(3_000);
    let huge = "x".repeat(20_000);
    for (fields, status) in [
        (&[("license", KEY)][..], 400),
        (&[("edd_action", "package_download"), ("license", KEY)], 400),
        (&[("edd_action", KEY)], 400),
        (
            &[("edd_action", "check_license"), ("license", KEY), ("url", &long)],
            400,
        ),
        (
            &[("edd_action", "check_license"), ("license", KEY), ("url", &huge)],
            413,
        ),
        (
            &[
                ("edd_action", "check_license"),
                ("license", KEY),
                ("item_id", "12"),
                ("url", "ftp://a.com"),
            ],
            422,
        ),
        (
            &[
                ("edd_action", "activate_license"),
                ("license", KEY),
                ("item_id", "12"),
                ("url", KEY),
            ],
            422,
        ),
    ] {
        let answer = post(&server, fields);
        assert_eq!(answer.status, status, "{}", answer.text());
        assert!(!answer.text().contains(KEY), "{}", answer.text());
    }
    let json_body = [("Content-Type", "application/json")];
    assert_eq!(request(server.address, "POST", "/", &json_body, b"{}").status, 415);
    assert!(!server.log().contains(KEY));
}
