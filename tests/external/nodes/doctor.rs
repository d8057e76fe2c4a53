//! `doctor` of a shared ledger: every finding, with real servers that are well or have the fault.

use std::process::{Child, Stdio};

use serde_json::Value;

use super::database::{prepare, prepared_cluster};
use super::fault_proxy::{Fault, FaultProxy};
use super::node::{code, instance, start};
use crate::support::eventually;
use crate::support::instance::{Instance, License};
use crate::support::server::countersign;
use crate::tools::postgres::pgbouncer::{Pgbouncer, PoolMode};
use crate::tools::postgres::{Cluster, Version, psql_command};

/// What `doctor` says of the database, the nodes and the store, one finding a line: `verdict finding [hint]`.
fn doctor(instance: &Instance, address: &str) -> String {
    let mut command = countersign(instance);
    command.env("COUNTERSIGN_STORE", address).args(["doctor", "--json"]);
    let output = command.output().unwrap();
    let findings: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let mut told = String::new();
    for finding in &findings {
        let text = |member: &str| finding[member].as_str().unwrap_or_default().to_owned();
        if ["database", "nodes", "store"].contains(&text("part").as_str()) {
            told += &format!("{} {} [{}]\n", text("verdict"), text("finding"), text("hint"));
        }
    }
    told
}

/// Fails unless a line begins with `beginning` and has `part`.
fn assert_told(told: &str, beginning: &str, part: &str) {
    let has = |line: &str| line.starts_with(beginning) && line.contains(part);
    assert!(told.lines().any(has), "{beginning} … {part}: {told}");
}

/// The address of several servers.
fn address(servers: &[&Cluster], role: &str) -> String {
    let hosts: Vec<_> = servers
        .iter()
        .map(|server| format!("127.0.0.1:{}", server.port))
        .collect();
    format!("postgres://{role}@{}/postgres", hosts.join(","))
}

#[test]
fn the_doctor_finds_a_database_in_order_that_is() {
    let cluster = Cluster::start_with(Version::Debian, "fsync = on");
    prepare(&cluster);
    let standby = cluster.standby();
    let own = instance(&[&License::new()]);
    let both = address(&[&cluster, &standby], "node");
    let node = start(&own, &both);
    eventually("the node is in the table", || {
        doctor(&own, &both).contains("ok 1 node, of version")
    });
    let told = doctor(&own, &both);
    assert!(told.lines().all(|line| line.starts_with("ok ")), "{told}");
    for found in [
        "takes changes",
        "standby [",
        "standby standby: connected",
        "the ledger's chain is whole",
    ] {
        assert_told(&told, "ok ", found);
    }
    // A role that may see it gets how far behind the standby is.
    assert_told(
        &doctor(&own, &cluster.url("postgres")),
        "ok standby standby: sync, ",
        " bytes behind",
    );
    node.stop();
}

#[test]
fn the_doctor_tells_whether_bindings_outlive_a_crash_and_a_failover() {
    let cluster = prepared_cluster();
    let licenses = [License::new(), License::new(), License::new()];
    let own = instance(&licenses.each_ref());
    let url = cluster.url("node");
    let owner = cluster.url("postgres");
    let told = doctor(&own, &url);
    assert_told(&told, "warning no standby confirms", "205 of 110,999");
    assert_told(
        &told,
        "warning fsync or full_page_writes is off",
        "ALTER SYSTEM RESET fsync",
    );
    own.write("countersign.toml", "[store]\nsynchronous = \"assumed\"\n");
    let told = doctor(&own, &url);
    assert_told(&told, "ok no standby confirms", "none is needed");
    assert!(!told.contains("205 of"), "{told}");
    own.write("countersign.toml", "");

    let mut standby = cluster.standby();
    let both = address(&[&cluster, &standby], "postgres");
    assert!(!doctor(&own, &both).contains("205 of"));
    assert_told(
        &doctor(&own, &standby.url("node")),
        "broken",
        "no server of the address takes changes",
    );

    // The server's own setting does not weaken a binding: without the standby none is acknowledged.
    cluster.psql("ALTER ROLE node SET synchronous_commit = off");
    assert_told(
        &doctor(&own, &url),
        "ok synchronous_commit is off",
        "a node sets it to on",
    );
    let node = start(&own, &url);
    standby.freeze();
    assert_eq!(node.validate(&licenses[0], "a.example").status, 503);
    standby.thaw();
    eventually("the standby confirms again", || {
        code(&node.validate(&licenses[0], "a.example")) == "ok"
    });

    // It has the line on its disk, and does not show it.
    standby.psql("SELECT pg_wal_replay_pause()");
    assert_eq!(code(&node.validate(&licenses[1], "a.example")), "ok");
    let told = doctor(&own, &both);
    assert_told(&told, "warning", "this standby is 1 line of the ledger behind");
    standby.psql("SELECT pg_wal_replay_resume()");
    eventually("it shows the line", || {
        !doctor(&own, &both).contains("of the ledger behind")
    });

    cluster.psql("ALTER SYSTEM SET synchronous_standby_names = 'another'");
    cluster.psql("SELECT pg_reload_conf()");
    eventually("no standby confirms any more", || {
        doctor(&own, &owner).contains("warning no connected standby is one that synchronous_standby_names names")
    });
    cluster.psql("ALTER SYSTEM SET synchronous_standby_names = 'standby'");
    cluster.psql("SELECT pg_reload_conf()");
    node.stop();
    standby.stop();
    eventually("the standby is gone", || {
        doctor(&own, &owner).contains("warning no standby is connected")
    });
    standby.restart();
    cluster.wait_for_standby();
    standby.promote();
    assert_told(
        &doctor(&own, &both),
        "broken",
        "both take changes [stop the one that was replaced",
    );
    standby.stop();

    cluster.psql("ALTER SYSTEM SET default_transaction_read_only = on");
    cluster.psql("SELECT pg_reload_conf()");
    eventually("it takes no changes", || {
        let told = doctor(&own, &url);
        told.contains("takes no changes (default_transaction_read_only is on)")
            && told.contains("no server of the address takes changes")
    });
}

#[test]
fn the_doctor_tells_what_is_wrong_with_the_tables_and_the_role() {
    let cluster = prepared_cluster();
    let own = instance(&[&License::new()]);
    let url = cluster.url("node");
    let told = doctor(&own, &url);
    assert!(!told.contains("this role") && !told.contains("broken"), "{told}");
    for (right, named) in [
        ("DELETE ON countersign.ledger", "(DELETE)"),
        ("UPDATE (line) ON countersign.ledger", "(UPDATE)"),
        ("TRUNCATE ON countersign.ledger", "(TRUNCATE)"),
        ("TRIGGER ON countersign.ledger", "(TRIGGER)"),
    ] {
        cluster.psql(&format!("GRANT {right} TO node"));
        assert_told(
            &doctor(&own, &url),
            "warning this role can change or delete lines of the ledger",
            named,
        );
        cluster.psql(&format!("REVOKE {right} FROM node"));
    }
    let as_owner = doctor(&own, &cluster.url("postgres"));
    assert_told(
        &as_owner,
        "warning this role",
        "(UPDATE, DELETE, TRUNCATE, TRIGGER, owner)",
    );
    for (right, named) in [
        ("INSERT ON countersign.ledger", "INSERT on ledger ["),
        (
            "UPDATE (digest, sequence, time) ON countersign.head",
            "UPDATE on head [",
        ),
        ("DELETE ON countersign.refused", "DELETE on refused ["),
        ("USAGE ON SCHEMA countersign", "SELECT on ledger, "),
    ] {
        cluster.psql(&format!("REVOKE {right} FROM node"));
        assert_told(
            &doctor(&own, &url),
            "broken this role lacks rights that a node needs",
            named,
        );
        cluster.psql(&format!("GRANT {right} TO node"));
    }
    assert!(!doctor(&own, &url).contains("this role"));

    let pooler = Pgbouncer::start(&cluster, PoolMode::Transaction, "node", 4);
    let pooled = pooler.url().replace("://", "://node@");
    for _ in 0..5 {
        let told = doctor(&own, &pooled);
        assert_told(
            &told,
            "broken",
            "connect to the database itself, or set pool_mode = session",
        );
    }
    drop(pooler);

    cluster.psql("UPDATE countersign.head SET format = 3");
    let told = doctor(&own, &url);
    assert_told(
        &told,
        "broken the tables have format 3, and this version reads 2",
        "the same on all nodes",
    );
    cluster.psql("UPDATE countersign.head SET format = 1");
    let told = doctor(&own, &url);
    assert_told(
        &told,
        "broken the tables have format 1, and this version reads 2",
        "countersign bindings schema --upgrade",
    );
    cluster.psql("UPDATE countersign.head SET format = 2");
    cluster.psql("DROP TABLE countersign.refused");
    assert_told(
        &doctor(&own, &url),
        "broken tables are missing",
        "refused [make them as their owner",
    );
    cluster.psql("DROP SCHEMA countersign CASCADE");
    let told = doctor(&own, &url);
    assert_told(&told, "broken tables are missing", "ledger, nodes, ");
    assert_told(&told, "ok ", "takes changes");
}

#[test]
fn the_doctor_tells_which_node_is_old_silent_or_behind() {
    let cluster = prepared_cluster();
    let license = License::new();
    let own = [instance(&[&license]), instance(&[&license])];
    let url = cluster.url("node");
    let nodes = own.each_ref().map(|own| start(own, &url));
    assert_eq!(code(&nodes[0].validate(&license, "a.example")), "ok");
    eventually("both are in the table", || {
        doctor(&own[0], &url).contains("ok 2 nodes, of version")
    });
    assert!(!doctor(&own[0], &url).contains("warning node"));

    let version = env!("CARGO_PKG_VERSION");
    // A third node, as its row would be.
    let third = |version: &str, key: &str| {
        cluster.psql(&format!(
            "DELETE FROM countersign.nodes WHERE name = 'third'; INSERT INTO countersign.nodes SELECT 'third', 'one', \
             '{version}', {key}, secrets, clock_timestamp(), sequence, started, clock_timestamp() FROM countersign.nodes LIMIT 1"
        ));
        doctor(&own[0], &url)
    };
    let told = third("0.0.1", "key_id");
    assert_told(&told, "warning 3 nodes, of versions 0.0.1, ", version);
    let told = third(version, "'another'");
    assert_told(&told, "warning 3 nodes with different signing keys", "another");
    third(version, "key_id");
    // The line is too new for that yet, however long the test took so far.
    cluster.psql(
        "UPDATE countersign.nodes SET sequence = 0, seen = clock_timestamp() WHERE name = 'third'; \
         UPDATE countersign.head SET time = clock_timestamp()",
    );
    assert!(!doctor(&own[0], &url).contains("is behind"));
    cluster.psql("UPDATE countersign.head SET time = time - interval '20 seconds'");
    let told = doctor(&own[0], &url);
    assert_told(&told, "warning node third is behind", "up to line 0");
    cluster.psql("DELETE FROM countersign.nodes WHERE name = 'third'");

    nodes[1].signal("STOP");
    cluster.psql("UPDATE countersign.nodes SET seen = seen - interval '20 seconds'");
    eventually("the other node says that it runs", || {
        let told = doctor(&own[0], &url);
        told.matches("warning node").count() == 1 && told.contains("has been silent for 2")
    });
    nodes[1].signal("CONT");
    eventually("nobody is silent", || {
        !doctor(&own[0], &url).contains("has been silent")
    });
    for node in nodes {
        node.stop();
    }
    cluster.psql("UPDATE countersign.nodes SET seen = seen - interval '1 hour'");
    assert_told(&doctor(&own[0], &url), "ok none has run in the last minute", "");
}

#[test]
fn the_doctor_tells_how_many_lines_the_node_of_this_machine_lacks() {
    let cluster = prepared_cluster();
    let proxy = FaultProxy::start(cluster.port);
    let licenses = [(); 4].map(|()| License::new());
    let own = [(); 2].map(|()| instance(&licenses.each_ref()));
    let here = start(&own[0], &proxy.url("node"));
    let elsewhere = start(&own[1], &cluster.url("node"));
    // The doctor has a way to the database, whatever way the node has.
    let doctor = || {
        let mut command = countersign(&own[0]);
        command.env("COUNTERSIGN_STORE", cluster.url("node"));
        let output = command.arg("doctor").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(code(&here.validate(&licenses[0], "a.example")), "ok");
    let told = doctor();
    assert!(told.contains("has read the ledger up to line 1\n"), "{told}");

    proxy.set(Fault::Refuse);
    proxy.cut();
    for license in &licenses[1..] {
        assert_eq!(code(&elsewhere.validate(license, "a.example")), "ok");
    }
    let told = doctor();
    let lag = "3 lines behind: has read the ledger up to line 1, and the database has line 4\n";
    assert!(told.contains(lag), "{told}");
    assert!(told.contains("hint: look at its log, and at the network"), "{told}");

    proxy.set(Fault::Pass);
    eventually("it has caught up", || here.part("store")["state"] == "ok");
    let told = doctor();
    assert!(told.contains("has read the ledger up to line 4\n"), "{told}");
    assert!(!told.contains("behind"), "{told}");
}

/// A transaction that stays open.
struct OpenTransaction(Child);

impl Drop for OpenTransaction {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_doctor_tells_of_a_transaction_that_is_hours_old() {
    let own = instance(&[&License::new()]);
    own.write("offset", "-7300");
    let cluster = Cluster::start_with_clock(&own.file("offset"));
    prepare(&cluster);
    let url = cluster.url("postgres");
    let dump = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM countersign.head; SELECT pg_sleep(120)";
    let mut command = psql_command(Version::Debian, &url, dump);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let _open = OpenTransaction(child);
    eventually("it sleeps", || {
        cluster.psql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND backend_xmin IS NOT NULL")
            == "1"
    });
    assert!(!doctor(&own, &url).contains("hours old"));
    own.write("offset", "0");
    assert_told(
        &doctor(&own, &url),
        "warning a transaction is 2 hours old",
        "pg_stat_activity",
    );
}
