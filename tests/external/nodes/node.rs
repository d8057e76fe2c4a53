//! Nodes on one ledger: an instance each, with the same keys and licenses.

use std::process::Command;

use crate::support::http::Response;
use crate::support::instance::{Instance, License};
use crate::support::server::{Server, countersign};
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
        .arg(Instance::new().path())
        .args(["bindings", "schema", "--node", "node"])
        .output()
        .unwrap();
    assert!(schema.status.success(), "{schema:?}");
    format!("CREATE ROLE node LOGIN;\n{}", String::from_utf8(schema.stdout).unwrap())
}

/// An instance with these licenses, for one node.
pub fn instance(licenses: &[&License]) -> Instance {
    let tables: Vec<_> = licenses.iter().map(|license| license.toml("sites = 1\n")).collect();
    Instance::with_licenses(&tables)
}

/// Starts a node on the ledger at this address.
pub fn start(instance: &Instance, address: &str) -> Server {
    Server::start_command(countersign(instance), &["--store", address])
}

/// What a start says that fails with this exit code: 3 for wrong input, 4 for a failed environment.
pub fn refusal(instance: &Instance, address: &str, exit: i32) -> String {
    let output = countersign(instance)
        .args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--admin-listen",
            "off",
            "--store",
            address,
        ])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(exit), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// The `code` of an answer.
pub fn code(response: &Response) -> String {
    response.json()["code"].as_str().unwrap_or_default().to_owned()
}
