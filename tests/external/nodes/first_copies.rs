//! First copies count over all nodes, approximately: each node learns within seconds what others gave.

use serde_json::Value;

use super::database::prepared_cluster;
use super::node::start;
use crate::support::instance::{Instance, License};
use crate::support::server::{Server, countersign};
use crate::support::{Response, eventually, request};
use crate::tools::plain_package::{self, PACKAGE};

fn ask(node: &Server, license: &License) -> Response {
    let credentials = format!("License {}", license.key);
    let target = "/api/v1/packages/acme-forms";
    request(node.address, "GET", target, &[("Authorization", &credentials)], b"")
}

/// How many packages a node gives of thirty that are asked for.
fn given(node: &Server, license: &License) -> usize {
    (0..30).filter(|_| ask(node, license).status == 200).count()
}

#[test]
fn what_one_node_gave_counts_on_the_other_within_seconds() {
    let cluster = prepared_cluster();
    let url = cluster.url("node");
    let [settled, at_once] = [License::new(), License::new()];
    let tables = [settled.toml(""), at_once.toml("")];
    let instances = [(); 2].map(|()| Instance::with_licenses(&tables));
    instances.iter().for_each(plain_package::host);
    let nodes = instances.each_ref().map(|instance| start(instance, &url));
    // What `review` on a node says of a license that was refused.
    let packages = |node: usize, license: &License| {
        let mut command = countersign(&instances[node]);
        command.env("COUNTERSIGN_STORE", &url).args(["review", "--json"]);
        let review: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        let listed = review["many_first_copies"].as_array().unwrap().clone();
        let found = listed.iter().find(|found| found["license"] == license.id.as_str());
        found.and_then(|found| found["packages"].as_u64())
    };
    let first = ask(&nodes[0], &settled);
    assert_eq!((first.status, first.text().as_str()), (200, PACKAGE));
    assert_eq!(given(&nodes[0], &settled), 19);
    eventually("what was given is written", || packages(1, &settled) == Some(20));
    assert_eq!(
        ask(&nodes[1], &settled).status,
        429,
        "the other node reads it before its first copy"
    );

    // Both are asked at once: each gives what it may, until it learns of the other.
    let both = std::thread::scope(|scope| {
        let asked = nodes.each_ref().map(|node| scope.spawn(|| given(node, &at_once)));
        asked.map(|asked| asked.join().unwrap())
    });
    assert!(
        both.iter().all(|given| *given <= 20) && both.iter().sum::<usize>() >= 20,
        "{both:?}"
    );
    let sum = both.iter().sum::<usize>() as u64;
    eventually("both tell the sum", || {
        [0, 1].iter().all(|node| packages(*node, &at_once) == Some(sum))
    });
    eventually("both refuse", || {
        nodes.iter().all(|node| ask(node, &at_once).status == 429)
    });
}
