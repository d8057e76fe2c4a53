//! Releases beside the latest: going back to an older one, and security releases for licenses that have ended.

use std::collections::BTreeSet;

use chrono::{Days, Utc};
use serde_json::{Value, json};

use crate::hosted::{HostedPlugin, hosting};
use crate::support::http::Response;
use crate::support::instance::{Instance, License};
use crate::support::server::countersign;
use crate::support::{Server, eventually, get};

/// Newest first. 2.4.2 and 2.3.5 are security releases.
const VERSIONS: &[&str] = &["3.0.0", "2.4.3", "2.4.2", "2.4.1", "2.3.5", "2.3.4", "2.2.0", "1.9.0"];

const FORMS: &[HostedPlugin<'_>] = &[("acme-forms", VERSIONS, true)];

const SITE: &str = "a.com";

fn entry(instance: &Instance, more: &str) {
    let text = format!("module = \"forms\"\nrepository = \"../../src\"\n{more}\n");
    instance.write("registry/plugins/acme-forms.toml", &text);
}

/// Gives the manifests the day that the list shows. The digests in the index follow.
fn dated(instance: &Instance) {
    let path = "releases/index.json";
    let mut index: Value = serde_json::from_str(&std::fs::read_to_string(instance.file(path)).unwrap()).unwrap();
    for release in index["plugins"]["acme-forms"]["releases"].as_array_mut().unwrap() {
        let name = format!("releases/acme-forms/{}.json", release["version"].as_str().unwrap());
        let manifest = std::fs::read_to_string(instance.file(&name)).unwrap();
        let manifest = manifest.replacen("\"name\"", "\"last_updated\":\"2026-11-20 10:17:03\",\"name\"", 1);
        release["sha256"] = json!(crate::support::instance::sha256(&manifest));
        instance.write(&name, &manifest);
    }
    instance.write(path, &index.to_string());
}

/// Has the index call a release a security release, as a build does.
fn flag(instance: &Instance, version: &str) {
    let path = "releases/index.json";
    let mut index: Value = serde_json::from_str(&std::fs::read_to_string(instance.file(path)).unwrap()).unwrap();
    let releases = index["plugins"]["acme-forms"]["releases"].as_array_mut().unwrap();
    let release = releases.iter_mut().find(|release| release["version"] == version);
    release.unwrap()["security"] = json!(true);
    instance.write(path, &index.to_string());
}

fn ask(server: &Server, path: &str, license: &License, query: &str) -> Response {
    get(
        server.address,
        &format!("/api/v1/{path}?license_key={}&site_url={SITE}{query}", license.key),
    )
}

fn back(server: &Server, license: &License, current: &str) -> Vec<String> {
    let answer = ask(
        server,
        "releases/acme-forms",
        license,
        &format!("&current_version={current}"),
    );
    assert_eq!(answer.status, 200, "{}", answer.text());
    let answer = answer.json();
    let releases = answer["releases"].as_array().unwrap();
    releases
        .iter()
        .map(|release| release["version"].as_str().unwrap().to_owned())
        .collect()
}

/// The status of the package behind a manifest's link.
fn download(server: &Server, manifest: &Value) -> u16 {
    let link = manifest["download_url"].as_str().unwrap();
    // The server has another port after each start.
    get(server.address, &link[link.find("/api/").unwrap()..]).status
}

#[test]
fn a_site_goes_back_as_far_as_the_entry_and_security_releases_allow() {
    let license = License::new();
    let (instance, _) = hosting(&[license.toml("")], FORMS);
    dated(&instance);
    let mut reasons = BTreeSet::new();
    for (more, current, expected) in [
        ("", "3.0.0", &[][..]),
        (
            "[back]\nallow = \"major\"",
            "3.0.0",
            &["2.4.3", "2.4.2", "2.4.1", "2.3.5", "2.3.4"],
        ),
        ("", "2.4.3", &["2.4.2", "2.4.1", "2.3.5", "2.3.4", "2.2.0"]),
        ("[back]\nallow = \"off\"", "2.4.3", &[]),
        ("[back]\noldest = \"2.4\"", "2.4.3", &["2.4.2", "2.4.1"]),
        ("withhold = [\"2.4.1\"]", "2.4.3", &["2.4.2", "2.3.5", "2.3.4", "2.2.0"]),
        // Nobody goes back below what closed a hole in the release that the site runs, or in an older one.
        ("security = [\"2.4.2\"]", "2.4.3", &["2.4.2"]),
        ("security = [\"2.4.2\"]", "2.4.2", &[]),
        ("security = [\"2.4.2\", \"2.3.5\"]", "2.4.1", &["2.3.5"]),
        (
            "[security]\nreleases = [\"2.3.5\"]",
            "2.4.3",
            &["2.4.2", "2.4.1", "2.3.5"],
        ),
    ] {
        entry(&instance, more);
        let server = Server::start(&instance);
        server.validate(&license, SITE);
        assert_eq!(back(&server, &license, current), expected, "{more} {current}");
        for version in VERSIONS {
            let path = format!("releases/acme-forms/{version}");
            let answer = ask(&server, &path, &license, &format!("&current_version={current}"));
            match expected.contains(version) {
                true => {
                    assert_eq!(answer.json()["version"], *version);
                    assert_eq!(download(&server, &answer.json()), 200, "{more} {version}");
                }
                false => {
                    assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"), "{version}");
                    let detail = answer.json()["detail"].as_str().unwrap().to_owned();
                    reasons.insert(detail);
                }
            }
        }
    }
    let expected = [
        "2.3.5 closed a hole that this version has, so no site goes back below it.",
        "2.4.2 closed a hole that this version has, so no site goes back below it.",
        "A site goes back to one of the newest releases that it may have, and this version is older.",
        "The vendor has taken this version back.",
        "The vendor lets no site go back below 2.4.",
        "The vendor lets no site go back.",
        "The vendor lets sites go back within one major version only.",
        "This version is not older than the installed one.",
    ];
    assert_eq!(reasons.iter().collect::<Vec<_>>(), expected);
}

#[test]
fn whoever_may_not_have_updates_goes_back_nowhere() {
    let all: Vec<License> = (0..5).map(|_| License::new()).collect();
    let [good, other, expired, suspended, maps] = &all[..] else {
        unreachable!()
    };
    let yesterday = (Utc::now().date_naive() - Days::new(1)).to_string();
    let tables = [
        good.toml(""),
        other.toml(""),
        expired.toml_with(&yesterday, "", "forms = []"),
        suspended.toml("status = \"suspended\""),
        maps.toml_with("2099-12-31", "", "maps = []"),
    ];
    let (instance, _) = hosting(&tables, FORMS);
    dated(&instance);
    let server = Server::start(&instance);
    server.validate(good, SITE);
    server.validate(maps, SITE);
    let code = |license: &License, path: &str, query: &str| ask(&server, path, license, query).code();
    let current = "&current_version=2.4.3";
    for path in [
        "releases/acme-forms",
        "releases/acme-forms/2.4.2",
        "security-updates/acme-forms",
    ] {
        for (license, expected) in [
            (other, "license_not_bound"),
            (expired, "license_expired"),
            (suspended, "license_suspended"),
            (maps, "plugin_not_covered"),
            (&License::new(), "unknown_license"),
        ] {
            assert_eq!(code(license, path, current), expected, "{path}");
        }
        assert_eq!(code(good, path, ""), "missing_field");
        assert_eq!(code(good, path, "&current_version=latest"), "malformed_request");
        let long = format!("&current_version={}", "1".repeat(200));
        assert_eq!(code(good, path, &long), "field_too_long");
    }
    for path in [
        "releases/acme-forms/../acme-forms",
        "releases/acme-forms/9.9.9",
        "releases/acme-forms/2.4.2/x",
        "releases/acme-forms/v2.4.2",
        "releases/acme-forms/2.4.2%00",
        "releases/acme-forms/%2e%2e",
    ] {
        assert_eq!(ask(&server, path, good, current).status, 404, "{path}");
    }
    assert_eq!(code(good, "releases/nosuch", current), "unknown_plugin");
}

/// What a site with 2.4.1 gets, by the state of its license: its answer, and the status of the download by that answer's link and by the
/// links that it had when it was active.
#[test]
fn expired_licenses_get_security_releases_of_their_line_where_the_entry_delivers_them_and_nobody_else_does() {
    let days_ago = |days| (Utc::now().date_naive() - Days::new(days)).to_string();
    let names = [
        "active",
        "expired",
        "long expired",
        "suspended",
        "revoked",
        "released",
        "uncovered",
    ];
    let licenses: Vec<License> = names.iter().map(|_| License::new()).collect();
    let valid = || licenses.iter().map(|license| license.toml("")).collect::<Vec<_>>();
    let tables = || {
        let [active, expired, long, suspended, revoked, released, uncovered] = &licenses[..] else {
            unreachable!()
        };
        vec![
            active.toml(""),
            expired.toml_with(&days_ago(2), "", "forms = []"),
            long.toml_with(&days_ago(400), "", "forms = []"),
            suspended.toml("status = \"suspended\""),
            revoked.toml("status = \"revoked\""),
            released.toml(&format!("released = {{ \"*\" = {} }}", "2099-01-01T00:00:00Z")),
            uncovered.toml_with("2099-12-31", "", "maps = []"),
        ]
    };
    for (rule, security, expected) in [
        // What the entry calls a security release, and the answers in the order of the names.
        ("tell", "2.4.2", ["2.4.2", "license_expired", "license_expired"]),
        ("deliver", "2.4.2", ["2.4.2", "2.4.2", "license_expired"]),
        // A feature release alone.
        ("deliver", "2.2.0", ["", "", "license_expired"]),
        // Of another line.
        ("deliver", "3.0.0", ["", "", "license_expired"]),
        // Withheld.
        ("withheld", "2.4.2", ["", "", "license_expired"]),
    ] {
        let (instance, _) = hosting(&valid(), FORMS);
        dated(&instance);
        entry(&instance, "");
        let server = Server::start(&instance);
        let links: Vec<[Value; 2]> = licenses
            .iter()
            .map(|license| {
                server.validate(license, SITE);
                let back = ask(&server, "releases/acme-forms/2.4.2", license, "&current_version=2.4.3");
                let newest = ask(&server, "updates/acme-forms", license, "&current_version=2.4.1");
                assert_eq!(newest.json()["version"], "3.0.0");
                [back.json(), newest.json()]
            })
            .collect();
        let more = match rule {
            "withheld" => "withhold = [\"2.4.2\"]\n",
            _ => "",
        };
        let word = if rule == "tell" { "tell" } else { "deliver" };
        entry(
            &instance,
            &format!("{more}[security]\nreleases = [\"{security}\"]\nexpired = \"{word}\"\nfor = \"1y\""),
        );
        instance.write_licenses(&tables());
        eventually("the licenses are as they are", || {
            ask(&server, "updates/acme-forms", &licenses[3], "&current_version=2.4.1").code() == "license_suspended"
                && (rule == "tell")
                    == (ask(
                        &server,
                        "security-updates/acme-forms",
                        &licenses[1],
                        "&current_version=2.4.1",
                    )
                    .status
                        == 403)
        });
        let refused = [
            "license_suspended",
            "license_revoked",
            "license_not_bound",
            "plugin_not_covered",
        ];
        let expected = expected.iter().chain(&refused);
        for (((name, license), links), expected) in names.iter().zip(&licenses).zip(&links).zip(expected) {
            // The interface: an expired license gets no update, whatever the entry says.
            let update = ask(&server, "updates/acme-forms", license, "&current_version=2.4.1");
            assert_eq!(update.status, if *name == "active" { 200 } else { 403 }, "{name}");
            let answer = ask(
                &server,
                "security-updates/acme-forms",
                license,
                "&current_version=2.4.1",
            );
            let found = match answer.status {
                200 => answer.json()["version"].as_str().unwrap_or_default().to_owned(),
                _ => answer.code(),
            };
            assert_eq!(found, *expected, "{rule} {security}: {name}");
            if found == "2.4.2" {
                assert_eq!(download(&server, &answer.json()), 200, "{rule}: {name}");
            }
            // Links from before are of no line, even where they lead to a security release.
            for link in links {
                let status = download(&server, link);
                let is_active = *name == "active";
                assert_eq!(status, if is_active { 200 } else { 403 }, "{rule} {security}: {name}");
            }
        }
    }
}

#[test]
fn a_link_of_an_expired_license_is_as_good_as_the_line_that_the_entry_delivers_now() {
    let license = License::new();
    let (instance, _) = hosting(&[license.toml("")], FORMS);
    dated(&instance);
    let rules = |lines: &str| {
        let table = format!("[security]\nreleases = [\"2.4.2\"]\nexpired = \"deliver\"\nlines = \"{lines}\"");
        entry(&instance, &table);
    };
    rules("all");
    let server = Server::start(&instance);
    server.validate(&license, SITE);
    server.stop();
    let yesterday = (Utc::now().date_naive() - Days::new(1)).to_string();
    instance.write_licenses(&[license.toml_with(&yesterday, "", "forms = []")]);
    let offer = |server: &Server, current: &str| {
        let query = format!("&current_version={current}");
        ask(server, "security-updates/acme-forms", &license, &query).json()
    };
    // The narrowest line that has the site's version and 2.4.2.
    let sites = [("2.4.1", "minor"), ("2.3.4", "major"), ("1.9.0", "all")];
    let server = Server::start(&instance);
    let links = sites.map(|(current, _)| offer(&server, current));
    for link in &links {
        assert_eq!((&link["version"], download(&server, link)), (&json!("2.4.2"), 200));
    }
    server.stop();
    for (at, lines) in ["minor", "major", "all"].into_iter().enumerate() {
        rules(lines);
        let server = Server::start(&instance);
        for (number, (link, (current, narrowest))) in links.iter().zip(sites).enumerate() {
            let is_delivered = number <= at;
            let offered = offer(&server, current)["version"] == "2.4.2";
            let sent = download(&server, link);
            assert_eq!(
                (offered, sent),
                (is_delivered, if is_delivered { 200 } else { 403 }),
                "{lines} {narrowest}"
            );
        }
        // What was counted is written at the end.
        server.stop();
    }
    // Each package that was sent is counted on this day, over all runs of the server.
    flag(&instance, "2.4.2");
    let mut report = countersign(&instance);
    report.args(["security", "report", "acme-forms", "2.4.2", "--json"]);
    let report: Value = serde_json::from_slice(&report.output().unwrap().stdout).unwrap();
    let counted = &report["releases"][0];
    assert_eq!(counted["expired"], 3 + 1 + 2 + 3, "{report}");
    let days = counted["by_day"].as_array().unwrap();
    let sum: u64 = days.iter().map(|day| day["expired"].as_u64().unwrap()).sum();
    assert_eq!(sum, 9, "{report}");
    // A renewed license has its link, too.
    instance.write_licenses(&[license.toml("")]);
    let server = Server::start(&instance);
    assert_eq!(download(&server, &links[2]), 200);
}

#[test]
fn the_report_knows_what_sites_run_whose_license_has_ended() {
    let license = License::new();
    let stranger = License::new();
    let (instance, _) = hosting(&[license.toml(""), stranger.toml("")], FORMS);
    dated(&instance);
    entry(&instance, "[security]\nreleases = [\"2.4.2\"]\nexpired = \"deliver\"");
    flag(&instance, "2.4.2");
    let server = Server::start(&instance);
    server.validate(&license, SITE);
    server.stop();
    let yesterday = (Utc::now().date_naive() - Days::new(1)).to_string();
    let ended = |license: &License| license.toml_with(&yesterday, "", "forms = []");
    instance.write_licenses(&[ended(&license), ended(&stranger)]);
    // What is reported is written at the end.
    let report = || {
        let mut report = countersign(&instance);
        report.args(["security", "report", "acme-forms", "2.4.2", "--json"]);
        let report: Value = serde_json::from_slice(&report.output().unwrap().stdout).unwrap();
        let reach = &report["releases"][0];
        (reach["have"].clone(), reach["lack"].clone(), reach["licenses"].clone())
    };
    for (current, expected) in [
        ("2.4.1", (json!(0), json!(1), json!([license.id]))),
        ("2.4.2", (json!(1), json!(0), json!([]))),
    ] {
        let server = Server::start(&instance);
        for license in [&license, &stranger] {
            let query = format!("&current_version={current}");
            let answer = ask(&server, "updates/acme-forms", license, &query);
            assert_eq!(answer.code(), "license_expired");
        }
        server.stop();
        assert_eq!(report(), expected, "{current}");
    }
}
