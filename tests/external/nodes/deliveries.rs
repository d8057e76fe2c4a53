//! Deliveries of a shop reach any node, also while the database is away: one sale is one license, on every node.

use std::fs;
use std::time::Duration;

use serde_json::json;

use super::database::prepared_cluster;
use super::node::{code, instance, start};
use crate::support::instance::{Instance, License};
use crate::support::server::Server;
use crate::support::shop::{add_shop, deliver, invoice};
use crate::support::{eventually, random::Random};
use crate::tools::postgres::Cluster;

/// Until a node that was without its database applies what waits: 10 s to get well, and 5 s to look again.
const WELL_AGAIN: Duration = Duration::from_secs(20);

/// Two nodes with the same keys, licenses and offers.
fn two_instances() -> [Instance; 2] {
    let license = License::new();
    let both = [instance(&[&license]), instance(&[&license])];
    let [first, second] = &both;
    add_shop(first);
    add_shop(second);
    for secret in ["keys/issuing.key", "keys/references.key"] {
        fs::copy(first.file(secret), second.file(secret)).unwrap();
    }
    both
}

fn waiting(node: &Server) -> f64 {
    node.metric("countersign_shop_deliveries{state=\"waiting\"}").unwrap()
}

/// The lines about licenses, by license: the last status of each.
fn statuses(cluster: &Cluster) -> Vec<String> {
    let sql = "SELECT DISTINCT ON (line::jsonb->>'license') line::jsonb->>'status' FROM countersign.ledger \
               WHERE line::jsonb->>'event' = 'license' ORDER BY line::jsonb->>'license', sequence DESC";
    cluster.psql(sql).lines().map(str::to_owned).collect()
}

#[test]
fn one_sale_that_several_nodes_hear_of_is_one_license_and_a_database_that_is_away_loses_none() {
    let mut cluster = prepared_cluster();
    let instances = two_instances();
    let nodes = instances
        .each_ref()
        .map(|instance| start(instance, &cluster.url("node")));
    let sale = |number: i64| {
        let mut sale = invoice(&format!("in_{number}"), "subscription_create", "price_small", 1, 30);
        sale["parent"]["subscription_details"]["subscription"] = json!(format!("sub_{number}"));
        sale["payment_intent"] = json!(format!("pi_{number}"));
        sale
    };
    let refund = |number: i64| json!({ "id": format!("ch_{number}"), "payment_intent": format!("pi_{number}"), "refunded": true });

    // Each delivery to both nodes at once, and its refund to one of them.
    let mut random = Random::new(7);
    for number in 0..10 {
        std::thread::scope(|scope| {
            for node in &nodes {
                scope.spawn(|| assert_eq!(deliver(node, "invoice.paid", number, &sale(number)), 200));
            }
            let node = &nodes[random.below(2)];
            scope.spawn(|| assert_eq!(deliver(node, "charge.refunded", 100 + number, &refund(number)), 200));
        });
    }
    eventually("all are applied", WELL_AGAIN, || {
        nodes.iter().all(|node| waiting(node) == 0.0)
    });
    assert_eq!(statuses(&cluster), ["revoked"; 10], "{}", nodes[0].log());

    // 200 also while the database is away.
    cluster.kill();
    for number in 10..15 {
        for node in &nodes {
            assert_eq!(deliver(node, "invoice.paid", number, &sale(number)), 200);
        }
    }
    assert!(waiting(&nodes[0]) == 5.0 && waiting(&nodes[1]) == 5.0);
    cluster.restart();
    eventually("all are applied", WELL_AGAIN, || {
        nodes.iter().all(|node| waiting(node) == 0.0)
    });
    let all = statuses(&cluster);
    assert_eq!(
        (all.len(), all.iter().filter(|status| *status == "active").count()),
        (15, 5)
    );
    let license = License::new();
    assert_eq!(code(&nodes[1].validate(&license, "a.com")), "unknown_license");
    assert!(nodes.iter().all(|node| !node.log().contains("CANARY")));
}
