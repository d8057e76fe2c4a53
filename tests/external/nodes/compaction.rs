//! `bindings compact` on a database: by the owner alone, beside no node, and nodes read what it leaves.

use std::process::Output;

use serde_json::Value;

use super::database::prepared_cluster;
use crate::support::eventually;
use crate::support::instance::{Instance, License, sha256};
use crate::support::server::{Server, countersign};
use crate::tools::postgres::Cluster;
use crate::tools::receiver::Receiver;

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
    fn is_refused(&self, role: &str, reason: &str) {
        let lines = || self.cluster.psql("SELECT * FROM countersign.ledger ORDER BY sequence");
        let before = lines();
        let refused = self.run(role, &["bindings", "compact"]);
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(4), "{error}");
        assert!(error.contains(reason), "{error}");
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

/// A database of four lines, one of them superseded: a seat was released and its site bound again. The release stays.
fn with_a_superseded_line() -> (Shared, [License; 2], Server) {
    let licenses = [License::new(), License::new()];
    let shared = Shared::start(&[licenses[0].toml(""), licenses[1].toml("sites = \"unlimited\"")]);
    let node = shared.node();
    assert_eq!(node.validate(&licenses[0], "https://a.example").status, 200);
    assert_eq!(node.validate(&licenses[1], "https://b.example").status, 200);
    let released = shared.run("node", &["license", "release", &licenses[0].id]);
    assert!(released.status.success(), "{released:?}");
    eventually("the site is bound again", || {
        node.validate(&licenses[0], "https://a.example");
        shared.lines("ledger") == "4"
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
    assert_eq!(done["old_ledger"], "countersign.ledger_until_4");
    assert_eq!([shared.lines("ledger"), shared.lines("ledger_until_4")], ["4", "4"]);
    let verified = shared.run("node", &["bindings", "verify", "--json"]);
    let verified: Value = serde_json::from_slice(&verified.stdout).unwrap_or_else(|_| panic!("{verified:?}"));
    assert_eq!([&verified["lines"], &verified["sequence"]], [4, 8]);
    assert_eq!(verified["bindings"], 2);

    let node = shared.node();
    assert_eq!(node.validate(&one, "https://a.example").json()["code"], "ok");
    assert_eq!(
        node.validate(&one, "https://c.example").json()["code"],
        "bound_elsewhere"
    );
    assert_eq!(node.validate(&many, "https://d.example").json()["code"], "ok");
    assert_eq!(shared.lines("ledger"), "5");
    // A node reads the old lines for webhooks, and cannot change them.
    let try_psql = |sql: &str| shared.cluster.try_psql("node", sql);
    assert!(try_psql("SELECT * FROM countersign.ledger_until_4").is_ok());
    for change in ["DELETE FROM", "TRUNCATE"] {
        let refused = try_psql(&format!("{change} countersign.ledger_until_4"));
        assert!(refused.unwrap_err().contains("permission denied"), "{change}");
    }
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
    eventually("the node rereads the ledger", || node.log().contains("read it again"));
    eventually("it binds again", || {
        node.validate(&many, "https://d.example").status == 200
    });
    assert_eq!(
        node.validate(&one, "https://c.example").json()["code"],
        "bound_elsewhere"
    );
    assert_eq!(shared.lines("ledger"), "5");
}

/// The hosts of the messages that were taken, sorted; each as often as the receiver took it.
fn delivered(receiver: &Receiver) -> Vec<String> {
    let taken = receiver.taken().into_iter();
    let mut hosts: Vec<_> = taken
        .map(|body| body["data"]["host"].as_str().unwrap().to_owned())
        .collect();
    hosts.sort_unstable();
    hosts
}

#[test]
fn an_endpoint_is_told_after_a_compaction_what_it_missed_of_lines_that_have_one_time() {
    let receiver = Receiver::start();
    let shared = Shared::start(&[License::new().toml("")]);
    let webhook = format!(
        "[serve]\nforeign_keys = true\n[webhooks.crm]\nurl = \"{}\"\nevents = [\"site.bound\"]\n",
        receiver.url()
    );
    shared.instance.write("countersign.toml", &webhook);
    let made = shared.run("node", &["webhook", "secret", "crm", "--json"]);
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    receiver.know(made["secret"].as_str().unwrap());
    let node = shared.node();
    eventually("the endpoint is known", || {
        shared
            .cluster
            .psql("SELECT count(*) FROM countersign.webhook_cursors WHERE progress <> 'null'")
            == "1"
    });

    // All lines of an import are in one commit, and the sites have the day of the sale.
    receiver.behave("503 site-3.example");
    let rows = (0..6).map(|number| {
        let key = sha256(&format!("license {number}"));
        format!("{},2099-12-31,forms,site-{number}.example,2025-01-01\n", &key[..32])
    });
    let text = format!("key,expires,modules,hosts,created\n{}", rows.collect::<String>());
    shared.instance.write("export.csv", &text);
    let file = shared.instance.file("export.csv");
    let imported = shared.run("node", &["license", "import", file.to_str().unwrap(), "--from", "csv"]);
    assert!(imported.status.success(), "{imported:?}");
    eventually("the endpoint is away", || node.log().contains("messages wait"));
    assert_eq!(shared.lines("ledger"), "12");
    let times = "SELECT count(*), count(DISTINCT line::json->>'time') FROM countersign.ledger WHERE line::json->>'event' = 'bound'";
    assert_eq!(shared.cluster.psql(times), "6|1", "the sites have one time");
    assert!(node.stop().success());
    let before = delivered(&receiver);
    assert!(before.contains(&"site-2.example".to_owned()), "{before:?}");
    shared.cluster.psql(SILENT);
    shared.compact();
    receiver.behave("");
    let _node = shared.node();
    let was_delivered = |number: usize| delivered(&receiver).contains(&format!("site-{number}.example"));
    eventually("the receiver has all events", || (0..6).all(was_delivered));
    let once: Vec<_> = (0..3).map(|number| format!("site-{number}.example")).collect();
    assert_eq!(delivered(&receiver)[..3], once, "the receiver has each event once");
}
