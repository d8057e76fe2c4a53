//! Two nodes on a PostgreSQL that is newer than Debian's: what the other tests show with the old one holds there, too.

use std::slice;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::client::Client;
use super::database::prepare;
use super::linear::{HOSTS, Histories};
use super::node::{Node, instance};
use crate::support::eventually;
use crate::support::instance::License;
use crate::support::linear::What;
use crate::support::server::countersign;
use crate::tools::postgres::{Cluster, Version};

/// Licenses that are bound before the first fault, and during each one.
const LICENSES: usize = 12;

fn major(version: Version) -> u32 {
    let number = version.number();
    number.split('.').next().unwrap().parse().unwrap()
}

/// What a command prints in JSON.
fn json(cluster: &Cluster, arguments: &[&str]) -> Value {
    let own = instance(&[&License::new()]);
    let mut command = countersign(&own);
    command.env("COUNTERSIGN_STORE", cluster.url("node")).args(arguments);
    let output = command.output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

/// Asks one node to bind a host.
fn bind(node: &Node, license: &License, host: &str) -> What {
    Client::new(slice::from_ref(node), 0).bind(license, host)
}

/// The hosts that get updates from a node, of those that asked.
fn known(node: &Node, histories: &Histories) -> Vec<String> {
    let mut client = Client::new(slice::from_ref(node), 0);
    let mut known = Vec::new();
    for license in &histories.licenses {
        for number in 0..HOSTS {
            let host = format!("site-{number}.com");
            if client.update(license, &host).is_ok() {
                known.push(format!("{} {host}", license.id));
            }
        }
    }
    known
}

#[test]
fn two_nodes_on_a_newer_postgresql_lose_nothing_when_a_node_or_the_database_is_killed() {
    assert!(major(Version::Newest) > major(Version::Debian));
    let started = Instant::now();
    let histories = Histories::new(3 * LICENSES).with_age(Duration::from_secs(12));
    let [one, other] = [License::new(), License::new()];
    let mut tables = histories.tables();
    tables.extend([one.toml(""), other.toml("")]);
    let mut cluster = Cluster::start_with(Version::Newest, "");
    prepare(&cluster);
    let nodes = [(); 2].map(|()| Node::start(&tables, cluster.url("node")));

    // Each answer is one that a single list of hosts could have given, refusals included.
    histories.record(&nodes, 0..LICENSES);
    assert_eq!(histories.check(&cluster), 0, "questions without an answer");

    // A question and its answer each move the time by one.
    let soon = || histories.time() + 300;
    let when = soon();
    thread::scope(|scope| {
        scope.spawn(|| histories.record(&nodes, LICENSES..2 * LICENSES));
        eventually("questions", || histories.time() >= when);
        nodes[0].kill();
    });
    nodes[0].restart();

    let when = soon();
    thread::scope(|scope| {
        scope.spawn(|| histories.record(&nodes, 2 * LICENSES..3 * LICENSES));
        eventually("questions", || histories.time() >= when);
        cluster.kill();
    });
    cluster.restart();
    let well = "countersign_ledger_state{state=\"ok\"}";
    eventually("both nodes are well again", || {
        nodes.iter().all(|node| node.metric(well) == Some(1.0))
    });
    let unknown = histories.check(&cluster);
    assert!(unknown > 0, "no fault hit a question");

    // Both bind, and each knows what the other bound.
    for (license, [first, second]) in [(&one, [&nodes[0], &nodes[1]]), (&other, [&nodes[1], &nodes[0]])] {
        let bound = bind(first, license, "first.com");
        assert!(matches!(bound, What::Bound(_)), "{bound:?}");
        match bind(second, license, "second.com") {
            What::Elsewhere(_, host) => assert_eq!(host, "first.com"),
            answer => panic!("{answer:?}"),
        }
    }

    let verified = json(&cluster, &["bindings", "verify", "--json"]);
    assert_eq!(
        verified["lines"].to_string(),
        cluster.psql("SELECT count(*) FROM countersign.ledger")
    );
    assert_eq!(
        verified["last_digest"],
        cluster.psql("SELECT digest FROM countersign.head")
    );
    for node in &nodes {
        eventually("it knows every binding", || {
            node.metric("countersign_bindings") == verified["bindings"].as_f64()
        });
    }
    let [known_to_one, known_to_other] = nodes.each_ref().map(|node| known(node, &histories));
    assert_eq!(known_to_one, known_to_other);

    let findings = json(&cluster, &["doctor", "--json"]);
    let of_database: Vec<_> = findings
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| ["database", "nodes", "store"].contains(&finding["part"].as_str().unwrap()))
        .collect();
    assert!(
        of_database.iter().all(|finding| finding["verdict"] != "broken"),
        "{of_database:?}"
    );
    let told = format!("PostgreSQL {}, takes changes", Version::Newest.number());
    let is_told = |finding: &&Value| finding["finding"].as_str().unwrap().ends_with(&told);
    assert!(of_database.iter().any(is_told), "{told}: {of_database:?}");
    eprintln!(
        "nodes: PostgreSQL {}: {} lines, {} sites known to both nodes, {unknown} questions without an answer, in {:?}",
        Version::Newest.number(),
        verified["lines"],
        known_to_one.len(),
        started.elapsed()
    );
}
