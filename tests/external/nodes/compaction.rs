//! `bindings compact` on a database: by the owner alone, beside no node, and nodes read what it leaves.

use std::process::Output;
use std::time::Duration;

use serde_json::Value;

use super::database::prepared_cluster;
use crate::support::eventually;
use crate::support::instance::{Instance, License};
use crate::support::server::{Server, countersign};
use crate::tools::postgres::Cluster;

const SOON: Duration = Duration::from_secs(30);

/// As if every node had been silent for a minute.
const SILENT: &str = "UPDATE countersign.nodes SET seen = seen - interval '1 minute'";

struct Shared {
    cluster: Cluster,
    instance: Instance,
}

impl Shared {
    fn start(licenses: &[String]) -> Self {
        Self {
            cluster: prepared_cluster(),
            instance: Instance::with_licenses(licenses),
        }
    }

    fn node(&self) -> Server {
        Server::start_with(&self.instance, &["--store", &self.cluster.url("node")])
    }

    fn run(&self, role: &str, arguments: &[&str]) -> Output {
        let mut command = countersign(&self.instance);
        command.env("COUNTERSIGN_STORE", self.cluster.url(role));
        command.args(arguments).output().unwrap()
    }

    /// Compacts as a role that must not, or beside a node. Nothing changes.
    fn is_refused(&self, role: &str, told: &str) {
        let lines = || self.cluster.psql("SELECT * FROM countersign.ledger ORDER BY sequence");
        let before = lines();
        let refused = self.run(role, &["bindings", "compact"]);
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(4), "{error}");
        assert!(error.contains(told), "{error}");
        assert_eq!(lines(), before);
    }

    fn compact(&self) -> Value {
        let done = self.run("postgres", &["bindings", "compact", "--json"]);
        serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"))
    }

    fn lines(&self, table: &str) -> String {
        self.cluster.psql(&format!("SELECT count(*) FROM countersign.{table}"))
    }
}

/// A database whose first line is superseded: a seat was released and its site bound again.
fn with_a_superseded_line() -> (Shared, [License; 2], Server) {
    let licenses = [License::new(), License::new()];
    let shared = Shared::start(&[licenses[0].toml(""), licenses[1].toml("sites = \"unlimited\"")]);
    let node = shared.node();
    assert_eq!(node.validate(&licenses[0], "https://a.example").status, 200);
    assert_eq!(node.validate(&licenses[1], "https://b.example").status, 200);
    let released = shared.run("node", &["license", "release", &licenses[0].id]);
    assert!(released.status.success(), "{released:?}");
    eventually("the site is bound again", SOON, || {
        node.validate(&licenses[0], "https://a.example");
        shared.lines("ledger") == "3"
    });
    (shared, licenses, node)
}

#[test]
fn the_owner_compacts_a_database_when_every_node_is_stopped() {
    let (shared, [one, many], node) = with_a_superseded_line();
    shared.is_refused("postgres", "said");
    // One that cannot check in is found by its connection.
    node.signal("STOP");
    shared.cluster.psql(SILENT);
    shared.is_refused("postgres", "another countersign is connected");
    node.signal("CONT");
    node.stop();
    shared
        .cluster
        .psql("UPDATE countersign.nodes SET seen = clock_timestamp()");
    shared.is_refused("postgres", "said");
    shared.cluster.psql(SILENT);
    shared.is_refused("node", "does not own the table");

    let done = shared.compact();
    assert_eq!(done["bindings"], 2);
    assert_eq!(done["old_ledger"], "countersign.ledger_until_3");
    assert_eq!([shared.lines("ledger"), shared.lines("ledger_until_3")], ["3", "3"]);
    let verified = shared.run("node", &["bindings", "verify", "--json"]);
    let verified: Value = serde_json::from_slice(&verified.stdout).unwrap_or_else(|_| panic!("{verified:?}"));
    assert_eq!([&verified["lines"], &verified["sequence"]], [3, 6]);
    assert_eq!(verified["bindings"], 2);

    let node = shared.node();
    assert_eq!(node.validate(&one, "https://a.example").json()["code"], "ok");
    assert_eq!(
        node.validate(&one, "https://c.example").json()["code"],
        "bound_elsewhere"
    );
    assert_eq!(node.validate(&many, "https://d.example").json()["code"], "ok");
    assert_eq!(shared.lines("ledger"), "4");
    let read = shared
        .cluster
        .try_psql("node", "SELECT * FROM countersign.ledger_until_3");
    assert!(read.unwrap_err().contains("permission denied"));
}

#[test]
fn a_node_that_slept_through_a_compaction_reads_the_ledger_anew() {
    let (shared, [one, many], node) = with_a_superseded_line();
    node.signal("STOP");
    shared.cluster.psql(SILENT);
    shared
        .cluster
        .psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'countersign'");
    assert_eq!(shared.compact()["bindings"], 2);
    node.signal("CONT");
    eventually("it reads the ledger anew", SOON, || node.log().contains("read it anew"));
    eventually("it binds again", SOON, || {
        node.validate(&many, "https://d.example").status == 200
    });
    assert_eq!(
        node.validate(&one, "https://c.example").json()["code"],
        "bound_elsewhere"
    );
    assert_eq!(shared.lines("ledger"), "4");
}
