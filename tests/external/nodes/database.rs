//! The database of nodes: a cluster with the tables, a role `node` that can only append, and the ledger that is in it.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

use crate::support::instance::Instance;
use crate::tools::postgres::Cluster;

/// A cluster with the tables, and a role `node` that can only append.
pub fn prepared_cluster() -> Cluster {
    let cluster = Cluster::start();
    prepare(&cluster);
    cluster
}

/// Makes the tables and the role.
pub fn prepare(cluster: &Cluster) {
    cluster.psql(&schema());
}

/// The statements that make the tables and the role `node`.
pub fn schema() -> String {
    let schema = Command::new(env!("CARGO_BIN_EXE_countersign"))
        .arg("-C")
        // It needs no instance.
        .arg(Instance::empty().path())
        .args(["bindings", "schema", "--node", "node"])
        .output()
        .unwrap();
    assert!(schema.status.success(), "{schema:?}");
    format!("CREATE ROLE node LOGIN;\n{}", String::from_utf8(schema.stdout).unwrap())
}

/// The lines of the ledger, after every transaction that has begun to append. None is missing, and none is there twice.
pub fn lines(psql: impl Fn(&str) -> String) -> String {
    let lines = psql(
        "DO 'BEGIN PERFORM 1 FROM countersign.head FOR UPDATE; END'; \
         SELECT line FROM countersign.ledger ORDER BY sequence",
    );
    for (line, number) in lines.lines().zip(1..) {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["sequence"], number);
    }
    lines
}

/// The hosts of each license, by its id, in the order of the ledger, which has nothing but first bindings.
pub fn ledger(psql: impl Fn(&str) -> String) -> BTreeMap<String, Vec<String>> {
    let mut ledger: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in lines(psql).lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let text = |member: &str| line[member].as_str().unwrap().to_owned();
        let hosts = ledger.entry(text("license")).or_default();
        let host = text("host");
        assert!(!hosts.contains(&host), "{line} is there twice");
        hosts.push(host);
    }
    ledger
}
