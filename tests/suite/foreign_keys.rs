//! `serve.foreign_keys`: keys of another system work wherever a key is read, if a license has their SHA-256 as its id.

use std::path::PathBuf;

use serde_json::json;

use crate::hosted::{hosting, link_of};
use crate::support::instance::{LATEST, question, sha256};
use crate::support::server::{countersign, updates};
use crate::support::stored::files_with;
use crate::support::{Instance, License, Server, eventually, get, post_json, request};

/// A key as EDD makes them.
const EDD: &str = "cc22c1ec86304b36883440e2e84cddff";

/// A key of five groups of five, which no check symbols of ours end.
const GROUPS: &str = "ABCDE-FGH23-45678-9ABCD-EFGH2";

const ON: [&str; 2] = ["--foreign-keys", "true"];

fn foreign(key: &str) -> License {
    License {
        key: key.to_owned(),
        id: sha256(&key.to_lowercase()),
    }
}

#[test]
fn without_the_setting_only_keys_of_our_form_are_read() {
    let license = foreign(EDD);
    let groups = foreign(GROUPS);
    let instance = Instance::with_licenses(&[license.toml(""), groups.toml("")]);
    instance.publish(LATEST);
    let server = Server::start(&instance);
    let refused = server.validate(&license, "a.com");
    assert_eq!((refused.status, refused.code()), (422, "malformed_license_key".into()));
    assert_eq!(server.validate(&groups, "a.com").code(), "license_key_checksum");
    assert_eq!(server.updates(&license, "a.com", "").code(), "malformed_license_key");
    let left = post_json(server.address, "/api/v1/release-site", &question(&license, "a.com"));
    assert_eq!(left.code(), "malformed_license_key");
}

#[test]
fn a_known_foreign_key_works_in_every_operation_in_any_case() {
    let license = foreign(EDD);
    let groups = foreign(GROUPS);
    let tables = [license.toml("sites = 2"), groups.toml("")];
    let (instance, packages) = hosting(&tables, &[("acme-forms", &[LATEST], true)]);
    let server = Server::start_with(&instance, &ON);
    assert_eq!(server.validate(&license, "a.com").code(), "ok");
    assert_eq!(server.validate(&groups, "a.com").code(), "ok");
    let shouted = License {
        key: format!(" {}\r\n", EDD.to_uppercase()),
        ..license.clone()
    };
    assert_eq!(server.validate(&shouted, "b.com").code(), "ok");
    let refused = server.validate(&shouted, "c.com");
    assert_eq!(
        (refused.code(), refused.json()["license_id"].as_str()),
        ("bound_elsewhere".to_owned(), Some(&*license.id))
    );
    let link = link_of(&server, "acme-forms", &license, "a.com");
    let package = get(server.address, &link);
    assert_eq!(package.status, 200);
    assert_eq!(package.body.len(), packages[0].bytes.len());
    let bare = format!("/api/v1/updates/acme-forms?site_url=a.com&current_version={LATEST}");
    let credentials = format!("License {EDD}");
    let in_header = request(server.address, "GET", &bare, &[("Authorization", &credentials)], b"");
    assert_eq!((in_header.status, in_header.text()), (200, "{}".to_owned()));
    let left = post_json(server.address, "/api/v1/release-site", &question(&license, "a.com"));
    assert_eq!((left.status, left.code()), (200, "released".into()));
    assert_eq!(server.validate(&shouted, "c.com").code(), "ok");
}

#[test]
fn an_unknown_foreign_key_counts_as_a_wrong_one() {
    let instance = Instance::with_licenses(&[foreign(EDD).toml("")]);
    let server = Server::start_with(&instance, &[&ON[..], &["--failures-per-minute", "4"]].concat());
    let guess = foreign("00000000000000000000000000000000");
    let refused = server.validate(&guess, "a.com");
    assert_eq!((refused.status, refused.code()), (422, "malformed_license_key".into()));
    assert_eq!(
        server.validate(&foreign(GROUPS), "a.com").code(),
        "license_key_checksum"
    );
    assert_eq!(server.updates(&guess, "a.com", "").code(), "malformed_license_key");
    let series = "countersign_requests_total{operation=\"validate\",code=\"malformed_license_key\"}";
    assert_eq!(server.metric(series), Some(1.0));
    // A bucket that is all but empty answers one more as soon as a little is there again, and then owes for 15 seconds.
    eventually("the address owes", || {
        let refused = server.validate(&guess, "a.com");
        let wait = refused
            .header("retry-after")
            .map(|seconds| seconds.parse::<u32>().unwrap());
        refused.status == 429 && wait.is_some_and(|seconds| seconds > 5)
    });
    let right = server.validate(&foreign(EDD), "a.com").status;
    assert_eq!(right, 429, "the right key, too");
}

#[test]
fn a_key_of_another_license_in_the_place_of_a_host_or_a_version_tells_nothing() {
    let own = License::new();
    let instance = Instance::with_licenses(&[foreign(EDD).toml(""), own.toml("sites = 9")]);
    instance.publish(LATEST);
    let server = Server::start_with(&instance, &ON);
    let unknown = EDD.replacen('c', "d", 1);
    let [known, guessed] = [EDD, &unknown].map(|key| {
        let host = format!("{key}.example");
        let in_host = server.ask(&json!({ "license_key": own.key, "site_url": host, "nonce": "n".repeat(129) }));
        let version = &key[..16];
        let in_version = server.updates(&own, "a.com", &format!("&current_version={version}"));
        (in_host.status, in_host.code(), in_version.status, in_version.code())
    });
    assert_eq!(known, guessed);
    assert_eq!(known.1, "field_too_long");
}

#[test]
fn a_command_takes_a_foreign_key_and_shows_no_part_of_an_unknown_one() {
    let license = foreign(EDD);
    let instance = Instance::with_licenses(&[license.toml("note = 'of the old shop'")]);
    let run = |arguments: &[&str]| countersign(&instance).args(arguments).output().unwrap();
    for key in [EDD, &EDD.to_uppercase(), &license.id, &license.id[..12]] {
        let shown = run(&["license", "show", key]);
        let text = String::from_utf8(shown.stdout).unwrap();
        assert!(shown.status.success() && text.contains("of the old shop"), "{text}");
        assert!(!text.to_lowercase().contains(EDD));
    }
    for verb in ["show", "suspend", "revoke"] {
        let unknown = EDD.replacen('c', "d", 1);
        let refused = run(&["license", verb, &unknown]);
        let stderr = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(3), "{stderr}");
        assert!(
            stderr.contains("no license with this key") && !stderr.contains(&unknown[..9]),
            "{stderr}"
        );
    }
}

#[test]
fn no_answer_log_metric_or_file_has_a_foreign_key() {
    let license = foreign(EDD);
    let instance = Instance::with_licenses(&[license.toml("sites = 9")]);
    instance.publish(LATEST);
    let server = Server::start_with(&instance, &ON);
    let mut said = Vec::new();
    for key in [EDD.to_owned(), EDD.to_uppercase()] {
        for body in [
            question(&license, "a.com"),
            json!({ "license_key": key, "site_url": key }),
            json!({ "license_key": key, "site_url": format!("https://www.{key}.example/") }),
            json!({ "license_key": key, "site_url": "b.com", "plugin_version": key }),
            json!({ "license_key": key, "site_url": "b.com", "build_id": key }),
            json!({ "license_key": key, "site_url": "b.com", "release_hash": key }),
            json!({ "license_key": key, "site_url": [key] }),
        ] {
            for path in ["/api/v1/validate-license", "/api/v1/release-site"] {
                said.push(post_json(server.address, path, &body));
            }
        }
        for more in [
            "",
            "&current_version=1.0",
            &format!("&current_version={key}"),
            &format!("&build_id={key}"),
        ] {
            said.push(get(server.address, &updates("acme-forms", &license, "a.com", more)));
        }
        said.push(get(server.address, &updates(&key, &license, "a.com", "")));
    }
    let refused = server.ask(&json!({ "license_key": EDD, "site_url": EDD }));
    assert_eq!(refused.json()["reason"], "license_key");
    assert!(said.iter().any(|answer| answer.code() == "ok"));
    let mut texts: Vec<String> = said
        .iter()
        .map(|answer| answer.text() + &format!("{:?}", answer.headers))
        .collect();
    texts.push(get(server.admin, "/metrics").text());
    texts.push(server.log());
    server.stop();
    assert!(texts.iter().all(|text| !text.to_lowercase().contains(EDD)));
    assert_eq!(files_with(instance.path(), &[EDD]), Vec::<PathBuf>::new());
}
