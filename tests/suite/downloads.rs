//! Links and downloads: who gets a package, with which bytes, and what others get instead.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use chrono::{Days, NaiveDate, Utc};
use countersign_package::archive::Archive;
use serde_json::Value;

use crate::hosted::{Hosted, SECRET, hosting, link_of, manifest, publish, put, put_secret};
use crate::support::http::{Client, Response};
use crate::support::instance::LATEST;
use crate::support::server::{countersign, updates};
use crate::support::stored::files_with;
use crate::support::{Instance, License, Server, eventually, get, request};

/// So that a test may ask one link as often as it likes.
const ANY_NUMBER: [&str; 2] = ["--downloads-per-link", "4000000000"];

fn today() -> NaiveDate {
    Utc::now().date_naive()
}

fn ranged(server: &Server, link: &str, headers: &[(&str, &str)]) -> Response {
    request(server.address, "GET", link, headers, b"")
}

/// A question for the head alone; an answer to HEAD tells the length of a body that does not come.
fn head(server: &Server, target: &str) -> Response {
    let mut client = Client::connect(server.address);
    client
        .send(format!("HEAD {target} HTTP/1.1\r\nHost: test\r\n\r\n").as_bytes())
        .unwrap();
    client.receive_head().unwrap()
}

/// One plugin with one version, one license, bound to `a.com`, and its link.
fn prepared(flags: &[&str]) -> (Instance, Server, License, Hosted, String) {
    let license = License::new();
    let (instance, mut packages) = hosting(&[license.toml("")], &[("acme-forms", &[LATEST], true)]);
    let server = Server::start_with(&instance, flags);
    assert_eq!(server.validate(&license, "a.com").code(), "ok");
    let link = link_of(&server, "acme-forms", &license, "a.com");
    (instance, server, license, packages.remove(0), link)
}

#[test]
fn an_update_links_to_the_package_and_every_other_byte_is_the_manifests() {
    let (_instance, server, license, package, link) = prepared(&[]);
    let answer = server.updates(&license, "a.com", "");
    let whole = format!("http://{}{link}", server.address);
    let published = manifest(&package);
    let expected = ["\"download_link\":\"", "\"download_url\":\"", ",\"package\":\""]
        .iter()
        .fold(published, |text, member| {
            text.replacen(member, &format!("{member}{whole}"), 1)
        });
    assert_eq!(answer.text(), expected);
    assert_eq!(
        answer.header("content-length"),
        Some(expected.len().to_string().as_str())
    );
    let [file, token, version, slug] = link.rsplit('/').take(4).collect::<Vec<_>>()[..] else {
        panic!("{link}")
    };
    assert_eq!((file, version, slug), ("acme-forms-1.2.0.zip", LATEST, "acme-forms"));
    assert_eq!(token.len(), 60);
    assert_eq!(
        link_of(&server, "acme-forms", &license, "a.com"),
        link,
        "the same all day"
    );
    let head = head(&server, &updates("acme-forms", &license, "a.com", ""));
    assert_eq!(head.header("content-length"), answer.header("content-length"));
    assert_eq!(server.updates(&license, "a.com", "&current_version=1.2.0").text(), "{}");
}

#[test]
fn a_site_gets_the_package_with_its_own_mark_and_headers_that_let_nobody_keep_it() {
    let (_instance, server, license, package, link) = prepared(&[]);
    let day = today();
    let answer = get(server.address, &link);
    assert_eq!(answer.status, 200);
    assert_eq!(answer.body, package.marked_for(&license, "a.com", day));
    Archive::check(&answer.body[..]).unwrap();
    let tag = answer.header("etag").unwrap().to_owned();
    assert!(tag.starts_with(&format!("\"{}-", package.sha256())), "{tag}");
    for (name, value) in [
        ("content-type", "application/zip"),
        ("content-disposition", "attachment"),
        ("cache-control", "private, no-store, no-transform"),
        ("accept-ranges", "bytes"),
        ("x-content-type-options", "nosniff"),
        ("content-length", &package.bytes.len().to_string()),
    ] {
        assert_eq!(answer.header(name), Some(value), "{name}");
    }
    let head = head(&server, &link);
    assert_eq!((head.status, &head.headers), (200, &answer.headers.clone()), "{head:?}");
    let again = get(server.address, &link);
    assert_eq!(again.header("etag"), Some(tag.as_str()));
    assert_eq!(again.body, answer.body);
    // Behind a query that a cache buster added.
    assert_eq!(get(server.address, &format!("{link}?t=1")).status, 200);
    assert_eq!(
        server.metric("countersign_requests_total{operation=\"downloads\",code=\"ok\"}"),
        Some(4.0)
    );
    let sent = server.metric("countersign_downloaded_bytes_total").unwrap();
    assert_eq!(sent, 3.0 * package.bytes.len() as f64);
    assert_eq!(server.metric("countersign_packages"), Some(1.0));
}

#[test]
fn a_package_without_a_mark_is_the_published_file() {
    let license = License::new();
    let (_instance, packages) = {
        let (instance, packages) = hosting(&[license.toml("")], &[("acme-forms", &[LATEST], false)]);
        (instance, packages)
    };
    let server = Server::start(&_instance);
    server.validate(&license, "a.com");
    let answer = get(server.address, &link_of(&server, "acme-forms", &license, "a.com"));
    assert_eq!(answer.body, packages[0].bytes);
    assert_eq!(answer.header("etag").unwrap(), format!("\"{}\"", packages[0].sha256()));
}

#[test]
fn two_sites_two_plugins_and_two_versions_are_four_marks_on_one_day() {
    let license = License::new();
    let table = license.toml_with("2099-12-31", "sites = 2", "forms = []\npdf = []");
    let plugins = [
        ("acme-forms", &[LATEST, "1.1.0"][..], true),
        ("acme-pdf", &[LATEST], true),
    ];
    let (instance, packages) = hosting(&[table], &plugins);
    let server = Server::start(&instance);
    let day = today();
    let mut copies = BTreeSet::new();
    for host in ["a.com", "b.com"] {
        assert_eq!(server.validate(&license, host).code(), "ok");
        for package in &packages {
            let answer = get(server.address, &package.link(&SECRET, &license, host, day));
            assert_eq!(answer.status, 200, "{} {}", package.slug, package.version);
            assert_eq!(answer.body, package.marked_for(&license, host, day));
            copies.insert(answer.header("etag").unwrap().to_owned());
        }
    }
    assert_eq!(copies.len(), 6);
}

#[test]
fn a_download_is_resumed_at_any_cut_around_the_mark_and_gives_the_same_file() {
    let (_instance, server, license, package, link) = prepared(&ANY_NUMBER);
    let whole = package.marked_for(&license, "a.com", today());
    let places = package.mark.unwrap();
    let tag = get(server.address, &link).header("etag").unwrap().to_owned();
    let length = whole.len();
    for cut in [
        1,
        places.local_crc,
        places.local_crc + 2,
        places.id,
        places.id + 17,
        places.id + 36,
        places.central_crc + 1,
        places.central_crc + 4,
        length as u64 - 1,
    ] {
        let first = ranged(&server, &link, &[("Range", &format!("bytes=0-{}", cut - 1))]);
        let rest = ranged(
            &server,
            &link,
            &[("Range", &format!("bytes={cut}-")), ("If-Range", &tag)],
        );
        assert_eq!((first.status, rest.status), (206, 206), "{cut}");
        assert_eq!(
            rest.header("content-range"),
            Some(format!("bytes {cut}-{}/{length}", length - 1).as_str())
        );
        assert_eq!([first.body, rest.body].concat(), whole, "{cut}");
    }
    let end = ranged(&server, &link, &[("Range", "bytes=-100")]);
    assert_eq!(end.body, whole[length - 100..]);
}

#[test]
fn what_is_not_modified_counts_for_the_link_too() {
    let (_instance, server, _license, _package, link) = prepared(&["--downloads-per-link", "1"]);
    let statuses: Vec<u16> = (0..70)
        .map(|_| ranged(&server, &link, &[("If-None-Match", "*")]).status)
        .collect();
    // A package has 64 units, of which one comes back in a minute.
    let answered = statuses.iter().position(|status| *status != 304).unwrap();
    assert!((64..=65).contains(&answered), "{statuses:?}");
    assert_eq!(statuses.last(), Some(&429), "{statuses:?}");
    let refused = ranged(&server, &link, &[("If-None-Match", "*")]);
    assert_eq!(refused.json()["code"], "too_many_requests");
    assert!(refused.header("retry-after").is_some());
}

#[test]
fn conditions_are_about_this_sites_copy() {
    let (_instance, server, _license, package, link) = prepared(&ANY_NUMBER);
    let tag = get(server.address, &link).header("etag").unwrap().to_owned();
    let other = format!("\"{}-018f3b2e-7c1a-8000-8000-3f1c2d4e5f60\"", package.sha256());
    let length = package.bytes.len();
    let beyond = format!("bytes={length}-");
    for (headers, status, bytes) in [
        (&[("Range", "bytes=0-9"), ("If-Range", &tag)][..], 206, 10),
        (&[("Range", "bytes=0-9"), ("If-Range", &other)], 200, length),
        (
            &[("Range", "bytes=0-9"), ("If-Range", "Wed, 01 Jan 2025 00:00:00 GMT")],
            200,
            length,
        ),
        (&[("Range", "bytes=0-9,20-29")], 200, length),
        (&[("Range", "lines=0-9")], 200, length),
        (&[("If-None-Match", &tag)], 304, 0),
        (&[("If-None-Match", &other)], 200, length),
        (&[("If-Match", &tag)], 200, length),
    ] {
        let answer = ranged(&server, &link, headers);
        assert_eq!((answer.status, answer.body.len()), (status, bytes), "{headers:?}");
        assert_eq!(answer.header("etag"), Some(tag.as_str()));
    }
    for (headers, status, code) in [
        (&[("Range", beyond.as_str())][..], 416, "range_not_satisfiable"),
        (&[("If-Match", &other)], 412, "precondition_failed"),
    ] {
        let answer = ranged(&server, &link, headers);
        assert_eq!((answer.status, answer.code().as_str()), (status, code));
    }
    let answer = ranged(&server, &link, &[("Range", &beyond)]);
    assert_eq!(
        answer.header("content-range"),
        Some(format!("bytes */{length}").as_str())
    );
}

/// A refusal as every one must be: small, a problem document, and kept by nobody.
fn assert_refused(answer: &Response, status: u16, code: &str, what: &str) {
    assert_eq!(answer.status, status, "{what}: {}", answer.text());
    assert!(answer.body.len() <= 1_024, "{what}: {} bytes", answer.body.len());
    assert_eq!(
        answer.header("content-type"),
        Some("application/problem+json"),
        "{what}"
    );
    assert_eq!(answer.header("cache-control"), Some("no-store"), "{what}");
    assert_eq!(answer.code(), code, "{what}");
}

#[test]
fn every_download_that_must_fail_does_and_says_why() {
    let all: Vec<License> = (0..8).map(|_| License::new()).collect();
    let [good, gone, expired, suspended, revoked, released, other, uncovered] = &all[..] else {
        unreachable!()
    };
    let tables = |changed: bool| {
        let then = |change: &str| if changed { change.to_owned() } else { String::new() };
        let now = (Utc::now() + chrono::TimeDelta::seconds(60)).format("%Y-%m-%dT%H:%M:%SZ");
        let mut tables = vec![
            good.toml(""),
            expired.toml_with(if changed { "2001-01-01" } else { "2099-01-01" }, "", "forms = []"),
            suspended.toml(&then("status = \"suspended\"")),
            revoked.toml(&then("status = \"revoked\"")),
            released.toml_with(
                "2099-01-01",
                "",
                &format!("forms = []\n{}", then(&format!("[license.released]\n\"*\" = {now}"))),
            ),
            other.toml("sites = 2"),
            uncovered.toml_with("2099-01-01", "", if changed { "pdf = []" } else { "forms = []" }),
        ];
        if !changed {
            tables.push(gone.toml(""));
        }
        tables
    };
    let plugins = [
        ("acme-forms", &[LATEST, "1.1.0", "1.0.0"][..], true),
        ("acme-pdf", &[LATEST], true),
    ];
    let (instance, packages) = hosting(&tables(false), &plugins);
    let server = Server::start_with(&instance, &ANY_NUMBER);
    let day = today();
    let forms = &packages[0];
    let mut links = Vec::new();
    for license in &all {
        assert_eq!(server.validate(license, "a.com").code(), "ok");
        let link = link_of(&server, "acme-forms", license, "a.com");
        assert_eq!(get(server.address, &link).status, 200);
        links.push(link);
    }
    let ends_in = |link: &str, from: &str, to: &str| link.replace(from, to);
    let link = &links[0];
    let [file, token] = link.rsplit('/').take(2).collect::<Vec<_>>()[..] else {
        unreachable!()
    };
    let base = link.strip_suffix(&format!("{token}/{file}")).unwrap();
    let with = |token: &str| format!("{base}{token}/{file}");
    let old = |days| day.checked_sub_days(Days::new(days)).unwrap();

    // Before anything changes: other people's, other versions', forged, malformed.
    let mut table: Vec<(String, u16, &str, &str)> = vec![
        (
            forms.link(&SECRET, good, "b.com", day),
            403,
            "license_not_bound",
            "another host",
        ),
        (
            forms.link(&SECRET, good, "www.a.com.evil.example", day),
            403,
            "license_not_bound",
            "a longer host",
        ),
        (
            forms.link(&SECRET, other, "c.com", day),
            403,
            "license_not_bound",
            "a host that never asked",
        ),
        (
            forms.link(&SECRET, &License::new(), "a.com", day),
            403,
            "unknown_license",
            "another license",
        ),
        (
            packages[3].link(&SECRET, good, "a.com", day),
            403,
            "plugin_not_covered",
            "a plugin that is not covered",
        ),
        (
            ends_in(link, "acme-forms", "acme-pdf"),
            404,
            "not_found",
            "another plugin's path",
        ),
        (
            ends_in(link, LATEST, "1.1.0"),
            404,
            "not_found",
            "another version's path",
        ),
        (
            ends_in(link, LATEST, "9.9.9"),
            404,
            "not_found",
            "a version that never was",
        ),
        (
            ends_in(link, "acme-forms", "nothing"),
            404,
            "not_found",
            "a plugin that never was",
        ),
        (
            forms.link(&SECRET, good, "a.com", old(4)),
            410,
            "link_expired",
            "four days old",
        ),
        (
            forms.link(&SECRET, good, "a.com", old(400)),
            410,
            "link_expired",
            "a year old",
        ),
        (
            forms.link(&[7; 32], good, "a.com", day),
            404,
            "not_found",
            "another secret",
        ),
        (with(""), 404, "not_found", "no token"),
        (with(&token[1..]), 404, "not_found", "a shorter token"),
        (with(&format!("{token}A")), 404, "not_found", "a longer token"),
        (with(&"A".repeat(60)), 404, "not_found", "zeros"),
        (with(&token.to_uppercase()), 404, "not_found", "capitals"),
        (with(&format!("{}=", &token[..59])), 404, "not_found", "padding"),
        (with(&format!("{}%41", &token[..59])), 404, "not_found", "escapes"),
        (
            with(&token.chars().rev().collect::<String>()),
            404,
            "not_found",
            "backwards",
        ),
        (
            format!("{base}{token}/other-1.2.0.zip"),
            404,
            "not_found",
            "another name",
        ),
        (format!("{base}{token}/"), 404, "not_found", "no name"),
        (format!("{base}{token}"), 404, "not_found", "no end"),
        (format!("{link}/"), 404, "not_found", "a part more"),
        (
            ends_in(link, "acme-forms", "ACME-FORMS"),
            404,
            "not_found",
            "a slug in capitals",
        ),
        (
            ends_in(link, LATEST, "v1.2.0"),
            404,
            "not_found",
            "a version with its v",
        ),
        (ends_in(link, LATEST, "..%2f..%2findex"), 404, "not_found", "a way out"),
        ("/api/v1/downloads/".to_owned(), 404, "not_found", "nothing"),
        (
            "/api/v1/downloads/acme-forms".to_owned(),
            404,
            "not_found",
            "a plugin alone",
        ),
        (
            format!("/releases/acme-forms/{LATEST}.zip"),
            404,
            "not_found",
            "the file itself",
        ),
        (
            format!("/../releases/acme-forms/{LATEST}.zip"),
            404,
            "not_found",
            "the file from above",
        ),
    ];
    for (link, status, code, what) in table.drain(..) {
        assert_refused(&get(server.address, &link), status, code, what);
    }
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        let answer = request(server.address, method, link, &[], b"");
        assert_refused(&answer, 405, "method_not_allowed", method);
        assert_eq!(answer.header("allow"), Some("GET, HEAD"));
    }
    assert_eq!(
        get(server.address, &packages[2].link(&SECRET, good, "a.com", day)).status,
        200,
        "an older version"
    );
    assert_eq!(
        get(server.address, &forms.link(&SECRET, good, "a.com", old(3))).status,
        200,
        "three days old"
    );

    // After the vendor changed their minds.
    instance.write_licenses(&tables(true));
    publish(
        &instance,
        &[packages[0].clone(), packages[1].clone(), packages[3].clone()],
    );
    eventually("the withheld version is gone", || {
        get(server.address, &packages[2].link(&SECRET, good, "a.com", day)).status == 404
    });
    eventually("the changes are in force", || {
        get(server.address, &links[3]).status == 403
    });
    for (link, status, code, what) in [
        (&links[1], 403, "unknown_license", "a license that is gone"),
        (&links[2], 403, "license_expired", "expired since"),
        (&links[3], 403, "license_suspended", "suspended since"),
        (&links[4], 403, "license_revoked", "revoked since"),
        (&links[5], 403, "license_not_bound", "released since"),
        (&links[7], 403, "plugin_not_covered", "the module was removed"),
    ] {
        assert_refused(&get(server.address, link), status, code, what);
    }
    assert_refused(
        &get(server.address, &packages[2].link(&SECRET, good, "a.com", day)),
        404,
        "not_found",
        "withheld since",
    );
    // Another site took the place.
    assert_eq!(server.validate(released, "d.com").code(), "ok");
    assert_refused(
        &get(server.address, &links[5]),
        403,
        "bound_elsewhere",
        "bound elsewhere since",
    );
    fs::remove_file(instance.file("registry/plugins/acme-forms.toml")).unwrap();
    eventually("the plugin is gone", || get(server.address, link).status == 404);
    assert_refused(&get(server.address, link), 404, "unknown_plugin", "the plugin is gone");
    instance.write("registry/plugins/acme-forms.toml", "module = \"forms\"\n");
    eventually("it has no source", || {
        get(server.address, link).code() == "source_not_configured"
    });
    assert_refused(
        &get(server.address, link),
        404,
        "source_not_configured",
        "its source is gone",
    );
}

#[test]
fn no_byte_of_a_token_can_be_changed() {
    let (_instance, server, _license, _package, link) = prepared(&[]);
    let file = link.rfind('/').unwrap();
    let mut client = Client::connect(server.address);
    for at in file - 60..file {
        let mut changed = link.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        let answer = client.request("GET", &changed, &[], b"");
        assert_refused(&answer, 404, "not_found", &format!("byte {}", at + 60 - file));
    }
    assert_eq!(get(server.address, &link).status, 200);
}

#[test]
fn who_guesses_links_is_stopped_as_who_guesses_keys() {
    let license = License::new();
    let (instance, packages) = hosting(&[license.toml("")], &[("acme-forms", &[LATEST], true)]);
    let flags = ["--requests-per-minute", "600", "--failures-per-minute", "10"];
    let server = Server::start_with(&instance, &flags);
    let mut guessed = 0;
    let limited = loop {
        let guess = packages[0].link(&[guessed; 32], &license, "a.com", today());
        let answer = get(server.address, &guess);
        if answer.status != 404 {
            break answer;
        }
        guessed += 1;
        assert!(guessed <= 11);
    };
    assert!(guessed >= 10, "{guessed}");
    assert_refused(&limited, 429, "too_many_requests", "a guesser");
    assert!(limited.header("retry-after").is_some());
}

#[test]
fn a_leaked_link_stops_after_twenty_packages_and_its_license_does_not() {
    let license = License::new();
    let (instance, packages) = hosting(
        &[license.toml("sites = 2")],
        &[("acme-forms", &[LATEST, "1.1.0"], true)],
    );
    let server = Server::start(&instance);
    for host in ["a.com", "b.com"] {
        server.validate(&license, host);
    }
    let link = link_of(&server, "acme-forms", &license, "a.com");
    for _ in 0..20 {
        assert_eq!(get(server.address, &link).status, 200);
    }
    let answer = get(server.address, &link);
    assert_refused(&answer, 429, "too_many_requests", "the twenty-first");
    let wait: u32 = answer.header("retry-after").unwrap().parse().unwrap();
    // Of a link that is empty nobody knows yet how much it is asked for: the next smallest request may come soon.
    assert!((1..=180).contains(&wait), "{wait}");
    assert_eq!(ranged(&server, &link, &[("Range", "bytes=100000-")]).status, 429);
    // The other site, the other version, and the license's own questions.
    assert_eq!(
        get(server.address, &link_of(&server, "acme-forms", &license, "b.com")).status,
        200
    );
    assert_eq!(
        get(server.address, &packages[1].link(&SECRET, &license, "a.com", today())).status,
        200
    );
    assert_eq!(server.validate(&license, "a.com").code(), "ok");
    assert_eq!(
        server.metric("countersign_rate_limited_total{limit=\"link\"}"),
        Some(2.0)
    );
}

#[test]
fn five_hundred_sites_of_one_license_all_get_theirs() {
    let license = License::new();
    let (instance, packages) = hosting(&[license.toml("sites = 500")], &[("acme-forms", &[LATEST], true)]);
    let limits = ["--requests-per-minute", "6000", "--requests-per-license", "1000"];
    let server = Server::start_with(&instance, &limits);
    let mut client = Client::connect(server.address);
    let mut copies = BTreeSet::new();
    for site in 0..500 {
        let host = format!("site{site}.example.com");
        let question = crate::support::instance::question(&license, &host);
        assert_eq!(client.post_json("/api/v1/validate-license", &question).code(), "ok");
        let target = updates("acme-forms", &license, &host, "");
        let manifest = client.request("GET", &target, &[], b"").json();
        let url = manifest["package"].as_str().unwrap();
        let link = url.strip_prefix(&format!("http://{}", server.address)).unwrap();
        let answer = client.request("GET", link, &[], b"");
        assert_eq!(
            (answer.status, answer.body.len()),
            (200, packages[0].bytes.len()),
            "{host}"
        );
        copies.insert(answer.header("etag").unwrap().to_owned());
    }
    assert_eq!(copies.len(), 500, "each has its own mark");
}

#[test]
fn a_rotated_key_ends_old_links_at_once_and_makes_new_ones() {
    let (instance, server, license, package, old) = prepared(&[]);
    assert_eq!(get(server.address, &old).status, 200);
    let rotated = countersign(&instance)
        .args(["keys", "generate", "--downloads", "--rotate"])
        .output()
        .unwrap();
    assert!(rotated.status.success(), "{}", String::from_utf8_lossy(&rotated.stderr));
    eventually("the new key is in force", || get(server.address, &old).status == 410);
    assert_refused(&get(server.address, &old), 410, "link_expired", "a link of the old key");
    let new = link_of(&server, "acme-forms", &license, "a.com");
    assert_ne!(new, old);
    let answer = get(server.address, &new);
    assert_eq!(answer.status, 200);
    assert_ne!(
        answer.body,
        package.marked_for(&license, "a.com", today()),
        "marked with the new key"
    );

    // A key that is broken keeps the last good one in force.
    let good = fs::read(instance.file("keys/downloads.key")).unwrap();
    put_secret(&instance, "keys/downloads.key", &[1; 31]);
    eventually("it is reported", || server.part("key")["state"] == "stale");
    let detail = server.part("key")["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("not a key for downloads"), "{detail}");
    assert_eq!(get(server.address, &new).status, 200);
    fs::remove_file(instance.file("keys/downloads.key")).unwrap();
    eventually("it is reported", || {
        server.part("key")["detail"]
            .as_str()
            .is_some_and(|detail| detail.contains("there is no key for downloads"))
    });
    assert_eq!(get(server.address, &new).status, 200);
    put_secret(&instance, "keys/downloads.key", &good);
    eventually("it is well", || server.part("key")["state"] == "ok");
}

#[test]
fn a_package_that_is_not_the_published_one_is_sent_to_nobody_and_logged_once() {
    let (instance, server, license, package, link) = prepared(&ANY_NUMBER);
    let path = instance.file(&package.path());
    let mut other = package.bytes.clone();
    other[1_000] ^= 1;
    for (what, bytes) in [("short", &package.bytes[..1_000]), ("changed", &other)] {
        fs::write(instance.file("beside"), bytes).unwrap();
        fs::rename(instance.file("beside"), &path).unwrap();
        eventually(what, || server.part("packages")["state"] == "stale");
        for _ in 0..3 {
            assert_refused(&get(server.address, &link), 503, "package_unavailable", what);
        }
        let answer = get(server.address, &link);
        assert_eq!(answer.header("retry-after"), Some("300"));
        assert!(
            server.part("packages")["detail"]
                .as_str()
                .unwrap()
                .contains("1.2.0.zip")
        );
        assert_eq!(get(server.admin, "/readyz").status, 200, "the server does its work");
        put(&instance, &package);
        eventually("it is mended", || server.part("packages")["state"] == "ok");
        assert_eq!(
            get(server.address, &link).body,
            package.marked_for(&license, "a.com", today())
        );
    }
    fs::remove_file(&path).unwrap();
    assert_refused(&get(server.address, &link), 503, "package_unavailable", "missing");
    eventually("missing", || server.part("packages")["state"] == "stale");
    // `/readyz` has the state a moment before the log.
    let logged = || {
        server
            .log()
            .matches("a package is not the one that was published")
            .count()
    };
    eventually("the last one is logged", || logged() >= 3);
    assert_eq!(logged(), 3, "once each: {}", server.log());
    // A pipe, a folder: nobody waits for them.
    fs::create_dir(&path).unwrap();
    assert_refused(&get(server.address, &link), 503, "package_unavailable", "a folder");
}

/// Begins to download over a connection, and reads the head alone.
fn begin(server: &Server, link: &str) -> (Client, usize) {
    let mut client = Client::connect(server.address);
    client
        .send(format!("GET {link} HTTP/1.1\r\nHost: test\r\n\r\n").as_bytes())
        .unwrap();
    let head = client.receive_head().unwrap();
    assert_eq!(head.status, 200);
    let length = head.header("content-length").unwrap().parse().unwrap();
    (client, length)
}

#[test]
fn a_package_that_is_replaced_while_it_is_sent_arrives_whole_and_one_that_is_written_to_not_at_all() {
    // More than all buffers on the way hold.
    let license = License::new();
    let (instance, _) = hosting(&[license.toml("")], &[("acme-forms", &[LATEST], true)]);
    let package = Hosted::of_size("acme-forms", LATEST, true, 40 << 20);
    publish(&instance, std::slice::from_ref(&package));
    let server = Server::start_with(&instance, &ANY_NUMBER);
    server.validate(&license, "a.com");
    let link = link_of(&server, "acme-forms", &license, "a.com");
    let expected = package.marked_for(&license, "a.com", today());

    let (mut client, length) = begin(&server, &link);
    put(&instance, &Hosted::new("acme-forms", LATEST, true));
    assert!(
        client.receive_body(length).unwrap() == expected,
        "the file that was opened"
    );

    put(&instance, &package);
    eventually("it is mended", || server.part("packages")["state"] == "ok");
    let (mut client, length) = begin(&server, &link);
    let mut file = fs::OpenOptions::new()
        .write(true)
        .open(instance.file(&package.path()))
        .unwrap();
    file.write_all(b"PK").unwrap();
    file.set_len(50 << 20).unwrap();
    assert!(
        client.receive_body(length).is_err(),
        "less than was announced: no client takes it for whole"
    );
    assert_eq!(get(server.address, &link).status, 503);
}

#[test]
fn nothing_of_a_link_is_in_the_log_or_in_a_file() {
    let (instance, server, license, _package, link) = prepared(&[]);
    let token = link.rsplit('/').nth(1).unwrap().to_owned();
    let other = link.replace(&token, &token.to_lowercase());
    for target in [
        &link,
        &other,
        &format!("{link}/{token}"),
        &format!("{link}?token={token}"),
        &format!("/{token}"),
    ] {
        for method in ["GET", "POST"] {
            let answer = request(server.address, method, target, &[("Range", &token)], b"");
            assert!(answer.status == 200 || !answer.text().contains(&token));
        }
    }
    server.updates(&license, "a.com", "");
    let metrics = get(server.admin, "/metrics").text();
    assert!(!metrics.contains(&token) && !metrics.contains("acme"));
    let log = server.log();
    assert!(log.contains("asked for a package"), "{log}");
    assert!(
        !log.contains(&token) && !log.to_lowercase().contains(&token.to_lowercase()),
        "{log}"
    );
    let pid = server.stop();
    assert!(pid.success());
    assert_eq!(files_with(instance.path(), &[&token]), Vec::<PathBuf>::new());
}

/// The exit code of a `serve` that does not start, and what it says.
fn refused_start(instance: &Instance, listen: &str) -> (Option<i32>, String) {
    let serve = countersign(instance)
        .args(["serve", "--listen", listen, "--admin-listen", "off"])
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&serve.stderr);
    (
        serve.status.code(),
        log.replace(&instance.path().display().to_string(), "INSTANCE"),
    )
}

/// What `doctor` says of links and keys.
fn findings(instance: &Instance) -> Vec<Value> {
    let doctor = countersign(instance).args(["doctor", "--json"]).output().unwrap();
    let findings: Vec<Value> = serde_json::from_slice(&doctor.stdout).unwrap();
    let about = |finding: &Value| finding["part"] == "links" || finding["part"] == "key";
    findings.into_iter().filter(about).collect()
}

#[test]
fn who_hosts_packages_needs_an_address_for_sites_and_a_key() {
    let license = License::new();
    let (instance, _) = hosting(&[license.toml("")], &[("acme-forms", &[LATEST], true)]);
    instance.write("countersign.toml", "[serve]\nlisten = \"0.0.0.0:0\"\n");
    let (exit, log) = refused_start(&instance, "0.0.0.0:0");
    assert_eq!(exit, Some(3), "{log}");
    let error = "error: packages are hosted here, and serve.public_url is not set\nhint: set public_url in [serve] to the address";
    assert!(log.contains(error), "{log}");
    let links = |findings: Vec<Value>| findings.into_iter().find(|finding| finding["part"] == "links").unwrap();
    let finding = links(findings(&instance));
    assert_eq!(finding["verdict"], "broken");
    assert!(finding["hint"].as_str().unwrap().starts_with("set public_url"));

    instance.write(
        "countersign.toml",
        "[serve]\nlisten = \"0.0.0.0:0\"\npublic_url = \"https://l.example:8443/\"\n",
    );
    let finding = links(findings(&instance));
    assert_eq!(finding["verdict"], "warning");
    let warning = finding["finding"].as_str().unwrap();
    assert!(
        warning.contains("WordPress downloads nothing from port 8443"),
        "{warning}"
    );
    let server = Server::start(&instance);
    eventually("the port is reported", || {
        server
            .log()
            .contains("WordPress downloads from the ports 80, 443 and 8080 only")
    });
    server.validate(&license, "a.com");
    let url = server.updates(&license, "a.com", "").json()["package"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        url.starts_with("https://l.example:8443/api/v1/downloads/acme-forms/1.2.0/"),
        "{url}"
    );
    server.stop();

    let has_broken_key = |findings: Vec<Value>| {
        let mut keys = findings.iter().filter(|finding| finding["part"] == "key");
        keys.any(|finding| finding["verdict"] == "broken")
    };
    let key = instance.file("keys/downloads.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let (exit, log) = refused_start(&instance, "127.0.0.1:0");
    let exposed = "INSTANCE/keys/downloads.key: others can read the key for downloads (mode 0644)\nhint: chmod 600 INSTANCE/keys/downloads.key; or chmod 640 INSTANCE/keys/downloads.key, if its group is one of the server's";
    assert!(exit == Some(3) && log.contains(exposed), "{log}");
    assert!(has_broken_key(findings(&instance)));
    fs::remove_file(&key).unwrap();
    let (exit, log) = refused_start(&instance, "127.0.0.1:0");
    assert!(
        exit == Some(3) && log.contains("INSTANCE/keys/downloads.key: there is no key for downloads\nhint: "),
        "{log}"
    );
    assert!(has_broken_key(findings(&instance)));
    // Who hosts nothing needs neither.
    instance.write(
        "registry/plugins/acme-forms.toml",
        "repository = \"../../src\"\ndownload_url = \"https://dl.example/{version}.zip\"\n",
    );
    let server = Server::start(&instance);
    eventually("a package is published all the same", || {
        server.part("packages")["state"] == "stale"
    });
}
