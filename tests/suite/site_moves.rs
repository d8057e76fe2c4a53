//! Sites that give their seat back: with a secret or the key alone, at once, under kill -9, and against hostile calls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use countersign_model::digest::Digest;
use serde_json::{Value, json};

use crate::support::http::Client;
use crate::support::instance::{question, shared_keys};
use crate::support::issued::issue;
use crate::support::server::countersign;
use crate::support::{Instance, License, PATIENCE, Response, Server, eventually, post_json, request};

const VALIDATE: &str = "/api/v1/validate-license";
const RELEASE: &str = "/api/v1/release-site";
const SECRET: &str = "a secret that only one site has";

/// A validation of a client that keeps a secret.
fn guarded(license: &License, site: &str, secret: &str) -> Value {
    let mut question = question(license, site);
    question["release_hash"] = Digest::of(secret.as_bytes()).to_string().into();
    question
}

fn leaving(license: &License, site: &str, secret: &str) -> Value {
    json!({ "license_key": license.key, "site_url": site, "nonce": "n-1", "release_secret": secret })
}

fn release(server: &Server, license: &License, site: &str, secret: &str) -> Response {
    post_json(server.address, RELEASE, &leaving(license, site, secret))
}

/// The lines of the ledger that say so.
fn released(instance: &Instance) -> Vec<Value> {
    let ledger = std::fs::read_to_string(instance.file("store/ledger.jsonl")).unwrap();
    let lines = ledger.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["event"] == "released").collect()
}

#[test]
fn a_site_leaves_with_its_secret_and_the_answer_is_signed() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    instance.publish("2.0.0");
    let server = Server::start(&instance);
    assert_eq!(server.ask(&guarded(&license, "https://old.com/", SECRET)).code(), "ok");
    assert_eq!(server.updates(&license, "old.com", "").status, 200);
    for wrong in ["", "another secret"] {
        let refused = release(&server, &license, "old.com", wrong);
        assert_eq!((refused.status, refused.code()), (403, "wrong_release_secret".into()));
    }
    assert_eq!(server.validate(&license, "new.com").code(), "bound_elsewhere");
    for _ in 0..2 {
        let answer = release(&server, &license, "https://old.com/", SECRET);
        let received = answer.json();
        assert_eq!((answer.status, answer.header("cache-control")), (200, Some("no-store")));
        let mut expected = json!({
            "status": "released", "code": "released", "message": "This site is released.", "modules": [], "features": {},
            "expires": "2099-12-31", "grace_period_hours": 0, "nonce": "n-1", "site_url": "https://old.com/",
            "domain": "old.com", "license_id": license.id,
        });
        for name in ["issued_at", "key_id", "signature"] {
            expected[name] = received[name].clone();
        }
        assert_eq!(received, expected);
        let file = instance.file("answer.json");
        std::fs::write(&file, answer.body).unwrap();
        let key = instance.file("public.pem");
        std::fs::write(&key, &shared_keys().public).unwrap();
        let verified = countersign(&instance)
            .arg("verify")
            .arg(&file)
            .arg("--key")
            .arg(&key)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&verified.stdout).into_owned();
        assert!(
            said.contains("released"),
            "{said}{}",
            String::from_utf8_lossy(&verified.stderr)
        );
    }
    assert_eq!(server.updates(&license, "old.com", "").code(), "license_not_bound");
    assert_eq!(server.validate(&license, "new.com").code(), "ok");
    assert_eq!(server.validate(&license, "old.com").code(), "bound_elsewhere");
    // The second release had nothing to do.
    assert_eq!(server.log().matches("released by its client").count(), 1);
    let lines = released(&instance);
    assert_eq!(lines.len(), 1);
    assert_eq!(
        (&lines[0]["host"], &lines[0]["how"]),
        (&json!("old.com"), &json!("secret"))
    );
    assert!(server.stop().success());

    let shown = countersign(&instance)
        .args(["license", "show", &license.id, "--json"])
        .output()
        .unwrap();
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let bindings: Vec<_> = shown["bindings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|binding| {
            (
                binding["host"].as_str().unwrap(),
                binding["released"].as_bool().unwrap(),
            )
        })
        .collect();
    assert_eq!(bindings, [("old.com", true), ("new.com", false)]);
    let verified = countersign(&instance).args(["bindings", "verify"]).output().unwrap();
    assert!(
        verified.status.success(),
        "{}",
        String::from_utf8_lossy(&verified.stderr)
    );
    let server = Server::start(&instance);
    assert_eq!(server.validate(&license, "old.com").code(), "bound_elsewhere");
    assert!(!server.log().contains("rebuilding"), "{}", server.log());
}

#[test]
fn a_site_without_a_secret_is_released_by_the_key_and_takes_its_seat_back() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    let server = Server::start_with(&instance, &["--site-moves", "1"]);
    assert_eq!(server.validate(&license, "old.com").code(), "ok");
    assert_eq!(release(&server, &license, "old.com", "ignored").code(), "released");
    assert_eq!(server.ask(&guarded(&license, "thief.com", SECRET)).code(), "ok");
    assert_eq!(server.validate(&license, "third.com").code(), "bound_elsewhere");
    assert_eq!(server.validate(&license, "old.com").code(), "ok", "taken back");
    assert_eq!(server.validate(&license, "thief.com").code(), "bound_elsewhere");
    let again = release(&server, &license, "old.com", "");
    assert_eq!((again.status, again.code()), (403, "too_many_moves".into()));
    let how: Vec<_> = released(&instance).iter().map(|line| line["how"].clone()).collect();
    assert_eq!(how, ["key", "return"]);
}

#[test]
fn every_refusal_of_a_release_has_its_problem_and_releases_nothing() {
    let all: Vec<License> = (0..6).map(|_| License::new()).collect();
    let [good, expired, suspended, revoked, ahead, unknown] = &all[..] else {
        unreachable!()
    };
    let instance = Instance::with_licenses(&[
        good.toml(""),
        expired.toml(""),
        suspended.toml(""),
        revoked.toml(""),
        ahead.toml("hosts = [\"a.com\"]"),
    ]);
    let server = Server::start(&instance);
    for license in [good, expired, suspended, revoked] {
        assert_eq!(server.ask(&guarded(license, "a.com", SECRET)).code(), "ok");
    }
    assert!(server.stop().success());
    instance.write_licenses(&[
        good.toml(""),
        expired.toml_with("2001-01-01", "", "forms = []"),
        suspended.toml("status = \"suspended\""),
        revoked.toml("status = \"revoked\""),
        ahead.toml("hosts = [\"a.com\"]"),
    ]);
    let server = Server::start(&instance);
    for (license, site, secret, code) in [
        (unknown, "a.com", SECRET, "unknown_license"),
        (suspended, "a.com", SECRET, "license_suspended"),
        (revoked, "a.com", SECRET, "license_revoked"),
        (good, "b.com", SECRET, "license_not_bound"),
        (ahead, "a.com", SECRET, "bound_by_vendor"),
        (good, "a.com", "wrong", "wrong_release_secret"),
    ] {
        let refused = release(&server, license, site, secret);
        assert_eq!((refused.status, refused.code()), (403, code.into()));
        assert_eq!(refused.header("content-type"), Some("application/problem+json"));
        assert!(refused.json()["detail"].as_str().unwrap().ends_with('.'));
    }
    let long = release(&server, good, "a.com", &"x".repeat(129));
    assert_eq!((long.status, &long.json()["field"]), (422, &json!("release_secret")));
    let odd = server.ask(&json!({ "license_key": good.key, "site_url": "a.com", "release_hash": "AB" }));
    assert_eq!((odd.status, odd.code()), (422, "malformed_release_hash".into()));
    let get = request(server.address, "GET", RELEASE, &[], b"");
    assert_eq!((get.status, get.header("allow")), (405, Some("POST")));
    assert!(released(&instance).is_empty());
    // Who renews later may do so for another site.
    assert_eq!(release(&server, expired, "a.com", SECRET).code(), "released");
    assert_eq!(
        server.metric("countersign_requests_total{operation=\"release\",code=\"released\"}"),
        Some(1.0)
    );
}

#[test]
fn a_host_that_takes_no_seat_has_nothing_to_release() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    let server = Server::start_with(&instance, &["--local-hosts", "allow"]);
    assert_eq!(server.validate(&license, "localhost").code(), "ok");
    assert_eq!(release(&server, &license, "localhost", "").code(), "released");
    assert!(released(&instance).is_empty());
}

/// In each round, a bound site leaves at eight connections while eight other sites ask for its seat.
#[test]
fn of_those_who_ask_while_a_site_leaves_at_most_one_gets_the_seat_and_it_leaves_once() {
    const ROUNDS: usize = 60;
    const EACH: usize = 8;
    let licenses: Vec<License> = (0..ROUNDS).map(|_| License::new()).collect();
    let tables: Vec<String> = licenses.iter().map(|license| license.toml("")).collect();
    let instance = Instance::with_licenses(&tables);
    let server = Server::start_with(&instance, &["--signing-queue", "1024"]);
    for license in &licenses {
        assert_eq!(server.ask(&guarded(license, "old.com", SECRET)).code(), "ok");
    }
    let barrier = Barrier::new(2 * EACH);
    let winners = Mutex::new(vec![BTreeSet::new(); ROUNDS]);
    thread::scope(|scope| {
        for number in 0..2 * EACH {
            let barrier = &barrier;
            let winners = &winners;
            let licenses = &licenses;
            let address = server.address;
            scope.spawn(move || {
                let mut client = Client::connect(address);
                for (round, license) in licenses.iter().enumerate() {
                    barrier.wait();
                    if number < EACH {
                        let answer = client.post_json(RELEASE, &leaving(license, "old.com", SECRET));
                        assert_eq!(answer.code(), "released", "{}", answer.text());
                        continue;
                    }
                    let site = format!("site-{number}.com");
                    if client.post_json(VALIDATE, &question(license, &site)).code() == "ok" {
                        winners.lock().unwrap()[round].insert(site);
                    }
                }
            });
        }
    });
    let winners = winners.into_inner().unwrap();
    assert!(winners.iter().all(|winners| winners.len() <= 1), "{winners:?}");
    assert!(
        winners.iter().any(|winners| winners.len() == 1),
        "some asked at the right moment"
    );
    for (license, winners) in licenses.iter().zip(&winners) {
        let site = winners.first().map_or("late.com", String::as_str);
        assert_eq!(server.validate(license, site).code(), "ok");
        assert_eq!(server.validate(license, "old.com").code(), "bound_elsewhere");
    }
    assert_eq!(released(&instance).len(), ROUNDS);
}

/// The sites that hold a seat in the end. All ask before, because one may still take its seat back.
fn sites_at_last(server: &Server, license: &License) -> Vec<&'static str> {
    let holds = |site: &&str| server.validate(license, site).code() == "ok";
    let sites = || ["b.com", "c.com", "a.com"].into_iter().filter(holds);
    let _ = sites().count();
    sites().collect()
}

/// In each round, the vendor moves a license from a.com to b.com while a.com leaves by itself and c.com asks for its seat. The
/// move and c.com never both succeed.
fn race_moves(instance: &Instance, server: &Server, licenses: &[License]) {
    for (round, license) in licenses.iter().enumerate() {
        assert_eq!(server.validate(license, "a.com").code(), "ok");
        let is_over = AtomicBool::new(false);
        let came = AtomicBool::new(false);
        let has_moved = thread::scope(|scope| {
            scope.spawn(|| {
                let mut client = Client::connect(server.address);
                for attempt in 0..40 {
                    if attempt == round % 20 {
                        client.post_json(RELEASE, &leaving(license, "a.com", ""));
                    }
                    if client.post_json(VALIDATE, &question(license, "c.com")).code() == "ok" {
                        came.store(true, Ordering::Relaxed);
                    }
                    if is_over.load(Ordering::Relaxed) && attempt >= round % 20 {
                        break;
                    }
                }
            });
            let moved = countersign(instance)
                .args(["license", "move", &license.id, "--from", "a.com", "--to", "b.com"])
                .output()
                .unwrap();
            is_over.store(true, Ordering::Relaxed);
            let code = moved.status.code();
            assert!(
                code == Some(0) || code == Some(3),
                "{}",
                String::from_utf8_lossy(&moved.stderr)
            );
            code == Some(0)
        });
        assert!(
            !(has_moved && came.load(Ordering::Relaxed)),
            "round {round}: the seat was moved to b.com, and c.com got it"
        );
    }
}

/// A server with limits that a race of requests about one license does not reach.
fn start_for_races(instance: &Instance) -> Server {
    let limits = [
        "--signing-queue",
        "1024",
        "--requests-per-license",
        "100000",
        "--requests-per-minute",
        "1000000",
    ];
    Server::start_with(instance, &limits)
}

#[test]
fn a_move_beside_releases_and_validations_never_gives_a_license_of_the_ledger_two_sites() {
    let licenses: Vec<License> = (0..200).map(|_| License::new()).collect();
    let instance = Instance::new();
    let store = countersign_ledger::open(&instance.file("store")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for license in &licenses {
        runtime.block_on(store.change_license(issue(license))).unwrap();
    }
    store.close().unwrap();
    drop(store);
    let server = start_for_races(&instance);
    race_moves(&instance, &server, &licenses);
    let over = licenses
        .iter()
        .filter(|license| sites_at_last(&server, license).len() != 1);
    assert_eq!(over.count(), 0);
}

#[test]
fn a_move_beside_releases_and_validations_never_gives_a_license_of_a_file_two_sites() {
    let licenses: Vec<License> = (0..200).map(|_| License::new()).collect();
    let last = License::new();
    let mut tables: Vec<String> = licenses.iter().map(|license| license.toml("")).collect();
    tables.push(last.toml(""));
    let instance = Instance::with_licenses(&tables);
    let server = start_for_races(&instance);
    race_moves(&instance, &server, &licenses);
    tables.pop();
    tables.push(last.toml("status = \"suspended\""));
    instance.write_licenses(&tables);
    eventually("the last change is in force", || {
        server.validate(&last, "a.com").code() == "suspended"
    });
    let over = licenses
        .iter()
        .filter(|license| sites_at_last(&server, license).len() != 1);
    assert_eq!(over.count(), 0);
}

/// How many sites a license has behind each line of the ledger, in the order of the lines. A seat that a validation took must
/// have been free. An import binds what was active elsewhere, also beyond the limit.
fn assert_no_seat_beyond_the_limit(instance: &Instance, license: &License, imported: &str) -> usize {
    let ledger = std::fs::read_to_string(instance.file("store/ledger.jsonl")).unwrap();
    let mut limit = 0;
    // Since when each site has its seat.
    let mut sites: BTreeMap<String, DateTime<Utc>> = BTreeMap::new();
    let mut history = String::new();
    let time = |value: &Value| value.as_str().unwrap().parse::<DateTime<Utc>>().unwrap();
    for line in ledger.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        if line["license"] != license.id {
            continue;
        }
        let host = line["host"].as_str().unwrap_or_default().to_owned();
        history += &format!("{line}\n");
        match line["event"].as_str().unwrap() {
            "license" => {
                limit = line["sites"].as_u64().unwrap() as usize;
                for (host, released) in line["released"].as_object().into_iter().flatten() {
                    sites.retain(|site, bound| site != host || *bound > time(released));
                }
            }
            "released" => drop(sites.remove(&host)),
            "bound" => {
                assert!(host == imported || sites.len() < limit, "more than {limit}: {history}");
                sites.insert(host, time(&line["time"]));
            }
            other => panic!("{other}"),
        }
    }
    sites.len()
}

/// In each round, the vendor releases a.com, gives the license a second seat and imports b.com while a.com, c.com, d.com and
/// e.com ask for seats.
#[test]
fn a_release_a_raised_limit_and_an_import_beside_validations_give_no_seat_twice() {
    const ROUNDS: usize = 40;
    let licenses: Vec<License> = (0..ROUNDS).map(crate::imports::license).collect();
    let instance = Instance::new();
    instance.write("countersign.toml", "[serve]\nforeign_keys = true\n");
    let server = start_for_races(&instance);
    let file = |name: &str, rows: &str| {
        let text = format!("key,status,sites,expires,hosts,modules\n{rows}");
        instance.write(name, &text);
        instance.file(name).to_str().unwrap().to_owned()
    };
    let import = |file: &str| {
        let arguments = ["license", "import", "--from", "csv", file];
        let output = countersign(&instance).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let row = |license: &License, hosts: &str| format!("{},active,1,2099-12-31,{hosts},forms\n", license.key);
    let first: String = licenses.iter().map(|license| row(license, "")).collect();
    import(&file("first.csv", &first));
    let mut most = 0;
    let mut imported = 0;
    for (round, license) in licenses.iter().enumerate() {
        assert_eq!(server.validate(license, "a.com").code(), "ok");
        let again = file(&format!("{round}.csv"), &row(license, "b.com"));
        let is_over = AtomicBool::new(false);
        let barrier = Barrier::new(5);
        thread::scope(|scope| {
            for host in ["c.com", "d.com"] {
                let is_over = &is_over;
                let barrier = &barrier;
                let server = &server;
                scope.spawn(move || {
                    let mut client = Client::connect(server.address);
                    barrier.wait();
                    while !is_over.load(Ordering::Relaxed) {
                        client.post_json(VALIDATE, &question(license, host));
                        client.post_json(VALIDATE, &question(license, "a.com"));
                        client.post_json(VALIDATE, &question(license, "e.com"));
                    }
                });
            }
            let orders = [
                vec!["release", &license.id, "--host", "a.com"],
                vec!["sites", &license.id, "2"],
                vec!["import", "--from", "csv", &again],
            ]
            .map(|order| {
                let barrier = &barrier;
                let instance = &instance;
                scope.spawn(move || {
                    barrier.wait();
                    let is_import = order[0] == "import";
                    if !is_import {
                        // The import has more to read. It is first in some rounds.
                        thread::sleep(Duration::from_millis(20 * (round % 10) as u64));
                    }
                    let output = countersign(instance).arg("license").args(&order).output().unwrap();
                    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
                    let came_late = is_import && said.contains("its license was changed here since it was imported");
                    assert!(output.status.success() || came_late, "{order:?}: {said}");
                    is_import && output.status.success()
                })
            });
            let ended = orders.map(|order| order.join());
            is_over.store(true, Ordering::Relaxed);
            imported += ended.into_iter().filter(|done| *done.as_ref().unwrap()).count();
        });
        most = most.max(assert_no_seat_beyond_the_limit(&instance, license, "b.com"));
    }
    assert!(most >= 2, "no round gave out the second seat");
    assert!((1..=ROUNDS).contains(&imported), "{imported} imports came in time");
}

#[test]
fn every_acknowledged_release_survives_kill_9() {
    const KILLS: usize = 8;
    const EACH: usize = 40;
    let licenses: Vec<License> = (0..KILLS * EACH).map(|_| License::new()).collect();
    let tables: Vec<String> = licenses.iter().map(|license| license.toml("")).collect();
    let instance = Instance::with_licenses(&tables);
    let mut acknowledged = Vec::new();
    for (kill, licenses) in licenses.chunks(EACH).enumerate() {
        let server = Server::start_with(&instance, &["--signing-queue", "1024"]);
        for license in licenses {
            assert_eq!(server.ask(&guarded(license, "old.com", SECRET)).code(), "ok");
        }
        let done = Mutex::new(Vec::new());
        let enough = 5 + (kill * 7) % (EACH - 10);
        thread::scope(|scope| {
            for licenses in licenses.chunks(EACH / 4) {
                let done = &done;
                let address = server.address;
                scope.spawn(move || {
                    let Ok(mut client) = Client::try_connect(address) else {
                        return;
                    };
                    for license in licenses {
                        let body = leaving(license, "old.com", SECRET).to_string();
                        match client.try_request("POST", RELEASE, &[], body.as_bytes()) {
                            Ok(answer) if answer.code() == "released" => done.lock().unwrap().push(license),
                            // Refused by an overload, for example.
                            Ok(_) => {}
                            // Killed.
                            Err(_) => return,
                        }
                    }
                });
            }
            // Without a pause, so that the kill comes while others are asked for.
            let deadline = Instant::now() + PATIENCE;
            while done.lock().unwrap().len() < enough {
                assert!(Instant::now() < deadline, "{enough} releases: not within {PATIENCE:?}");
                thread::yield_now();
            }
            server.kill();
        });
        acknowledged.extend(done.into_inner().unwrap());
    }
    assert!(acknowledged.len() >= KILLS * 5);
    let server = Server::start_with(&instance, &["--signing-queue", "1024"]);
    for license in acknowledged {
        assert_eq!(server.validate(license, "new.com").code(), "ok");
    }
}

#[test]
fn of_a_hundred_hostile_calls_none_releases_a_site() {
    let license = License::new();
    let other = License::new();
    let instance = Instance::with_licenses(&[license.toml("sites = 2"), other.toml("")]);
    let server = Server::start_with(&instance, &["--failures-per-minute", "100000"]);
    assert_eq!(server.ask(&guarded(&license, "a.com", SECRET)).code(), "ok");
    assert_eq!(server.ask(&guarded(&other, "other.com", "theirs")).code(), "ok");
    let key = &license.key;
    let hash = Digest::of(SECRET.as_bytes()).to_string();
    let mut bodies = vec![
        json!([key, "a.com", SECRET]).to_string(),
        json!({ "license_key": key, "site_url": "a.com", "release_secret": [SECRET] }).to_string(),
        json!({ "license_key": key, "site_url": "a.com", "release_secret": null }).to_string(),
        json!({ "license_key": key, "site_url": ["a.com"], "release_secret": SECRET }).to_string(),
        format!(
            "{{\"license_key\":\"{key}\",\"site_url\":\"a.com\",\"release_secret\":\"x\",\"release_secret\":\"{SECRET}\"}}"
        ),
        json!({ "license_key": key, "release_secret": SECRET }).to_string(),
        json!({ "site_url": "a.com", "release_secret": SECRET }).to_string(),
        json!({ "license_key": other.key, "site_url": "a.com", "release_secret": SECRET }).to_string(),
        json!({ "license_key": key, "site_url": "a.com", "release_hash": hash }).to_string(),
        json!({ "license_key": key, "site_url": "a.com", "release_hash": hash, "release_secret": hash }).to_string(),
        json!({ "license_key": key, "site_url": "a.com", "secret": SECRET }).to_string(),
        String::new(),
        "{".into(),
    ];
    for site in [
        "b.com",
        "a.com.evil.com",
        "a.com@evil.com",
        "ftp://a.com",
        "",
        "*",
        "a.com\\",
        "com",
    ] {
        bodies.push(leaving(&license, site, SECRET).to_string());
    }
    for secret in [
        "",
        " ",
        "theirs",
        "*",
        "null",
        "0",
        &hash,
        &hash.to_uppercase(),
        &SECRET.to_uppercase(),
    ] {
        bodies.push(leaving(&license, "a.com", secret).to_string());
    }
    for cut in 0..SECRET.len() {
        bodies.push(leaving(&license, "a.com", &SECRET[..cut]).to_string());
        bodies.push(leaving(&license, "a.com", &format!("{SECRET}{}", "x".repeat(cut + 1))).to_string());
    }
    bodies.push(leaving(&license, "a.com", &format!("{SECRET}\0")).to_string());
    bodies.push(leaving(&license, "a.com", &format!(" {SECRET}")).to_string());
    bodies.push(leaving(&license, "a.com", &"x".repeat(9_000)).to_string());
    for wrong in 0..10_u32 {
        let guess = License::new();
        bodies.push(leaving(&guess, "a.com", &wrong.to_string()).to_string());
    }
    assert!(bodies.len() >= 100, "{}", bodies.len());
    for body in &bodies {
        let answer = request(
            server.address,
            "POST",
            RELEASE,
            &[("Content-Type", "application/json")],
            body.as_bytes(),
        );
        assert!((400..500).contains(&answer.status), "{body}: {}", answer.text());
        assert_eq!(
            answer.header("content-type"),
            Some("application/problem+json"),
            "{body}"
        );
    }
    assert!(released(&instance).is_empty());
    assert_eq!(
        release(&server, &license, "a.com", SECRET).code(),
        "released",
        "and the right one does"
    );
}

#[test]
fn a_license_that_moves_often_is_reviewed_with_each_release() {
    let [restless, calm] = [License::new(), License::new()];
    let instance = Instance::with_licenses(&[restless.toml("note = \"Order 7\"\n"), calm.toml("")]);
    let server = Server::start(&instance);
    let moves = |license: &License, sites: &[&str]| {
        for site in sites {
            assert_eq!(server.ask(&guarded(license, site, SECRET)).code(), "ok", "{site}");
            assert_eq!(release(&server, license, site, SECRET).status, 200, "{site}");
        }
    };
    moves(&calm, &["a.com", "b.com"]);
    moves(&restless, &["a.com", "b.com"]);
    let reviewed = || crate::management::stdout_json(&instance, &["review"])["many_moves"].clone();
    assert_eq!(reviewed(), json!([]), "two are a move and its staging copy");
    assert_eq!(server.validate(&restless, "c.com").code(), "ok");
    assert_eq!(release(&server, &restless, "c.com", "").status, 200);
    let found = reviewed();
    assert_eq!(found.as_array().unwrap().len(), 1);
    assert_eq!(
        (&found[0]["license"], &found[0]["note"]),
        (&json!(restless.id), &json!("Order 7"))
    );
    let released: Vec<_> = found[0]["moves"].as_array().unwrap().iter().collect();
    let said: Vec<_> = released
        .iter()
        .map(|site| (site["host"].as_str().unwrap(), site["by"].as_str().unwrap()))
        .collect();
    assert_eq!(said, [("a.com", "secret"), ("b.com", "secret"), ("c.com", "key")]);
    // A host that takes its seat back is no move, and a compaction forgets none that counts.
    assert_eq!(server.validate(&restless, "c.com").code(), "ok");
    assert!(server.stop().success());
    crate::management::run(&instance, &["bindings", "compact"]);
    assert_eq!(reviewed(), found);
}

/// A move of a client: the old site's secret, and the hash of the new one's.
fn moving(license: &License, [from, to]: [&str; 2], [old, new]: [&str; 2]) -> Value {
    let mut body = leaving(license, from, old);
    body["new_site_url"] = to.into();
    body["release_hash"] = Digest::of(new.as_bytes()).to_string().into();
    body
}

/// A person's click on the old site: its old secret, and the hash of a new one.
fn taking_back(license: &License, site: &str, [old, new]: [&str; 2]) -> Value {
    let mut body = guarded(license, site, new);
    body["release_secret"] = old.into();
    body
}

fn history(instance: &Instance, license: &License) -> Vec<Value> {
    let events = crate::management::stdout_json(instance, &["license", "history", &license.id])["events"].clone();
    let said = |event: &Value| json!([event["event"], event["what"][0]]);
    events.as_array().unwrap().iter().map(said).collect()
}

fn ledger(instance: &Instance) -> String {
    std::fs::read_to_string(instance.file("store/ledger.jsonl")).unwrap()
}

#[test]
fn a_site_moves_in_one_event_and_the_answer_is_that_of_a_validation() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    instance.publish("2.0.0");
    let mut server = Server::start(&instance);
    assert_eq!(server.ask(&guarded(&license, "old.com", SECRET)).code(), "ok");
    let body = moving(&license, ["https://old.com/", "https://new.com/shop"], [SECRET, "new"]);
    let before = ledger(&instance).lines().count();
    // The second time is a retry, and the third one comes after a restart and a compaction.
    for round in 0..3 {
        let answer = post_json(server.address, RELEASE, &body);
        let statement = answer.json();
        let expected = json!({
            "status": "active", "code": "ok", "message": "ok", "modules": ["forms"],
            "expires": "2099-12-31", "nonce": "n-1", "site_url": "https://new.com/shop", "domain": "new.com",
            "license_id": license.id,
        });
        for (member, value) in expected.as_object().unwrap() {
            assert_eq!(statement[member], *value, "{round} {member}");
        }
        assert!(statement["signature"].is_string(), "{statement}");
        if round == 1 {
            assert_eq!(ledger(&instance).lines().count(), before + 1);
            assert!(server.stop().success());
            crate::management::run(&instance, &["bindings", "compact"]);
            server = Server::start(&instance);
        }
    }
    assert!(!server.log().contains("rebuilding"), "{}", server.log());
    let lines = released(&instance);
    assert_eq!(lines.len(), 1);
    let hash = |secret: &str| json!(Digest::of(secret.as_bytes()).to_string());
    for (member, value) in [
        ("host", json!("old.com")),
        ("to", json!("new.com")),
        ("how", json!("secret")),
        ("returns", hash(SECRET)),
        ("release_hash", hash("new")),
    ] {
        assert_eq!(lines[0][member], value);
    }
    assert_eq!(server.updates(&license, "new.com", "").status, 200);
    assert_eq!(server.updates(&license, "old.com", "").code(), "bound_elsewhere");
    // What the old site does by itself, as ever, takes nothing back.
    assert_eq!(
        server.ask(&guarded(&license, "old.com", SECRET)).code(),
        "bound_elsewhere"
    );
    assert_eq!(
        release(&server, &license, "new.com", SECRET).code(),
        "wrong_release_secret"
    );
    assert_eq!(
        history(&instance, &license)[0],
        json!(["moved", "old.com moved to new.com"])
    );
    assert_eq!(release(&server, &license, "new.com", "new").code(), "released");
}

#[test]
fn every_refusal_of_a_move_changes_nothing() {
    let all: Vec<License> = (0..9).map(|_| License::new()).collect();
    let [good, expired, suspended, revoked, ahead, unknown, full, still, two] = &all[..] else {
        unreachable!()
    };
    let tables = |is_over: bool| {
        let of = |license: &License, extra: &str| match is_over {
            true => license.toml(extra),
            false => license.toml(""),
        };
        let expired = match is_over {
            true => expired.toml_with("2001-01-01", "", "forms = []"),
            false => expired.toml(""),
        };
        [
            good.toml(""),
            expired,
            of(suspended, "status = \"suspended\""),
            of(revoked, "status = \"revoked\""),
            ahead.toml("hosts = [\"a.com\"]"),
            full.toml("staging_sites = 1"),
            still.toml("site_moves = 0"),
            two.toml("sites = 2"),
        ]
    };
    let instance = Instance::with_licenses(&tables(false));
    let server = Server::start_with(
        &instance,
        &["--local-hosts", "refuse", "--failures-per-minute", "100000"],
    );
    for license in [good, expired, suspended, revoked, full, still, two] {
        assert_eq!(server.ask(&guarded(license, "a.com", SECRET)).code(), "ok");
    }
    assert_eq!(server.ask(&guarded(full, "staging.a.com", SECRET)).code(), "ok");
    assert!(server.stop().success());
    instance.write_licenses(&tables(true));
    let server = Server::start_with(
        &instance,
        &["--local-hosts", "refuse", "--failures-per-minute", "100000"],
    );
    let before = ledger(&instance);
    for (license, hosts, secret, status, code) in [
        (unknown, ["a.com", "b.com"], SECRET, 403, "unknown_license"),
        (expired, ["a.com", "b.com"], SECRET, 403, "license_expired"),
        (suspended, ["a.com", "b.com"], SECRET, 403, "license_suspended"),
        (revoked, ["a.com", "b.com"], SECRET, 403, "license_revoked"),
        // A stranger with the key, who knows the victim's address.
        (good, ["a.com", "evil.com"], "", 403, "wrong_release_secret"),
        (good, ["a.com", "evil.com"], "guessed", 403, "wrong_release_secret"),
        (good, ["evil.com", "worse.com"], SECRET, 403, "license_not_bound"),
        (ahead, ["a.com", "b.com"], SECRET, 403, "bound_by_vendor"),
        // A staging copy holds no seat that it could give.
        (full, ["staging.a.com", "b.com"], SECRET, 403, "bound_elsewhere"),
        (still, ["a.com", "b.com"], SECRET, 403, "too_many_moves"),
        (good, ["a.com", "https://www.a.com/x"], SECRET, 400, "malformed_request"),
        (good, ["a.com", "localhost"], SECRET, 422, "malformed_site_url"),
        (good, ["a.com", "no host"], SECRET, 422, "malformed_site_url"),
        (good, ["a.com", "ftp://b.com"], SECRET, 422, "malformed_site_url"),
        (good, ["a.com", &good.key], SECRET, 422, "malformed_site_url"),
    ] {
        let refused = post_json(server.address, RELEASE, &moving(license, hosts, [secret, "new"]));
        assert_eq!((refused.status, refused.code()), (status, code.into()), "{hosts:?}");
        assert!(refused.json()["detail"].as_str().unwrap().ends_with('.'));
    }
    let mut odd = moving(good, ["a.com", "b.com"], [SECRET, "new"]);
    odd["release_hash"] = "AB".into();
    assert_eq!(
        post_json(server.address, RELEASE, &odd).code(),
        "malformed_release_hash"
    );
    odd["new_site_url"] = json!(["b.com"]);
    assert_eq!(post_json(server.address, RELEASE, &odd).status, 400);
    assert_eq!(ledger(&instance), before);
    for license in [good, full, still, two] {
        assert_eq!(server.validate(license, "a.com").code(), "ok");
    }

    // A host that has a seat already keeps it as it is, and the old site gives up its own.
    assert_eq!(server.ask(&guarded(two, "b.com", "theirs")).code(), "ok");
    let body = moving(two, ["a.com", "b.com"], [SECRET, "new"]);
    for _ in 0..2 {
        assert_eq!(post_json(server.address, RELEASE, &body).code(), "ok");
    }
    assert_eq!(release(&server, two, "b.com", "new").code(), "wrong_release_secret");
    assert_eq!(server.validate(two, "c.com").code(), "ok");
    // A subdomain is a site like any other.
    let body = moving(good, ["a.com", "shop.a.com"], [SECRET, "new"]);
    assert_eq!(post_json(server.address, RELEASE, &body).code(), "ok");
    assert_eq!(
        server.validate(good, "a.com").code(),
        "ok",
        "and is its staging copy now"
    );
}

#[test]
fn a_local_host_takes_no_seat_and_gives_none_when_a_site_moves() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    let server = Server::start_with(&instance, &["--local-hosts", "allow"]);
    assert_eq!(server.ask(&guarded(&license, "a.com", SECRET)).code(), "ok");
    // A copy on the owner's own machine, and the wrong button.
    let body = moving(&license, ["a.com", "localhost"], [SECRET, "new"]);
    assert_eq!(post_json(server.address, RELEASE, &body).code(), "ok");
    assert_eq!(server.validate(&license, "a.com").code(), "ok");
    assert!(released(&instance).is_empty());
    // From there to a live site, which needs a seat.
    let body = moving(&license, ["localhost", "b.com"], [SECRET, "new"]);
    assert_eq!(post_json(server.address, RELEASE, &body).code(), "bound_elsewhere");
    assert_eq!(release(&server, &license, "a.com", SECRET).code(), "released");
    assert_eq!(post_json(server.address, RELEASE, &body).code(), "ok");
    assert_eq!(release(&server, &license, "b.com", "new").code(), "released");
}

#[test]
fn the_old_site_takes_its_seat_back_once_and_only_with_its_secret() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    let server = Server::start_with(&instance, &["--site-moves", "2"]);
    assert_eq!(server.ask(&guarded(&license, "old.com", SECRET)).code(), "ok");
    // The secret was in a backup that somebody has.
    let theft = moving(&license, ["old.com", "evil.com"], [SECRET, "evil"]);
    assert_eq!(post_json(server.address, RELEASE, &theft).code(), "ok");
    for (site, secrets) in [
        ("old.com", ["evil", "fresh"]),
        ("old.com", ["", "fresh"]),
        ("other.com", [SECRET, "fresh"]),
    ] {
        let refused = server.ask(&taking_back(&license, site, secrets));
        assert_eq!(refused.code(), "bound_elsewhere", "{site} {secrets:?}");
    }
    assert!(server.stop().success());
    crate::management::run(&instance, &["bindings", "compact"]);
    let server = Server::start_with(&instance, &["--site-moves", "2"]);
    for _ in 0..2 {
        let back = server.ask(&taking_back(&license, "old.com", [SECRET, "fresh"]));
        assert_eq!(back.code(), "ok", "{}", back.text());
    }
    assert_eq!(server.validate(&license, "evil.com").code(), "bound_elsewhere");
    // The stolen secret is worth nothing any more. The return was no move, so there is one left.
    assert_eq!(
        post_json(server.address, RELEASE, &theft).code(),
        "wrong_release_secret"
    );
    let second = moving(&license, ["old.com", "new.com"], ["fresh", "new"]);
    assert_eq!(post_json(server.address, RELEASE, &second).code(), "ok");
    let again = server.ask(&taking_back(&license, "old.com", [SECRET, "x"]));
    assert_eq!(again.code(), "bound_elsewhere", "once for a move");
    let third = moving(&license, ["new.com", "newer.com"], ["new", "newer"]);
    assert_eq!(post_json(server.address, RELEASE, &third).code(), "too_many_moves");
    let how: Vec<_> = released(&instance)
        .iter()
        .map(|line| json!([line["host"], line["how"], line["to"]]))
        .collect();
    assert_eq!(
        how,
        [
            json!(["old.com", "secret", "evil.com"]),
            json!(["evil.com", "return", null]),
            json!(["old.com", "secret", "new.com"])
        ]
    );
}

/// Each license moves ten times while others ask for its seat.
#[test]
fn of_a_thousand_requests_for_the_seat_none_comes_between_release_and_binding() {
    const LICENSES: usize = 10;
    const MOVES: usize = 10;
    const OTHERS: usize = 4;
    const AT_LEAST: usize = 1_000;
    let licenses: Vec<License> = (0..LICENSES).map(|_| License::new()).collect();
    let tables: Vec<String> = licenses
        .iter()
        .map(|license| license.toml("site_moves = 100"))
        .collect();
    let instance = Instance::with_licenses(&tables);
    let server = start_for_races(&instance);
    for license in &licenses {
        assert_eq!(server.ask(&guarded(license, "site-0.com", "secret 0")).code(), "ok");
    }
    let has_moved = AtomicBool::new(false);
    let refused = Mutex::new(0);
    thread::scope(|scope| {
        for number in 0..OTHERS {
            let has_moved = &has_moved;
            let refused = &refused;
            let licenses = &licenses;
            let address = server.address;
            scope.spawn(move || {
                let mut client = Client::connect(address);
                let site = format!("other-{number}.com");
                let mut count = 0;
                while !has_moved.load(Ordering::Relaxed) || count < AT_LEAST / OTHERS {
                    for license in licenses {
                        let answer = client.post_json(VALIDATE, &question(license, &site));
                        assert_eq!(answer.code(), "bound_elsewhere");
                        count += 1;
                    }
                }
                *refused.lock().unwrap() += count;
            });
        }
        let mut client = Client::connect(server.address);
        for number in 1..=MOVES {
            let names = [number - 1, number].map(|number| format!("site-{number}.com"));
            let secrets = [number - 1, number].map(|number| format!("secret {number}"));
            for license in &licenses {
                let body = moving(
                    license,
                    names.each_ref().map(|name| &**name),
                    secrets.each_ref().map(|text| &**text),
                );
                assert_eq!(client.post_json(RELEASE, &body).code(), "ok");
            }
        }
        has_moved.store(true, Ordering::Relaxed);
    });
    let refused = refused.into_inner().unwrap();
    assert!(refused >= AT_LEAST, "{refused}");
    assert_eq!(released(&instance).len(), LICENSES * MOVES);
    for license in &licenses {
        assert_eq!(server.validate(license, "site-10.com").code(), "ok");
    }
}

/// A validation with the hash of this secret, so many days ago.
async fn seen(
    store: &countersign_ledger::Ledger,
    license: &countersign_model::license::License,
    secret: &str,
    days: i64,
) {
    let seen = countersign_ledger::SeenHash {
        license,
        host: &"a.com".parse().unwrap(),
        hash: countersign_model::site_release::ReleaseHash::of(secret),
        is_active: true,
        may_begin: true,
        now: Utc::now() - chrono::TimeDelta::days(days),
    };
    store.see_hash(seen).await.unwrap();
}

/// A ledger whose license is bound to a.com with `SECRET`, and claimed with another secret so many days ago.
fn claimed(instance: &Instance, license: &License, days: i64, last_seen: Option<i64>) {
    let store = countersign_ledger::open(&instance.file("store")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let issued = issue(license);
        store.change_license(issued.clone()).await.unwrap();
        let host = "a.com".parse().unwrap();
        let bound = Utc::now() - chrono::TimeDelta::days(days + 1);
        let request = countersign_ledger::SeatRequest {
            release_hash: Some(countersign_model::site_release::ReleaseHash::of(SECRET)),
            ..countersign_ledger::SeatRequest::new(&issued.license, &host, bound)
        };
        store.bind(request).await.unwrap();
        seen(&store, &issued.license, "anew", days).await;
        if let Some(days) = last_seen {
            seen(&store, &issued.license, SECRET, days).await;
        }
    });
    store.close().unwrap();
}

fn claims(instance: &Instance) -> Vec<Value> {
    let claims = crate::management::stdout_json(instance, &["review"])["claims"].clone();
    let said = |claim: &Value| json!([claim["host"], claim["step"], claim["until"].is_string()]);
    claims.as_array().unwrap().iter().map(said).collect()
}

#[test]
fn a_site_that_was_installed_again_has_its_new_secret_after_14_days_of_silence() {
    let license = License::new();
    let instance = Instance::new();
    claimed(&instance, &license, 13, None);
    let server = Server::start(&instance);
    assert_eq!(server.ask(&guarded(&license, "a.com", "anew")).code(), "ok");
    assert_eq!(
        release(&server, &license, "a.com", "anew").code(),
        "wrong_release_secret"
    );
    assert_eq!(claims(&instance), [json!(["a.com", "begun", true])]);
    assert_eq!(history(&instance, &license)[0][0], "claimed");

    let instance = Instance::new();
    claimed(&instance, &license, 14, None);
    let mut server = Server::start(&instance);
    assert_eq!(server.ask(&guarded(&license, "a.com", "anew")).code(), "ok");
    assert_eq!(claims(&instance), [json!(["a.com", "taken", false])]);
    assert_eq!(
        release(&server, &license, "a.com", SECRET).code(),
        "wrong_release_secret"
    );
    assert!(server.stop().success());
    crate::management::run(&instance, &["bindings", "compact"]);
    server = Server::start(&instance);
    assert!(!server.log().contains("rebuilding"), "{}", server.log());
    // The site was alive all the same.
    for _ in 0..2 {
        assert_eq!(server.ask(&guarded(&license, "a.com", SECRET)).code(), "ok");
    }
    assert_eq!(claims(&instance), [json!(["a.com", "returned", false])]);
    assert_eq!(
        release(&server, &license, "a.com", "anew").code(),
        "wrong_release_secret"
    );
    assert_eq!(release(&server, &license, "a.com", SECRET).code(), "released");
}

#[test]
fn the_key_alone_claims_no_site_where_no_customer_can_be_notified() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    let server = Server::start(&instance);
    for secret in [SECRET, "anew", "anew"] {
        assert_eq!(server.ask(&guarded(&license, "a.com", secret)).code(), "ok");
    }
    assert!(claims(&instance).is_empty());
    let forged = format!("/site-claim/{}", "A".repeat(64));
    for target in [&*forged, "/site-claim/", "/site-claim/x/y"] {
        for method in ["GET", "POST"] {
            assert_eq!(
                request(server.address, method, target, &[], b"").status,
                404,
                "{target}"
            );
        }
    }
    assert_eq!(
        release(&server, &license, "a.com", "anew").code(),
        "wrong_release_secret"
    );
}

#[test]
fn a_site_that_is_alive_ends_each_claim_of_its_binding() {
    let license = License::new();
    let instance = Instance::new();
    claimed(&instance, &license, 20, Some(7));
    let server = Server::start(&instance);
    let lines = |instance: &Instance| ledger(instance).matches("\"event\":\"claimed\"").count();
    // The stranger asks on, and the site itself: nothing begins again, and nothing is written.
    for secret in ["anew", SECRET, "third", "anew", ""] {
        assert_eq!(server.ask(&guarded(&license, "a.com", secret)).code(), "ok");
    }
    assert_eq!(lines(&instance), 2);
    assert_eq!(claims(&instance), [json!(["a.com", "ended", false])]);
    for wrong in ["anew", "third"] {
        assert_eq!(
            release(&server, &license, "a.com", wrong).code(),
            "wrong_release_secret"
        );
    }

    // Two strangers are in each other's way, and the site may be silent.
    let instance = Instance::new();
    claimed(&instance, &license, 20, None);
    let server = Server::start(&instance);
    for secret in ["third", "anew"] {
        assert_eq!(server.ask(&guarded(&license, "a.com", secret)).code(), "ok");
    }
    assert_eq!(claims(&instance), [json!(["a.com", "ended", false])]);
    assert_eq!(release(&server, &license, "a.com", SECRET).code(), "released");
}
