//! Updates: the manifest's bytes for entitled sites, `{}` for sites that are up to date, and a reason for all others.

use chrono::{Days, Utc};
use serde_json::json;

use crate::support::instance::{LATEST, manifest};
use crate::support::server::updates;
use crate::support::{Instance, License, Response, Server, eventually, get, request};

fn assert_manifest(response: &Response, version: &str) {
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(response.header("content-type"), Some("application/json"));
    assert_eq!(response.header("cache-control"), Some("no-store"));
    assert_eq!(response.text(), manifest(version), "byte for byte");
}

fn assert_up_to_date(response: &Response) {
    assert_eq!((response.status, response.text().as_str()), (200, "{}"));
    assert_eq!(response.header("cache-control"), Some("no-store"));
}

fn bound(tables: impl Fn(&License) -> String) -> (License, Instance, Server) {
    let license = License::new();
    let instance = Instance::with_licenses(&[tables(&license)]);
    let server = Server::start(&instance);
    assert_eq!(server.validate(&license, "a.com").code(), "ok");
    (license, instance, server)
}

#[test]
fn an_entitled_site_gets_the_manifest_untouched_until_it_has_it() {
    let (license, _instance, server) = bound(|license| license.toml(""));
    for older in [
        "",
        "&current_version=1.1.9",
        "&current_version=1.2.0-rc1",
        "&current_version=1.2",
    ] {
        assert_manifest(&server.updates(&license, "https://www.a.com/x", older), LATEST);
    }
    for same_or_newer in ["1.2.0", "1.2.0.1", "2.0-beta"] {
        assert_up_to_date(&server.updates(&license, "a.com", &format!("&current_version={same_or_newer}")));
    }
    for no_version in ["", "latest", "v1.2.0", "1.2.0%00"] {
        assert_manifest(
            &server.updates(&license, "a.com", &format!("&current_version={no_version}")),
            LATEST,
        );
    }
}

#[test]
fn a_site_on_a_channel_gets_its_pre_releases_if_the_entry_and_its_license_allow_that() {
    let listed = License::new();
    let other = License::new();
    let tables = [listed.toml("channels = [\"beta\"]"), other.toml("")];
    let instance = Instance::with_licenses(&tables);
    let entry = |channels: &str| {
        let text = format!(
            "module = \"forms\"\nrepository = \"../../src\"\ndownload_url = \"https://dl.example/{{version}}.zip\"\n{channels}\n"
        );
        instance.write("registry/plugins/acme-forms.toml", &text);
    };
    let versions = [
        "2.0.0-alpha.1",
        "1.3.0-rc.0",
        "1.3.0-beta.2",
        "1.3.0-dev",
        LATEST,
        "1.2.0-beta.9",
    ];
    instance.publish_all("releases", LATEST, &versions.map(|version| (version, false)));
    let offered = |server: &Server, license: &License, query: &str| {
        let response = server.updates(license, "a.com", query);
        let version = response.json()["version"].as_str().map(str::to_owned);
        assert_eq!(response.status, 200, "{}", response.text());
        version.unwrap_or_default()
    };
    for (channels, asked, of_listed, of_other) in [
        ("", "beta", LATEST, LATEST),
        ("[channels]\nbeta = \"off\"", "beta", LATEST, LATEST),
        ("[channels]\nbeta = \"licensed\"", "beta", "1.3.0-rc.0", "1.3.0-rc.0"),
        ("[channels]\nbeta = \"listed\"", "beta", "1.3.0-rc.0", LATEST),
        ("[channels]\nbeta = \"listed\"", "rc", "1.3.0-rc.0", LATEST),
        (
            "[channels]\nbeta = \"listed\"\nalpha = \"listed\"",
            "alpha",
            LATEST,
            LATEST,
        ),
        (
            "[channels]\nalpha = \"licensed\"",
            "alpha",
            "2.0.0-alpha.1",
            "2.0.0-alpha.1",
        ),
        ("[channels]\nalpha = \"licensed\"", "stable", LATEST, LATEST),
        ("[channels]\nalpha = \"licensed\"", "nightly", LATEST, LATEST),
        ("[channels]\nalpha = \"licensed\"", "", LATEST, LATEST),
    ] {
        entry(channels);
        let server = Server::start(&instance);
        for (license, expected) in [(&listed, of_listed), (&other, of_other)] {
            server.validate(license, "a.com");
            let query = format!("&current_version=1.1&channel={asked}");
            assert_eq!(offered(&server, license, &query), expected, "{channels} {asked}");
        }
        // A site that runs a beta is not taken back to the release before it.
        assert_eq!(offered(&server, &other, "&current_version=1.3.0-beta.3"), "");
        let twice = server.updates(&listed, "a.com", "&channel=beta&channel=beta");
        assert_eq!((twice.status, twice.code().as_str()), (400, "malformed_request"));
    }
}

#[test]
fn an_index_that_names_another_release_as_the_latest_of_a_channel_is_refused() {
    let instance = Instance::new();
    instance.publish_all("releases", LATEST, &[("1.3.0-beta.1", false), (LATEST, false)]);
    let index = std::fs::read_to_string(instance.file("releases/index.json")).unwrap();
    let changed = index.replace(
        "\"latest\":\"1.2.0\"",
        "\"latest\":\"1.2.0\",\"channels\":{\"beta\":\"1.2.0\"}",
    );
    assert_ne!(changed, index);
    instance.write("releases/index.json", &changed);
    let (exit, output) = crate::support::upstream::run(crate::support::server::countersign(&instance).arg("doctor"));
    assert_ne!(exit, Some(0));
    assert!(output.contains("acme-forms"), "{output}");
}

#[test]
fn a_plugin_with_nothing_published_is_up_to_date() {
    let (license, _instance, server) = bound(|license| license.toml_with("2099-12-31", "", "maps = []"));
    assert_up_to_date(&get(
        server.address,
        &updates("acme-maps", &license, "a.com", "&current_version=0.1"),
    ));
    assert_up_to_date(&get(server.address, &updates("acme-maps", &license, "a.com", "")));
}

#[test]
fn domain_is_an_alias_and_unknown_parameters_are_ignored() {
    let (license, _instance, server) = bound(|license| license.toml(""));
    let target = |query: &str| format!("/api/v1/updates/acme-forms?license_key={}&{query}", license.key);
    assert_manifest(
        &get(server.address, &target("domain=a.com&edd_action=x&edd_action=y")),
        LATEST,
    );
    assert_manifest(&get(server.address, &target("domain=b.com&site_url=a.com")), LATEST);
}

#[test]
fn the_key_may_come_in_the_authorization_header() {
    let (license, _instance, server) = bound(|license| license.toml(""));
    let target = "/api/v1/updates/acme-forms?site_url=a.com";
    let ask = |value: &str| request(server.address, "GET", target, &[("Authorization", value)], b"");
    assert_manifest(&ask(&format!("License {}", license.key)), LATEST);
    assert_eq!(ask(&format!("Bearer {}", license.key)).code(), "missing_field");
    let both = format!("{target}&license_key={}", license.key);
    let twice = request(
        server.address,
        "GET",
        &both,
        &[("Authorization", &format!("License {}", license.key))],
        b"",
    );
    assert_eq!(twice.code(), "malformed_request");
}

#[test]
fn each_failed_check_is_refused_with_its_reason_and_the_license_is_judged_first() {
    let yesterday = (Utc::now().date_naive() - Days::new(1)).to_string();
    let all: Vec<License> = (0..5).map(|_| License::new()).collect();
    let [good, unbound, expired, suspended, revoked] = &all[..] else {
        unreachable!()
    };
    let tables = [
        good.toml(""),
        unbound.toml(""),
        expired.toml_with(&yesterday, "", "forms = []"),
        suspended.toml("status = \"suspended\""),
        revoked.toml("status = \"revoked\""),
    ];
    let instance = Instance::with_licenses(&tables);
    let server = Server::start(&instance);
    server.validate(good, "a.com");
    let refusal = |slug: &str, license: &License, site: &str| {
        let response = get(server.address, &updates(slug, license, site, ""));
        (response.status, response.code())
    };
    let expect = |status: u16, code: &str| (status, code.to_owned());
    for slug in ["acme-forms", "acme-maps", "acme-bare", "no-such-plugin", "NO_SLUG"] {
        assert_eq!(
            refusal(slug, &License::new(), "a.com"),
            expect(403, "unknown_license"),
            "{slug}"
        );
        assert_eq!(
            refusal(slug, expired, "a.com"),
            expect(403, "license_expired"),
            "{slug}"
        );
        assert_eq!(
            refusal(slug, suspended, "a.com"),
            expect(403, "license_suspended"),
            "{slug}"
        );
        assert_eq!(
            refusal(slug, revoked, "a.com"),
            expect(403, "license_revoked"),
            "{slug}"
        );
        assert_eq!(
            refusal(slug, unbound, "a.com"),
            expect(403, "license_not_bound"),
            "{slug}"
        );
        assert_eq!(refusal(slug, good, "b.com"), expect(403, "bound_elsewhere"), "{slug}");
    }
    assert_eq!(refusal("no-such-plugin", good, "a.com"), expect(404, "unknown_plugin"));
    assert_eq!(refusal("NO_SLUG", good, "a.com"), expect(404, "unknown_plugin"));
    assert_eq!(
        refusal("acme-bare", good, "a.com"),
        expect(404, "source_not_configured")
    );
    assert_eq!(refusal("acme-maps", good, "a.com"), expect(403, "plugin_not_covered"));
}

#[test]
fn an_expired_license_hears_of_the_latest_release_on_its_own_site_and_of_what_it_covers() {
    let yesterday = (Utc::now().date_naive() - Days::new(1)).to_string();
    let license = License::new();
    let other = License::new();
    let instance = Instance::with_licenses(&[license.toml("sites = 2"), other.toml("")]);
    let server = Server::start(&instance);
    for license in [&license, &other] {
        assert_eq!(server.validate(license, "a.com").code(), "ok");
    }
    instance.write_licenses(&[
        license.toml_with(&yesterday, "", "forms = []"),
        other.toml_with(&yesterday, "status = \"suspended\"", "forms = []"),
    ]);
    eventually("the server knows", || {
        server.updates(&license, "a.com", "").code() == "license_expired"
    });
    let latest = |slug: &str, license: &License, site: &str, more: &str| {
        let response = get(server.address, &updates(slug, license, site, more));
        assert_eq!(
            (response.status, response.header("content-type")),
            (403, Some("application/problem+json"))
        );
        response.json()["latest"].clone()
    };
    let news = json!({ "version": LATEST, "security": false });
    assert_eq!(latest("acme-forms", &license, "a.com", ""), news);
    assert_eq!(latest("acme-forms", &license, "a.com", "&current_version=0.1"), news);
    let nothing = serde_json::Value::Null;
    assert_eq!(
        latest("acme-forms", &license, "a.com", &format!("&current_version={LATEST}")),
        nothing
    );
    assert_eq!(
        latest("acme-forms", &license, "b.com", ""),
        nothing,
        "a free seat is not this site's"
    );
    assert_eq!(latest("acme-forms", &other, "a.com", ""), nothing, "suspended");
    for slug in ["acme-maps", "acme-bare", "no-such-plugin"] {
        assert_eq!(latest(slug, &license, "a.com", ""), nothing, "{slug}");
    }
}

#[test]
fn an_expired_license_hears_of_security_releases_that_its_site_lacks() {
    let yesterday = (Utc::now().date_naive() - Days::new(1)).to_string();
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    // Newest first. The second one is offered to nobody, and the oldest two are below the site's own version.
    let releases = [
        ("2.0.0", false),
        ("2.0.0-beta.1", true),
        ("1.5.0", true),
        ("1.4.0", false),
        ("1.3.0", true),
    ];
    instance.publish_all("releases", "2.0.0", &releases);
    let server = Server::start(&instance);
    assert_eq!(server.validate(&license, "a.com").code(), "ok");
    instance.write_licenses(&[license.toml_with(&yesterday, "", "forms = []")]);
    eventually("the server knows", || {
        server.updates(&license, "a.com", "").code() == "license_expired"
    });
    for (current, security) in [("1.3.0", true), ("1.4.0", true), ("1.5.0", false), ("1.9.0", false)] {
        let answer = server.updates(&license, "a.com", &format!("&current_version={current}"));
        assert_eq!(
            answer.json()["latest"],
            json!({ "version": "2.0.0", "security": security }),
            "{current}"
        );
    }
}

#[test]
fn the_update_operation_reads_the_binding_and_does_not_change_it() {
    let (license, _instance, server) = bound(|license| license.toml("sites = 2"));
    assert_eq!(server.updates(&license, "b.com", "").code(), "license_not_bound");
    assert_eq!(
        server.updates(&license, "b.com", "").code(),
        "license_not_bound",
        "asking did not bind"
    );
    assert_eq!(
        server.validate(&license, "b.com").code(),
        "ok",
        "the second site was still free"
    );
}

#[test]
fn what_sites_report_is_stored_where_it_says_something() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    let server = Server::start(&instance);
    let build_id = "018f3b2e-7c1a-7000-8000-3f1c2d4e5f60";
    let mut question = crate::support::instance::question(&license, "a.com");
    question["plugin_version"] = json!("1.0.5");
    question["build_id"] = json!(build_id);
    server.ask(&question);
    for nothing in ["", "0.0.0"] {
        question["plugin_version"] = json!(nothing);
        question["build_id"] = json!("");
        assert_eq!(server.ask(&question).code(), "ok");
    }
    server.updates(&license, "a.com", "&current_version=1.1.0");
    assert!(server.stop().success());

    let shown = crate::support::server::countersign(&instance)
        .args(["license", "show", &license.id, "--json"])
        .output()
        .unwrap();
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    let binding = &shown["bindings"][0];
    assert_eq!(binding["host"], "a.com");
    assert_eq!(
        binding["plugin_version"], "1.0.5",
        "neither empty nor 0.0.0 replaced it, nor did the update question"
    );
    assert_eq!(binding["build_id"], build_id);
    assert_eq!(binding["current_versions"], json!({ "acme-forms": "1.1.0" }));
}
