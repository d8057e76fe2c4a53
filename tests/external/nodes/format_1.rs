//! A database of format 1: nodes refuse it until its tables are upgraded, and then have all that was there.

use serde_json::{Value, json};

use super::node::{instance, refusal, start};
use crate::support::format_1::{LEDGER, REFERENCES, RENEWED, SUCCESSOR};
use crate::support::instance::{Instance, License, sha256};
use crate::support::server::countersign;
use crate::tools::postgres::Cluster;

/// What the program before printed to make the tables and the role `node`.
const SCHEMA: &str = include_str!("../../data/format-1/schema.sql");

/// A cluster with the tables of format 1, and the recorded ledger in them.
fn old_cluster() -> Cluster {
    let cluster = Cluster::start();
    cluster.psql(SCHEMA);
    for (line, sequence) in LEDGER.lines().zip(1..) {
        let insert = format!("INSERT INTO countersign.ledger VALUES ({sequence}, $line${line}$line$)");
        cluster.psql(&insert);
    }
    for line in REFERENCES.lines() {
        let kept: Value = serde_json::from_str(line).unwrap();
        let text = |member: &str| {
            kept[member]
                .as_str()
                .map_or("NULL".to_owned(), |text| format!("'{text}'"))
        };
        let values = ["name", "reference", "erased"].map(text).join(", ");
        cluster.psql(&format!("INSERT INTO countersign.order_references VALUES ({values})"));
    }
    let last = LEDGER.lines().last().unwrap();
    let digest = sha256(&format!("{last}\n"));
    cluster.psql(&format!(
        "UPDATE countersign.head SET sequence = 17, digest = '{digest}', time = '2026-11-26T21:33:22Z'"
    ));
    cluster
}

fn schema(arguments: &[&str]) -> String {
    let schema = countersign(&Instance::empty())
        .args(["bindings", "schema"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(schema.status.success(), "{schema:?}");
    String::from_utf8(schema.stdout).unwrap()
}

fn document(instance: &Instance, cluster: &Cluster, arguments: &[&str]) -> Value {
    let output = countersign(instance)
        .env("COUNTERSIGN_STORE", cluster.url("node"))
        .args(arguments)
        .arg("--json")
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{arguments:?}: {output:?}"))
}

#[test]
fn tables_of_format_1_are_upgraded_with_all_that_is_in_them() {
    let cluster = old_cluster();
    let license = License::new();
    let own = instance(&[&license]);
    let url = cluster.url("node");
    let told = refusal(&own, &url, 4);
    for part in [
        "format 1, and this version reads 2",
        "stop all nodes",
        "bindings schema --upgrade",
        "no way back",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    // The script for new tables changes nothing of old ones.
    let refused = cluster.try_psql("postgres", &schema(&["--node", "node"])).unwrap_err();
    assert!(refused.contains("schema --upgrade"), "{refused}");
    let columns = "SELECT count(*) FROM information_schema.columns WHERE table_schema = 'countersign'";
    let before = cluster.psql(columns);
    refusal(&own, &url, 4);
    assert_eq!(cluster.psql(columns), before);

    cluster.psql(&schema(&["--upgrade"]));
    let again = cluster.try_psql("postgres", &schema(&["--upgrade"])).unwrap_err();
    assert!(again.contains("only tables of format 1"), "{again}");
    cluster.psql(&schema(&["--node", "node"]));
    let same = "SELECT count(*) FROM countersign.ledger WHERE \
         license IS DISTINCT FROM (line::jsonb ->> 'license')";
    assert_eq!(cluster.psql(same).trim(), "0");

    let verified = document(&own, &cluster, &["bindings", "verify"]);
    assert_eq!(
        (&verified["lines"], &verified["issued"], &verified["texts"]),
        (&json!(17), &json!(5), &json!(3))
    );
    let server = start(&own, &url);
    assert_eq!(server.validate(&license, "https://new.example").json()["code"], "ok");
    assert!(server.stop().success());
    assert_eq!(cluster.psql(same).trim(), "0", "of the new line, too");
    let shown = document(&own, &cluster, &["license", "show", RENEWED]);
    assert_eq!(
        (&shown["reference"], &shown["bindings"][0]["host"]),
        (&json!("order 1"), &json!("one.example"))
    );
    let history = document(&own, &cluster, &["license", "history", SUCCESSOR]);
    let events: Vec<_> = history["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| &event["event"])
        .collect();
    assert_eq!(events, ["revoked", "issued", "issued"]);
    let plan =
        "SET enable_seqscan = off; EXPLAIN SELECT line FROM countersign.ledger WHERE license = 'x' ORDER BY sequence";
    assert!(cluster.psql(plan).contains("ledger_license"), "{}", cluster.psql(plan));
    let forgotten = cluster.psql("SELECT count(*) FROM countersign.texts WHERE erased IS NOT NULL AND text IS NULL");
    assert_eq!(forgotten.trim(), "1");
}
