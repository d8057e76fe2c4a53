//! The orders of licenses in the shared table: written on one node, shown and erased on another, and copied both ways.

use std::process::Output;

use serde_json::{Value, json};

use super::database::prepared_cluster;
use super::management::{Nodes, run, send};
use crate::support::instance::License;
use crate::support::issued::license_of;
use crate::support::server::countersign;

const ORDER: &str = "order 7 of anna@buyer.example";

impl Nodes {
    fn issue(&self, node: usize, key: &str, order: &str) -> (License, Value) {
        let body = json!({ "modules": { "forms": [] }, "expires": "never", "reference": order });
        let issued = send(&self.servers[node], &self.bearer, "POST", "", key, &body);
        assert!([200, 201].contains(&issued.status), "{}", issued.text());
        (license_of(&issued), issued.json())
    }

    fn shown(&self, node: usize, license: &License) -> Option<String> {
        let target = format!("/{}", license.id);
        let shown = send(&self.servers[node], &self.bearer, "GET", &target, "", &json!({}));
        assert_eq!(shown.status, 200, "{}", shown.text());
        let shown = shown.json();
        shown.get("reference").map(|text| text.as_str().unwrap().to_owned())
    }

    fn forget(&self, node: usize, order: &str) -> Output {
        countersign(&self.instances[node])
            .env("COUNTERSIGN_STORE", self.cluster.url("node"))
            .args(["license", "forget", "--json", "--reference", order])
            .output()
            .unwrap()
    }
}

#[test]
fn an_order_is_shown_on_every_node_and_what_one_erases_is_gone_on_all() {
    let nodes = Nodes::start();
    let (license, told) = nodes.issue(0, "1", ORDER);
    assert_eq!(told["reference"], ORDER);
    let (odd, _) = nodes.issue(0, "2", "a\0b");
    assert_eq!(nodes.shown(1, &license).as_deref(), Some(ORDER));
    assert_eq!(nodes.shown(1, &odd).as_deref(), Some("a\u{fffd}b"));
    let unknown = nodes.forget(1, "order 9");
    assert_eq!(unknown.status.code(), Some(3), "{unknown:?}");

    let erased = nodes.forget(1, ORDER);
    assert!(erased.status.success(), "{erased:?}");
    let erased: Value = serde_json::from_slice(&erased.stdout).unwrap();
    assert_eq!((&erased["changed"], &erased["licenses"]), (&json!(true), &json!(1)));
    assert_eq!(nodes.shown(0, &license), None);
    let (again, told) = nodes.issue(0, "1", ORDER);
    assert_eq!((again.id, told.get("reference")), (license.id.clone(), None));
    let (_, told) = nodes.issue(0, "3", ORDER);
    assert_eq!(told.get("reference"), None);
    let kept = "SELECT count(*) FROM countersign.texts WHERE text LIKE '%anna%'";
    assert_eq!(nodes.cluster.psql(kept), "0");

    // The role of the nodes can do no more than it needs: rows of customers are deleted.
    let rights = "SELECT has_table_privilege('node', 'countersign.texts', 'TRUNCATE')";
    assert_eq!(nodes.cluster.psql(rights), "f");
}

#[test]
fn what_a_node_notes_of_a_change_is_told_and_erased_on_the_other() {
    let nodes = Nodes::start();
    let (license, _) = nodes.issue(0, "1", ORDER);
    let reason = "chargeback of anna";
    let suspend = format!("/{}/suspend", license.id);
    let suspended = send(
        &nodes.servers[0],
        &nodes.bearer,
        "POST",
        &suspend,
        "",
        &json!({ "reason": reason }),
    );
    assert_eq!(suspended.status, 200, "{}", suspended.text());
    assert_eq!(nodes.servers[1].validate(&license, "https://a.example").status, 200);
    let store = nodes.cluster.url("node");
    run(&nodes.instances[1], &store, &["license", "resume", &license.id]);
    let history = || {
        let told = run(
            &nodes.instances[1],
            &store,
            &["license", "history", &license.id, "--json"],
        );
        serde_json::from_slice::<Value>(&told.stdout).unwrap()["events"].clone()
    };
    let told = history();
    assert_eq!(
        (&told[0]["what"], &told[0]["by"]),
        (&json!(["resumed"]), &json!("operator:cli"))
    );
    assert!(told[0]["who"].is_string(), "{told}");
    assert_eq!(
        (&told[1]["reason"], &told[1]["by"]),
        (&json!(reason), &json!("token:shop"))
    );
    assert_eq!(told[2]["event"], "issued");
    run(&nodes.instances[1], &store, &["license", "forget", &license.id]);
    assert!(history()[1]["reason_erased"].is_string(), "{}", history());
    let kept = format!("SELECT count(*) FROM countersign.texts WHERE text = '{reason}'");
    assert_eq!(nodes.cluster.psql(&kept), "0");
    assert_eq!(nodes.shown(0, &license).as_deref(), Some(ORDER), "the order stays");

    // The owner's compaction keeps all of it.
    for server in nodes.servers {
        server.stop();
    }
    nodes
        .cluster
        .psql("UPDATE countersign.nodes SET seen = seen - interval '1 minute'");
    run(
        &nodes.instances[0],
        &nodes.cluster.url("postgres"),
        &["bindings", "compact"],
    );
    let told = run(
        &nodes.instances[1],
        &store,
        &["license", "history", &license.id, "--json"],
    );
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!(told["events"].as_array().unwrap().len(), 3, "{told}");
}

#[test]
fn bindings_copy_takes_orders_along_both_ways_and_brings_back_nothing_that_was_erased() {
    let nodes = Nodes::start();
    let (license, _) = nodes.issue(0, "1", ORDER);
    let (other, _) = nodes.issue(0, "2", "order 8");
    let store = nodes.cluster.url("node");
    let Nodes {
        cluster,
        instances,
        servers,
        ..
    } = nodes;
    for server in servers {
        server.stop();
    }
    let folder = instances[0].file("back");
    let folder = folder.to_str().unwrap();
    let copied = run(&instances[0], &store, &["bindings", "copy", "--json", "--to", folder]);
    let copied: Value = serde_json::from_slice(&copied.stdout).unwrap();
    assert_eq!(copied["texts"], 3, "with the person who made the token");
    let order_of = |store: &str, license: &License| {
        let shown = run(&instances[0], store, &["license", "show", "--json", &license.id]);
        let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
        shown.get("reference").map(|text| text.as_str().unwrap().to_owned())
    };
    assert_eq!(order_of(folder, &license).as_deref(), Some(ORDER));

    // Erased in the database, and not in the copy.
    run(&instances[0], &store, &["license", "forget", "--reference", ORDER]);
    run(&instances[0], folder, &["bindings", "copy", "--to", &store]);
    assert_eq!(order_of(&store, &license), None);
    assert_eq!(order_of(&store, &other).as_deref(), Some("order 8"));
    // Erased in the copy, and not in the database.
    run(&instances[0], folder, &["license", "forget", "--reference", "order 8"]);
    run(&instances[0], folder, &["bindings", "copy", "--to", &store]);
    assert_eq!(order_of(&store, &other), None);
    let kept = "SELECT count(*) FROM countersign.texts WHERE text IS NOT NULL";
    assert_eq!(cluster.psql(kept), "1", "the person who made the token");
    let empty = prepared_cluster();
    run(&instances[0], folder, &["bindings", "copy", "--to", &empty.url("node")]);
    assert_eq!(order_of(&empty.url("node"), &license).as_deref(), Some(ORDER));
}
