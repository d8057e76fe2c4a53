//! Copies are traced to whom they were given, and reports of copies that are somebody else's are found.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::process::Output;

use chrono::{Days, NaiveDate, Utc};
use countersign_model::build_id::BuildId;
use countersign_model::download_key::DownloadKey;
use countersign_model::license_key::LicenseId;
use countersign_package::mark;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::hosted::{SECRET, hosting, link_of, put_secret};
use crate::support::instance::{LATEST, question};
use crate::support::random::Random;
use crate::support::server::countersign;
use crate::support::{Instance, License, Server, get};

fn today() -> NaiveDate {
    Utc::now().date_naive()
}

fn run(instance: &Instance, arguments: &[&str]) -> Output {
    countersign(instance).args(arguments).output().unwrap()
}

fn traced(instance: &Instance, copy: &str) -> Vec<Value> {
    let output = run(instance, &["trace", copy, "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The id that a site's copy has.
pub fn build_id(secret: &[u8; 32], license: &License, host: &str, day: NaiveDate, slug: &str, version: &str) -> Uuid {
    let key = DownloadKey::new(secret);
    let license = license.id.parse().unwrap();
    let id = BuildId::new(&key, &license, &host.parse().unwrap(), day, slug, version).unwrap();
    id.encrypt(&key)
}

/// Unpacks the mark of a download into a plugin's folder, as a site has it.
fn unpack(instance: &Instance, folder: &str, id: Uuid) -> String {
    let path = instance.file(folder);
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("build-id.php"), mark::content(id)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_leaked_copy_names_its_license_its_site_its_day_and_its_release() {
    let license = License::new();
    let noted = license.toml("note = \"Anna, order 7\"");
    let (instance, _) = hosting(
        &[noted],
        &[("acme-forms", &[LATEST, "1.1.0"], true), ("acme-pdf", &["2.0.0"], true)],
    );
    let server = Server::start(&instance);
    server.validate(&license, "a.com");
    let link = link_of(&server, "acme-forms", &license, "https://www.a.com/shop");
    let copy = get(server.address, &link).body;
    let zip = instance.file("leaked.zip");
    fs::write(&zip, &copy).unwrap();
    // No site has reported it yet.
    let found = traced(&instance, zip.to_str().unwrap());
    let expected = json!([{ "id": license.id, "note": "Anna, order 7", "hosts": ["a.com"], "replaced_by": [] }]);
    let id = build_id(&SECRET, &license, "a.com", today(), "acme-forms", LATEST);
    assert_eq!(found.len(), 1);
    let only = &found[0];
    assert_eq!((&only["licenses"], &only["origin"]), (&expected, &json!("given")));
    assert_eq!(only["releases"], json!([{ "plugin": "acme-forms", "version": LATEST }]));
    assert_eq!((&only["day"], &only["build_id"]), (&json!(today()), &json!(id)));
    assert_eq!(only["file"], "acme-forms/build-id.php");
    assert_eq!(only["reported_by"], json!([]));
    assert!(only.get("moved_to").is_none());

    let report = |host: &str| {
        let mut question = question(&license, host);
        question["build_id"] = json!(id);
        server.ask(&question)
    };
    assert_eq!(report("a.com").code(), "ok");
    server.stop();
    let text = String::from_utf8(run(&instance, &["trace", &id.to_string()]).stdout).unwrap();
    for line in [
        "origin     given out by this instance",
        "release    acme-forms 1.2.0",
        "note       Anna, order 7",
        "site       a.com",
        &format!("license    {}", license.id),
        &format!("reported   by a.com of license {}", &license.id[..12]),
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    // Unpacked, edited, and in a folder of many plugins.
    let site = unpack(&instance, "site/plugins/acme-forms", id);
    fs::write(
        format!("{site}/build-id.php"),
        format!("<?php\r\nreturn \"{}\" ;", id.to_string().to_uppercase()),
    )
    .unwrap();
    let found = traced(&instance, instance.file("site").to_str().unwrap());
    assert_eq!((found.len(), &found[0]["licenses"]), (1, &expected));
    assert_eq!(
        found[0]["reported_by"],
        json!([{ "license": license.id, "host": "a.com" }])
    );

    // In another plugin's folder.
    let moved = unpack(&instance, "moved/acme-pdf", id);
    let found = traced(&instance, &moved);
    assert_eq!(found[0]["moved_to"], "acme-pdf");
    let text = String::from_utf8(run(&instance, &["trace", &moved]).stdout).unwrap();
    assert!(text.contains("MOVED      it was found in acme-pdf"), "{text}");
}

/// Declares a license in the place of another, which is revoked.
fn replaced(instance: &Instance, old: &License) -> License {
    let new = License::new();
    let file = fs::read_to_string(instance.file("registry/licenses/licenses.toml")).unwrap();
    let id = format!("id = \"{}\"\n", old.id);
    let revoked = file.replace(&id, &format!("{id}status = \"revoked\"\n"));
    instance.write_licenses(&[revoked, new.toml(&format!("replaces = \"{}\"", old.id))]);
    new
}

#[test]
fn old_keys_old_licenses_and_withheld_versions_are_still_traced() {
    let license = License::new();
    let (instance, packages) = hosting(&[license.toml("")], &[("acme-forms", &[LATEST, "1.1.0"], true)]);
    let server = Server::start(&instance);
    server.validate(&license, "a.com");
    server.stop();
    let old = build_id(&SECRET, &license, "a.com", today(), "acme-forms", "1.1.0");
    let rotated = run(&instance, &["keys", "generate", "--downloads", "--rotate"]);
    assert!(rotated.status.success());
    let rekeyed = replaced(&instance, &license);
    crate::hosted::publish(&instance, &packages[..1]);
    instance.write(
        "registry/plugins/acme-forms.toml",
        "module = \"forms\"\nrepository = \"../../src\"\nwithhold = [\"1.1.0\"]\n",
    );
    let found = &traced(&instance, &old.to_string())[0];
    assert_eq!(found["origin"], "given");
    assert_eq!(
        found["releases"],
        json!([{ "plugin": "acme-forms", "version": "1.1.0" }])
    );
    assert_eq!(found["licenses"][0]["hosts"], json!(["a.com"]));
    assert_eq!(found["licenses"][0]["replaced_by"], json!([rekeyed.id]));
    // Without the old key, nobody can tell.
    fs::remove_dir_all(instance.file("keys/retired")).unwrap();
    assert_eq!(traced(&instance, &old.to_string())[0]["origin"], "unknown");
}

#[test]
fn what_was_never_given_out_is_reported_as_forged_unknown_or_unmarked() {
    let license = License::new();
    let (instance, _) = hosting(&[license.toml("")], &[("acme-forms", &[LATEST], true)]);
    let in_future = today().checked_add_days(Days::new(30)).unwrap();
    for (id, origin, doubts) in [
        (Uuid::nil(), "unmarked", json!([])),
        (
            "018f3b2e-7c1a-7000-8000-3f1c2d4e5f60".parse().unwrap(),
            "unknown",
            json!([]),
        ),
        (
            build_id(&[9; 32], &license, "a.com", today(), "acme-forms", LATEST),
            "unknown",
            json!([]),
        ),
        (
            build_id(&SECRET, &license, "a.com", in_future, "acme-forms", LATEST),
            "forged",
            json!(["its day is in the future"]),
        ),
        (
            build_id(&SECRET, &License::new(), "a.com", today(), "acme-forms", LATEST),
            "forged",
            json!(["no license here begins so"]),
        ),
        (
            build_id(&SECRET, &license, "a.com", today(), "acme-forms", "9.9.9"),
            "forged",
            json!(["no release here fits"]),
        ),
    ] {
        let found = &traced(&instance, &id.to_string())[0];
        assert_eq!((&found["origin"], &found["doubts"]), (&json!(origin), &doubts), "{id}");
    }
    // A site that is not in the ledger at hand is no forgery.
    let id = build_id(&SECRET, &license, "gone.com", today(), "acme-forms", LATEST);
    let found = &traced(&instance, &id.to_string())[0];
    assert_eq!(
        (&found["origin"], &found["licenses"][0]["hosts"]),
        (&json!("given"), &json!([]))
    );

    let refused = |arguments: &[&str]| {
        let output = run(&instance, arguments);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    fs::write(instance.file("odd.zip"), b"PK no archive").unwrap();
    let (exit, error) = refused(&["trace", instance.file("odd.zip").to_str().unwrap()]);
    assert!(
        exit == Some(3) && error.contains("hint: unpack it, and trace the folder"),
        "{error}"
    );
    fs::create_dir(instance.file("nothing")).unwrap();
    let (exit, error) = refused(&["trace", instance.file("nothing").to_str().unwrap()]);
    assert!(
        exit == Some(3) && error.contains("there is no build id in it"),
        "{error}"
    );
    put_secret(&instance, "keys/downloads.key", &[1; 31]);
    let (exit, error) = refused(&["trace", &id.to_string()]);
    assert!(exit == Some(3) && error.contains("not a key for downloads"), "{error}");
}

#[test]
fn reports_of_copies_that_are_somebody_elses_are_listed() {
    let both: Vec<License> = (0..2).map(|_| License::new()).collect();
    let [one, two] = &both[..] else { unreachable!() };
    let tables = [one.toml("sites = 4"), two.toml("sites = 4")];
    let (instance, _) = hosting(&tables, &[("acme-forms", &[LATEST], true)]);
    let server = Server::start(&instance);
    let id_of = |license: &License, host: &str| build_id(&SECRET, license, host, today(), "acme-forms", LATEST);
    let in_future = today().checked_add_days(Days::new(9)).unwrap();
    let forged = build_id(&SECRET, one, "forged.com", in_future, "acme-forms", LATEST);
    let random: Uuid = "018f3b2e-7c1a-7000-8000-3f1c2d4e5f60".parse().unwrap();
    for (license, host, id) in [
        (one, "own.com", Some(id_of(one, "own.com"))),
        (one, "silent.com", None),
        (one, "copied.com", Some(id_of(one, "own.com"))),
        (one, "forged.com", Some(forged)),
        (two, "unmarked.com", Some(Uuid::nil())),
        (two, "pirate.com", Some(id_of(one, "own.com"))),
        (two, "stranger.com", Some(random)),
    ] {
        let mut question = question(license, host);
        if let Some(id) = id {
            question["build_id"] = json!(id);
        }
        assert_eq!(server.ask(&question).code(), "ok", "{host}");
    }
    // Each was validated by a license, and one id says nothing.
    let metrics = get(server.admin, "/metrics").text();
    for (copy, count) in [("own", 1), ("moved", 3), ("unknown", 1)] {
        let line = format!("countersign_reported_copies_total{{copy=\"{copy}\"}} {count}\n");
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
    server.stop();
    let mut found = odd_reports(&instance);
    found.sort_by_key(|report| report["host"].as_str().unwrap().to_owned());
    let expected = [
        ("copied.com", "other_host", one, json!([one.id])),
        ("forged.com", "forged", one, json!([one.id])),
        ("pirate.com", "other_license", two, json!([one.id])),
        ("stranger.com", "unknown", two, json!([])),
    ];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (report, (host, oddity, license, given_to)) in found.iter().zip(expected) {
        assert_eq!((&report["host"], &report["oddity"]), (&json!(host), &json!(oddity)));
        assert_eq!(
            (&report["license"], &report["given_to"]),
            (&json!(license.id), &given_to)
        );
    }
    let exported = String::from_utf8(run(&instance, &["bindings", "export"]).stdout).unwrap();
    let exported: HashMap<String, Value> = exported
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|line| (line["host"].as_str().unwrap().to_owned(), line["build_id"].clone()))
        .collect();
    assert_eq!(exported.len(), 7);
    assert_eq!(exported["pirate.com"], json!(id_of(one, "own.com")));
    assert_eq!(exported["silent.com"], Value::Null);
    let text = String::from_utf8(run(&instance, &["review"]).stdout).unwrap();
    assert!(
        text.contains("another license's") && text.contains("pirate.com"),
        "{text}"
    );
    // A customer with a new key runs the copy that they had before.
    let new = replaced(&instance, one);
    let server = Server::start(&instance);
    let mut question = question(&new, "own.com");
    question["build_id"] = json!(id_of(one, "own.com"));
    assert_eq!(server.ask(&question).code(), "ok");
    server.stop();
    let found = odd_reports(&instance);
    assert_eq!(
        found.iter().filter(|report| report["host"] == "own.com").count(),
        0,
        "{found:?}"
    );
}

fn odd_reports(instance: &Instance) -> Vec<Value> {
    let review: Value = serde_json::from_slice(&run(instance, &["review", "--json"]).stdout).unwrap();
    review["odd_reports"].as_array().unwrap().clone()
}

#[test]
fn a_license_that_many_hosts_ask_for_is_listed_and_one_that_moves_is_not() {
    let both: Vec<License> = (0..2).map(|_| License::new()).collect();
    let [shared, moving] = &both[..] else { unreachable!() };
    let tables = [shared.toml("note = \"Anna\""), moving.toml("")];
    let (instance, _) = hosting(&tables, &[("acme-forms", &[LATEST], true)]);
    let began = Utc::now();
    let server = Server::start(&instance);
    for license in [shared, moving] {
        assert_eq!(server.ask(&question(license, "first.com")).code(), "ok");
    }
    for number in 0..40 {
        let refused = server.ask(&question(shared, &format!("host{number}.com")));
        assert_eq!(refused.code(), "bound_elsewhere");
    }
    for number in 0..4 {
        server.ask(&question(moving, &format!("host{number}.com")));
        server.ask(&question(moving, &format!("host{number}.com")));
    }
    server.stop();
    let review = || -> Value { serde_json::from_slice(&run(&instance, &["review", "--json"]).stdout).unwrap() };
    let found = review();
    let wanted = found["many_hosts"].as_array().unwrap();
    assert_eq!(wanted.len(), 1, "{found}");
    let hosts: Vec<String> = (8..40).map(|number| format!("host{number}.com")).collect();
    assert_eq!(
        (&wanted[0]["license"], &wanted[0]["note"], &wanted[0]["hosts"]),
        (&json!(shared.id), &json!("Anna"), &json!(hosts))
    );
    let time = |name: &str| -> chrono::DateTime<Utc> { wanted[0][name].as_str().unwrap().parse().unwrap() };
    assert!(began <= time("since") && time("since") < time("last") && time("last") <= Utc::now());
    let text = String::from_utf8(run(&instance, &["review"]).stdout).unwrap();
    assert!(text.contains("32 or more") && text.contains("Anna"), "{text}");

    // What was kept is counted on after a restart: the fifth host.
    let server = Server::start(&instance);
    server.ask(&question(moving, "host4.com"));
    server.stop();
    assert_eq!(review()["many_hosts"].as_array().unwrap().len(), 2);
    // A host that is bound now was no stranger.
    instance.write_licenses(&[shared.toml("note = \"Anna\""), moving.toml("sites = 2")]);
    let server = Server::start(&instance);
    assert_eq!(server.ask(&question(moving, "host4.com")).code(), "ok");
    server.stop();
    assert_eq!(review()["many_hosts"].as_array().unwrap().len(), 1);
}

/// Makes so many ids, each for another license, site, day or release: all say what was put in, and no two are alike.
pub fn build_ids_are_read_back(count: u64) {
    let key = DownloadKey::new(&SECRET);
    let hosts: Vec<_> = (0..100)
        .map(|number| format!("site{number}.example").parse().unwrap())
        .collect();
    let first = NaiveDate::from_ymd_opt(2026, 1, 1).unwrap();
    let mut seen = HashSet::with_capacity(count as usize);
    for number in 0..count {
        let license = license_of(number / 100);
        let host = &hosts[(number % 100) as usize];
        let day = first.checked_add_days(Days::new(number % 365)).unwrap();
        let version = ["1.0.0", "1.0.1"][(number % 2) as usize];
        let id = BuildId::new(&key, &license, host, day, "acme-forms", version).unwrap();
        let uuid = id.encrypt(&key);
        let read = BuildId::decrypt(&key, uuid).unwrap();
        assert_eq!(read, id);
        assert_eq!(read.day(), day);
        assert!(read.is_of_license(&license) && read.is_of_host(&key, host));
        assert!(read.is_of_release(&key, "acme-forms", version));
        assert!(seen.insert(uuid), "{number}");
    }
}

/// Tries so many random UUIDs of our version: how many decrypt, one of 16 million; none has one of 10,000 licenses.
pub fn others_are_none_of_ours(count: u64) -> u64 {
    let key = DownloadKey::new(&SECRET);
    let licenses: HashSet<u64> = (0..10_000)
        .map(|number| {
            let day = NaiveDate::from_ymd_opt(2026, 1, 1).unwrap();
            let host = "a.com".parse().unwrap();
            BuildId::new(&key, &license_of(number), &host, day, "acme", "1.0")
                .unwrap()
                .license
        })
        .collect();
    let mut random = Random::new(1);
    let mut decrypted = 0;
    for _ in 0..count {
        let bits = (0..5).fold(0_u128, |bits, _| bits << 31 ^ random.below(1 << 31) as u128);
        let uuid = uuid::Builder::from_custom_bytes(bits.to_be_bytes()).into_uuid();
        if let Some(id) = BuildId::decrypt(&key, uuid) {
            decrypted += 1;
            assert!(!licenses.contains(&id.license), "{uuid}");
        }
    }
    assert!(decrypted <= 2 + count / 1_000_000, "{decrypted} of {count}");
    decrypted
}

/// Ids as spread as digests are.
fn license_of(number: u64) -> LicenseId {
    LicenseId::from_bytes(Sha256::digest(number.to_be_bytes()).into())
}

#[test]
fn build_ids_are_read_back_and_random_ones_are_none_of_ours() {
    build_ids_are_read_back(2_000);
    others_are_none_of_ours(5_000);
}
