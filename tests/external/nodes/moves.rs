//! Sites that leave through one node while others ask another node for their seats.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;

use countersign_model::digest::Digest;
use serde_json::{Value, json};

use super::database::prepared_cluster;
use super::node::{code, instance, start};
use crate::support::http::Client;
use crate::support::instance::{Instance, License, question};
use crate::support::issued::issue;
use crate::support::server::countersign;
use crate::support::{eventually, post_json};

const VALIDATE: &str = "/api/v1/validate-license";
const RELEASE: &str = "/api/v1/release-site";
const SECRET: &str = "a secret that only one site has";

fn guarded(license: &License, site: &str) -> Value {
    let mut question = question(license, site);
    question["release_hash"] = Digest::of(SECRET.as_bytes()).to_string().into();
    question
}

fn leaving(license: &License, site: &str, secret: &str) -> Value {
    json!({ "license_key": license.key, "site_url": site, "release_secret": secret })
}

#[test]
fn a_site_leaves_through_any_node_once_and_at_most_one_gets_its_seat() {
    const ROUNDS: usize = 25;
    const EACH: usize = 4;
    let cluster = prepared_cluster();
    let licenses: Vec<License> = (0..ROUNDS).map(|_| License::new()).collect();
    let all: Vec<&License> = licenses.iter().collect();
    let instances = [instance(&all), instance(&all)];
    let nodes = instances
        .each_ref()
        .map(|instance| start(instance, &cluster.url("node")));
    for license in &licenses {
        assert_eq!(nodes[0].ask(&guarded(license, "old.com")).code(), "ok");
        let refused = post_json(nodes[1].address, RELEASE, &leaving(license, "old.com", "wrong"));
        assert_eq!(code(&refused), "wrong_release_secret");
    }
    let barrier = Barrier::new(2 * EACH);
    let winners = Mutex::new(vec![BTreeSet::new(); ROUNDS]);
    thread::scope(|scope| {
        for number in 0..2 * EACH {
            let barrier = &barrier;
            let winners = &winners;
            let licenses = &licenses;
            // Of those who leave, and of those who ask, every second one at each node.
            let address = nodes[number / 2 % 2].address;
            scope.spawn(move || {
                let mut client = Client::connect(address);
                for (round, license) in licenses.iter().enumerate() {
                    barrier.wait();
                    if number % 2 == 0 {
                        let answer = client.post_json(RELEASE, &leaving(license, "old.com", SECRET));
                        assert_eq!(code(&answer), "released", "{}", answer.text());
                        continue;
                    }
                    let site = format!("site-{number}.com");
                    if code(&client.post_json(VALIDATE, &question(license, &site))) == "ok" {
                        winners.lock().unwrap()[round].insert(site);
                    }
                }
            });
        }
    });
    let winners = winners.into_inner().unwrap();
    assert!(winners.iter().all(|winners| winners.len() <= 1), "{winners:?}");
    for (license, winners) in licenses.iter().zip(&winners) {
        let site = winners.first().map_or("late.com", String::as_str);
        assert_eq!(code(&nodes[0].validate(license, site)), "ok");
        eventually("the other node knows which site has the seat", || {
            code(&nodes[1].validate(license, site)) == "ok"
                && code(&nodes[1].validate(license, "old.com")) == "bound_elsewhere"
        });
    }
    let count = cluster.psql("SELECT count(*) FROM countersign.ledger WHERE line LIKE '%\"event\":\"released\"%'");
    assert_eq!(count.trim(), ROUNDS.to_string(), "each site left once");
    for node in nodes {
        assert!(node.stop().success());
    }
    let verified = countersign(&instances[0])
        .env("COUNTERSIGN_STORE", cluster.url("node"))
        .args(["bindings", "verify"])
        .output()
        .unwrap();
    assert!(
        verified.status.success(),
        "{}",
        String::from_utf8_lossy(&verified.stderr)
    );
    // A node that starts again reads all of it.
    let node = start(&instances[1], &cluster.url("node"));
    assert_eq!(code(&node.validate(&licenses[0], "old.com")), "bound_elsewhere");
}

/// In each round, the vendor moves a license of the ledger through one node while its site leaves through another one, where a
/// third site asks for the seat.
#[test]
fn a_move_through_one_node_beside_another_one_never_gives_a_license_two_sites() {
    let cluster = prepared_cluster();
    let url = cluster.url("node");
    let licenses: Vec<License> = (0..40).map(|_| License::new()).collect();
    let folder = tempfile::tempdir().unwrap();
    let store = countersign_ledger::open_shared(&url, folder.path(), false).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for license in &licenses {
        runtime.block_on(store.change_license(issue(license))).unwrap();
    }
    store.close().unwrap();
    drop(store);
    let instances = [Instance::new(), Instance::new()];
    let nodes = instances.each_ref().map(|instance| start(instance, &url));
    for (round, license) in licenses.iter().enumerate() {
        assert_eq!(code(&nodes[1].validate(license, "a.com")), "ok");
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut client = Client::connect(nodes[1].address);
                for attempt in 0..40 {
                    if attempt == round % 20 {
                        client.post_json(RELEASE, &leaving(license, "a.com", ""));
                    }
                    client.post_json(VALIDATE, &question(license, "c.com"));
                    if is_over.load(Ordering::Relaxed) && attempt >= round % 20 {
                        break;
                    }
                }
            });
            let moved = countersign(&instances[0])
                .env("COUNTERSIGN_STORE", &url)
                .args(["license", "move", &license.id, "--from", "a.com", "--to", "b.com"])
                .output()
                .unwrap();
            is_over.store(true, Ordering::Relaxed);
            let exit = moved.status.code();
            assert!(
                exit == Some(0) || exit == Some(3),
                "{}",
                String::from_utf8_lossy(&moved.stderr)
            );
        });
    }
    for license in &licenses {
        let holds = |site: &&str| code(&nodes[1].validate(license, site)) == "ok";
        let sites = || ["b.com", "c.com", "a.com"].into_iter().filter(holds);
        // One may still take its seat back.
        let _ = sites().count();
        assert_eq!(sites().count(), 1, "{}", license.id);
    }
}

#[test]
fn what_sites_gave_back_to_any_node_is_reviewed_on_each() {
    let cluster = prepared_cluster();
    let license = License::new();
    let instances = [instance(&[&license]), instance(&[&license])];
    let nodes = instances
        .each_ref()
        .map(|instance| start(instance, &cluster.url("node")));
    for (number, site) in ["a.com", "b.com", "c.com"].iter().enumerate() {
        let node = &nodes[number % 2];
        assert_eq!(code(&node.ask(&guarded(&license, site))), "ok");
        assert_eq!(
            code(&post_json(node.address, RELEASE, &leaving(&license, site, SECRET))),
            "released"
        );
    }
    for instance in &instances {
        let reviewed = countersign(instance)
            .env("COUNTERSIGN_STORE", cluster.url("node"))
            .args(["review", "--json"])
            .output()
            .unwrap();
        assert!(reviewed.status.success(), "{reviewed:?}");
        let found: Value = serde_json::from_slice(&reviewed.stdout).unwrap();
        let moves = found["many_moves"][0]["moves"].as_array().unwrap();
        let hosts: Vec<_> = moves.iter().map(|site| site["host"].as_str().unwrap()).collect();
        assert_eq!(
            (&found["many_moves"][0]["license"], hosts),
            (&json!(license.id), vec!["a.com", "b.com", "c.com"])
        );
    }
}

#[test]
fn a_site_moves_through_one_node_and_takes_its_seat_back_through_another() {
    let cluster = prepared_cluster();
    let licenses: Vec<License> = (0..10).map(|_| License::new()).collect();
    let all: Vec<&License> = licenses.iter().collect();
    let instances = [instance(&all), instance(&all)];
    let nodes = instances
        .each_ref()
        .map(|instance| start(instance, &cluster.url("node")));
    let hash = |secret: &str| Digest::of(secret.as_bytes()).to_string();
    for license in &licenses {
        assert_eq!(code(&nodes[0].ask(&guarded(license, "old.com"))), "ok");
        let mut body = leaving(license, "old.com", SECRET);
        body["new_site_url"] = "new.com".into();
        body["release_hash"] = hash("new").into();
        // The same request at both at once, beside sites that ask for the seat.
        thread::scope(|scope| {
            for node in &nodes {
                let body = &body;
                scope.spawn(move || {
                    let answer = post_json(node.address, RELEASE, body);
                    assert_eq!(code(&answer), "ok", "{}", answer.text());
                });
                scope.spawn(move || {
                    for number in 0..5 {
                        let site = format!("site-{number}.com");
                        assert_eq!(code(&node.validate(license, &site)), "bound_elsewhere");
                    }
                });
            }
        });
        // By itself the old site takes nothing back, at whichever node.
        for node in &nodes {
            assert_eq!(code(&node.ask(&guarded(license, "old.com"))), "bound_elsewhere");
        }
        let mut back = question(license, "old.com");
        back["release_hash"] = hash("fresh").into();
        back["release_secret"] = SECRET.into();
        assert_eq!(code(&nodes[1].ask(&back)), "ok");
        eventually("the other node knows", || {
            code(&nodes[0].validate(license, "new.com")) == "bound_elsewhere"
        });
        assert_eq!(
            code(&post_json(nodes[0].address, RELEASE, &body)),
            "wrong_release_secret"
        );
    }
    let count = cluster.psql("SELECT count(*) FROM countersign.ledger WHERE line LIKE '%\"to\":\"new.com\"%'");
    assert_eq!(count.trim(), licenses.len().to_string(), "each moved once");
}
