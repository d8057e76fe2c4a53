//! Validation: each row of the table of results with its full body, and each sentence of the interface about it.

use chrono::{DateTime, Days, Utc};
use serde_json::{Value, json};

use crate::support::instance::question;
use crate::support::{Instance, License, Response, Server, post_json};

/// A statement on a license of `Instance::new`, with what is not said as an active one has it.
fn active(site_url: &str, domain: &str) -> serde_json::Value {
    json!({
        "status": "active", "code": "ok", "message": "ok",
        "modules": ["forms"], "features": { "forms": ["pdf", "api"] },
        "expires": "2099-12-31", "grace_period_hours": 72, "site_url": site_url, "domain": domain,
    })
}

/// A statement that grants nothing.
fn nothing(status: &str, code: &str, message: &str, expires: &str) -> serde_json::Value {
    json!({
        "status": status, "code": code, "message": message,
        "modules": [], "features": {}, "expires": expires, "grace_period_hours": 0,
        "site_url": "a.com", "domain": "a.com",
    })
}

fn assert_statement(response: &Response, expected: serde_json::Value) {
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(response.header("content-type"), Some("application/json"));
    assert_eq!(response.header("cache-control"), Some("no-store"));
    assert_eq!(response.json(), statement_like(response, expected));
    let issued_at = response.json()["issued_at"].as_str().unwrap().to_owned();
    assert_eq!(issued_at.len(), "2026-11-20T10:17:03.123Z".len(), "milliseconds, UTC");
    let age = Utc::now() - issued_at.parse::<DateTime<Utc>>().unwrap();
    assert!((0..60).contains(&age.num_seconds()), "issued now: {issued_at}");
}

fn serve(license: &License, more: &str) -> (Instance, Server) {
    let instance = Instance::with_licenses(&[license.toml(more)]);
    let server = Server::start(&instance);
    (instance, server)
}

/// An expected statement: what `given` says over the members every statement has.
fn statement_like(response: &Response, given: Value) -> Value {
    let received = response.json();
    let mut expected = json!({
        "issued_at": received["issued_at"], "key_id": received["key_id"], "license_id": received["license_id"],
        "signature": received["signature"],
    });
    for (name, value) in given.as_object().unwrap() {
        expected[name] = value.clone();
    }
    expected
}

#[test]
fn an_unbound_license_is_bound_to_the_first_site_and_stays_bound() {
    let license = License::new();
    let (_instance, server) = serve(&license, "");
    let site = "https://www.Example.com:8443/blog";
    for _ in 0..2 {
        assert_statement(&server.validate(&license, site), active(site, "example.com"));
    }
    assert_statement(
        &server.validate(&license, "http://example.com"),
        active("http://example.com", "example.com"),
    );
}

#[test]
fn bound_elsewhere_names_the_first_bound_domain() {
    let license = License::new();
    let (_instance, server) = serve(&license, "sites = 2");
    server.validate(&license, "first.com");
    server.validate(&license, "second.com");
    let mut expected = nothing(
        "invalid",
        "bound_elsewhere",
        "This license is in use on another site.",
        "2099-12-31",
    );
    expected["bound_domain"] = json!("first.com");
    assert_statement(&server.validate(&license, "a.com"), expected);
    assert_eq!(
        server.validate(&license, "second.com").code(),
        "ok",
        "a bound host stays bound"
    );
}

#[test]
fn an_unknown_key_gets_a_signed_refusal_without_an_expiry() {
    let (_instance, server) = serve(&License::new(), "");
    let mut expected = nothing("invalid", "unknown_license", "This license key is not known.", "");
    expected.as_object_mut().unwrap().remove("expires");
    assert_statement(&server.validate(&License::new(), "a.com"), expected);
}

#[test]
fn every_statement_names_the_license_whatever_it_says_and_however_the_key_was_typed() {
    let [good, expired, suspended, revoked, unknown] = std::array::from_fn(|_| License::new());
    let instance = Instance::with_licenses(&[
        good.toml(""),
        expired.toml_with("2001-01-01", "", "forms = []"),
        suspended.toml("status = \"suspended\""),
        revoked.toml("status = \"revoked\""),
    ]);
    let server = Server::start(&instance);
    for (license, site, code) in [
        (&good, "a.com", "ok"),
        (&good, "b.com", "bound_elsewhere"),
        (&expired, "a.com", "expired"),
        (&suspended, "a.com", "suspended"),
        (&revoked, "a.com", "revoked"),
        (&unknown, "a.com", "unknown_license"),
    ] {
        let typed = License {
            key: format!(" {}\n", license.key.to_lowercase().replace('-', " ")),
            ..license.clone()
        };
        let answer = server.validate(&typed, site);
        assert_eq!(
            (answer.code(), answer.json()["license_id"].as_str()),
            (code.to_owned(), Some(&*license.id))
        );
    }
    let left = post_json(server.address, "/api/v1/release-site", &question(&good, "a.com"));
    assert_eq!(
        (left.code(), left.json()["license_id"].as_str()),
        ("released".to_owned(), Some(&*good.id))
    );
}

#[test]
fn a_license_is_valid_through_the_end_of_its_last_day() {
    let last_day = License::new();
    let past = License::new();
    let modules = "forms = [\"pdf\", \"api\"]";
    // The day may turn while the test runs; tomorrow and yesterday do not.
    let day = |days: i64| match days {
        days if days < 0 => Utc::now().date_naive() - Days::new(days.unsigned_abs()),
        days => Utc::now().date_naive() + Days::new(days.unsigned_abs()),
    };
    let tables = [
        last_day.toml_with(&day(1).to_string(), "", modules),
        past.toml_with(&day(-1).to_string(), "", modules),
    ];
    let instance = Instance::with_licenses(&tables);
    let server = Server::start(&instance);
    let mut valid = active("a.com", "a.com");
    valid["expires"] = json!(day(1).to_string());
    assert_statement(&server.validate(&last_day, "a.com"), valid);
    let expired = nothing("expired", "expired", "This license has expired.", &day(-1).to_string());
    assert_statement(&server.validate(&past, "a.com"), expired);
}

#[test]
fn suspended_and_revoked_licenses_say_so_and_bind_nobody() {
    let license = License::new();
    let (instance, server) = serve(&license, "status = \"suspended\"");
    let suspended = nothing("suspended", "suspended", "This license is suspended.", "2099-12-31");
    assert_statement(&server.validate(&license, "a.com"), suspended);
    server.stop();

    instance.write_licenses(&[license.toml("status = \"revoked\"")]);
    let server = Server::start(&instance);
    assert_statement(
        &server.validate(&license, "a.com"),
        nothing("revoked", "revoked", "This license was revoked.", "2099-12-31"),
    );
    server.stop();

    instance.write_licenses(&[license.toml("")]);
    let server = Server::start(&instance);
    assert_eq!(
        server.validate(&license, "b.com").code(),
        "ok",
        "neither had bound a.com"
    );
}

#[test]
fn the_nonce_is_echoed_as_sent_and_absent_when_not_sent() {
    let license = License::new();
    let (_instance, server) = serve(&license, "");
    for nonce in ["", "n", "\u{1F600}\" \\ \u{7f}", &"x".repeat(128)] {
        let mut question = question(&license, "a.com");
        question["nonce"] = json!(nonce);
        let mut expected = active("a.com", "a.com");
        expected["nonce"] = json!(nonce);
        assert_statement(&server.ask(&question), expected);
    }
    assert_statement(&server.validate(&license, "a.com"), active("a.com", "a.com"));
}

#[test]
fn domain_is_an_alias_of_site_url_which_wins() {
    let license = License::new();
    let (_instance, server) = serve(&license, "");
    let alias = json!({ "license_key": license.key, "domain": "alias.com" });
    assert_statement(&server.ask(&alias), active("alias.com", "alias.com"));
    let both = json!({ "license_key": license.key, "domain": "other.com", "site_url": "alias.com" });
    assert_statement(&server.ask(&both), active("alias.com", "alias.com"));
}

#[test]
fn features_have_a_key_for_every_module_and_grace_is_the_licenses_own() {
    let license = License::new();
    let table = license.toml_with(
        "2099-12-31",
        "grace_period_hours = 5",
        "maps = []\nforms = [\"b\", \"a\"]\nbase = []",
    );
    let instance = Instance::with_licenses(&[table]);
    let server = Server::start_with(&instance, &["--grace-period-hours", "9"]);
    let mut expected = active("a.com", "a.com");
    expected["modules"] = json!(["base", "forms", "maps"]);
    expected["features"] = json!({ "base": [], "forms": ["b", "a"], "maps": [] });
    expected["grace_period_hours"] = json!(5);
    assert_statement(&server.validate(&license, "a.com"), expected);
}

#[test]
fn hosts_of_the_registry_are_bound_ahead_and_a_release_frees_a_site() {
    let license = License::new();
    let (instance, server) = serve(&license, "hosts = [\"ahead.com\"]");
    assert_eq!(server.validate(&license, "a.com").json()["bound_domain"], "ahead.com");
    assert_eq!(server.validate(&license, "https://ahead.com").code(), "ok");
    server.stop();

    instance.write_licenses(&[license.toml("")]);
    let server = Server::start(&instance);
    assert_eq!(server.validate(&license, "old.com").code(), "ok");
    assert_eq!(server.validate(&license, "new.com").json()["bound_domain"], "old.com");
    server.stop();

    let now = Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
    instance.write_licenses(&[
        license.toml("").replace("\n\n\n", "\n\n") + &format!("[license.released]\n\"old.com\" = {now}\n")
    ]);
    let server = Server::start(&instance);
    assert_eq!(server.validate(&license, "new.com").code(), "ok");
    assert_eq!(server.validate(&license, "old.com").json()["bound_domain"], "new.com");
}

#[test]
fn local_hosts_are_bound_allowed_or_refused_as_configured() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    let server = Server::start_with(&instance, &["--local-hosts", "allow"]);
    for site in ["localhost", "mysite.test", "http://192.168.1.10"] {
        assert_eq!(server.validate(&license, site).code(), "ok", "{site}");
        let update = server.updates(&license, site, "");
        assert_eq!(update.code(), "license_not_bound", "{site}");
        assert!(update.text().contains("is a trial here"), "{}", update.text());
    }
    assert_eq!(
        server.validate(&license, "real.com").code(),
        "ok",
        "nothing was stored for the local ones"
    );
    server.stop();

    let server = Server::start_with(&instance, &["--local-hosts", "refuse"]);
    let refused = server.validate(&license, "localhost");
    assert_eq!(
        (refused.status, refused.json()["reason"].as_str()),
        (422, Some("local_host"))
    );
    server.stop();

    let other = License::new();
    instance.write_licenses(&[other.toml("")]);
    let server = Server::start_with(&instance, &["--accept-dropped-licenses"]);
    assert_eq!(server.validate(&other, "localhost").code(), "ok");
    assert_eq!(
        server.validate(&other, "real.com").json()["bound_domain"],
        "localhost",
        "bind is the default"
    );
    assert_eq!(server.updates(&other, "localhost", "").status, 200);
    server.stop();
    let server = Server::start_with(&instance, &["--local-hosts", "allow"]);
    assert_eq!(
        server.updates(&other, "localhost", "").code(),
        "license_not_bound",
        "no updates, no matter which site was bound before"
    );
}

#[test]
fn an_unknown_field_is_ignored_and_the_content_type_may_be_left_out() {
    let license = License::new();
    let (_instance, server) = serve(&license, "");
    let mut question = question(&license, "a.com");
    question["php_version"] = json!({ "major": 8 });
    assert_statement(&server.ask(&question), active("a.com", "a.com"));
    let body = question.to_string();
    let response = crate::support::request(server.address, "POST", "/api/v1/validate-license", &[], body.as_bytes());
    assert_statement(&response, active("a.com", "a.com"));
}
