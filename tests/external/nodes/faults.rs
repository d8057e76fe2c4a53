//! What goes wrong between a node and its database: each fault has one message and one state, and most heal by themselves.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::database::{prepare, prepared_cluster};
use super::fault_proxy::{AtCommit, Fault, FaultProxy};
use super::node::{code, instance, refusal, start};
use crate::support::eventually;
use crate::support::instance::{License, new_keys};
use crate::support::server::{Server, countersign};
use crate::tools::postgres::Cluster;
use crate::tools::postgres::pgbouncer::{Pgbouncer, PoolMode};

const SOON: Duration = Duration::from_secs(10);

/// Waits until the node's ledger is in this state.
fn wait_for_state(node: &Server, state: &str) {
    let series = format!("countersign_ledger_state{{state=\"{state}\"}}");
    eventually(&format!("{state}: {}", node.log()), || {
        node.metric(&series) == Some(1.0)
    });
}

fn lines(cluster: &Cluster) -> String {
    cluster.psql("SELECT count(*) FROM countersign.ledger")
}

#[test]
fn a_seat_is_given_once_and_what_one_node_binds_the_others_know_at_once() {
    let cluster = prepared_cluster();
    let licenses: Vec<License> = (0..40).map(|_| License::new()).collect();
    let all: Vec<_> = licenses.iter().collect();
    let instances = [instance(&all), instance(&all), instance(&all)];
    let nodes = instances.each_ref().map(|own| start(own, &cluster.url("node")));
    for license in &licenses {
        let codes: Vec<String> = std::thread::scope(|scope| {
            let ask = |number: usize| {
                let node = &nodes[number % 3];
                scope.spawn(move || code(&node.validate(license, &format!("https://site-{number}.example"))))
            };
            let asked: Vec<_> = (0..6).map(ask).collect();
            asked.into_iter().map(|asked| asked.join().unwrap()).collect()
        });
        assert_eq!(codes.iter().filter(|code| *code == "ok").count(), 1, "{codes:?}");
        assert_eq!(codes.iter().filter(|code| *code == "bound_elsewhere").count(), 5);
        let bound = codes.iter().position(|code| code == "ok").unwrap();
        for node in &nodes {
            let update = node.updates(license, &format!("https://site-{bound}.example"), "");
            assert_eq!(update.status, 200, "{}", update.text());
        }
    }
    assert_eq!(lines(&cluster), "40");
    // The nodes' role can append, and nothing else.
    for forbidden in [
        "UPDATE countersign.ledger SET line = ''",
        "DELETE FROM countersign.ledger",
        "UPDATE countersign.head SET epoch = 9",
        "TRUNCATE countersign.ledger",
    ] {
        let error = cluster.try_psql("node", forbidden).unwrap_err();
        assert!(error.contains("permission denied"), "{forbidden}: {error}");
    }
}

#[test]
fn while_the_database_is_away_bound_sites_are_served_and_new_ones_are_asked_to_come_back() {
    let mut cluster = prepared_cluster();
    let bound = License::new();
    let new = License::new();
    let own = instance(&[&bound, &new]);
    let node = start(&own, &cluster.url("node"));
    assert_eq!(code(&node.validate(&bound, "https://a.example")), "ok");
    cluster.kill();
    wait_for_state(&node, "unreachable");
    for _ in 0..20 {
        let asked = Instant::now();
        assert_eq!(code(&node.validate(&bound, "https://a.example")), "ok");
        assert_eq!(node.updates(&bound, "https://a.example", "").status, 200);
        // Another node may have bound it: nobody knows, so nobody says no.
        for answer in [
            node.validate(&new, "https://b.example"),
            node.validate(&bound, "https://b.example"),
            node.updates(&new, "https://b.example", ""),
        ] {
            assert_eq!((answer.status, code(&answer).as_str()), (503, "store_unavailable"));
            assert!(answer.header("retry-after").is_some());
        }
        assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    }
    // It tells how old its answers are, for as long as the database is away.
    let gone = Instant::now();
    let part = node.part("store");
    assert_eq!(part["state"], "failing");
    let age = |part: &Value| part["ledger"]["age_seconds"].as_f64().unwrap();
    eventually("time passes", || age(&node.part("store")) > age(&part) + 1.0);
    let aged = node.part("store");
    // The ages are whole milliseconds.
    let most = gone.elapsed().as_secs_f64() + 0.002;
    assert!(age(&aged) - age(&part) <= most, "{part} {aged}");
    assert_eq!(
        (&aged["since"], &aged["ledger"]["sequence"]),
        (&part["since"], &1.into())
    );
    let detail = aged["detail"].as_str().unwrap();
    let (_, told) = detail.rsplit_once("; the shared ledger was last read ").unwrap();
    let told: f64 = told.strip_suffix(" s ago").unwrap().parse().unwrap();
    assert!((told - age(&aged)).abs() < 0.1, "{aged}");
    let mut command = countersign(&own);
    command.args(["--store", &cluster.url("node"), "doctor"]);
    let output = command.output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("; the shared ledger was last read "), "{told}");
    cluster.restart();
    let back = Instant::now();
    eventually("a new site is bound", || {
        code(&node.validate(&new, "https://b.example")) == "ok"
    });
    assert!(back.elapsed() < SOON, "{:?}", back.elapsed());
    assert_eq!(code(&node.validate(&bound, "https://b.example")), "bound_elsewhere");
    let part = node.part("store");
    assert_eq!((&part["state"], &part["ledger"]["sequence"]), (&"ok".into(), &2.into()));
    assert!(age(&part) < back.elapsed().as_secs_f64(), "{part}");
}

#[test]
fn a_database_that_falls_silent_or_cuts_a_commit_costs_no_seat() {
    let cluster = prepared_cluster();
    let proxy = FaultProxy::start(cluster.port);
    let licenses: Vec<License> = (0..5).map(|_| License::new()).collect();
    let own = instance(&licenses.iter().collect::<Vec<_>>());
    let node = start(&own, &proxy.url("node"));
    assert_eq!(code(&node.validate(&licenses[0], "https://a.example")), "ok");
    for (license, fault) in licenses[1..4]
        .iter()
        .zip([AtCommit::CutBefore, AtCommit::CutInAnswer, AtCommit::CutAfter])
    {
        proxy.at_commit(1, fault);
        let first = code(&node.validate(license, "https://a.example"));
        assert!(first == "ok" || first == "store_unavailable", "{first}");
        eventually("the site is bound", || {
            code(&node.validate(license, "https://a.example")) == "ok"
        });
    }
    assert_eq!(lines(&cluster), "4");

    proxy.set(Fault::Silence);
    let asked = Instant::now();
    assert_eq!(node.validate(&licenses[4], "https://a.example").status, 503);
    assert!(asked.elapsed() < Duration::from_secs(8), "{:?}", asked.elapsed());
    let asked = Instant::now();
    assert_eq!(code(&node.validate(&licenses[0], "https://a.example")), "ok");
    assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
    wait_for_state(&node, "unreachable");
    proxy.set(Fault::Pass);
    eventually("the site is bound", || {
        code(&node.validate(&licenses[4], "https://a.example")) == "ok"
    });
    assert_eq!(lines(&cluster), "5");
}

#[test]
fn a_slow_database_delays_new_sites_and_nobody_else() {
    let cluster = prepared_cluster();
    let proxy = FaultProxy::start(cluster.port);
    let bound = License::new();
    let licenses = [License::new(), License::new()];
    let own = instance(&[&bound, &licenses[0], &licenses[1]]);
    let node = start(&own, &proxy.url("node"));
    assert_eq!(code(&node.validate(&bound, "https://a.example")), "ok");
    // A round trip takes a fifth of a second more.
    proxy.set(Fault::Delay(Duration::from_millis(100)));
    for license in &licenses {
        let asked = Instant::now();
        assert_eq!(code(&node.validate(license, "https://a.example")), "ok");
        let slow = asked.elapsed();
        assert!(slow > Duration::from_millis(200), "{slow:?}");
        // A busy machine delays some, and the database would delay each.
        let update = || {
            let asked = Instant::now();
            assert_eq!(node.updates(&bound, "https://a.example", "").status, 200);
            asked.elapsed()
        };
        let fastest = (0..5).map(|_| update()).min().unwrap();
        assert!(fastest < Duration::from_millis(200), "{fastest:?}");
    }
    assert_eq!(node.metric("countersign_ledger_state{state=\"ok\"}"), Some(1.0));
    assert!(
        node.metric("countersign_ledger_age_seconds")
            .is_some_and(|age| age < 5.0)
    );
    assert!(!node.log().contains("ERROR"), "{}", node.log());
}

#[test]
fn a_start_that_cannot_work_says_why() {
    let cluster = Cluster::start();
    let license = License::new();
    let own = instance(&[&license]);
    let says_with = |address: &str, message: &str, exit: i32| {
        let told = refusal(&own, address, exit);
        assert!(told.contains(message) && told.contains("hint:"), "{message}: {told}");
    };
    let says = |address: &str, message: &str| says_with(address, message, 4);
    cluster.psql("CREATE ROLE early LOGIN");
    says(&cluster.url("early"), "countersign bindings schema");
    cluster.psql("DROP ROLE early");
    prepare(&cluster);
    says(&cluster.url("nobody"), "role \"nobody\" does not exist");
    let secret = cluster.url("node:secret");
    says_with(&secret, "the address of the database has a password", 3);
    let unverified = format!("{}?sslmode=require", cluster.url("node"));
    says_with(&unverified, "sslmode=require", 3);
    let pooler = Pgbouncer::start(&cluster, PoolMode::Transaction, "node", 3);
    says(
        &pooler.url().replace("://", "://node@"),
        "a pooler gives each transaction another connection",
    );
    cluster.psql("UPDATE countersign.head SET format = 3");
    says(&cluster.url("node"), "format 3, and this version reads 2");
    cluster.psql("UPDATE countersign.head SET format = 2");
    let standby = cluster.standby();
    says(&standby.url("node"), "is a standby, which takes no changes");

    // A standby that is first is passed over, and a pooler that keeps connections is as good as none.
    let both = cluster
        .url("node")
        .replace("127.0.0.1:", &format!("127.0.0.1:{},127.0.0.1:", standby.port));
    let node = start(&own, &both);
    assert_eq!(code(&node.validate(&license, "https://a.example")), "ok");
    drop(node);
    let pooler = Pgbouncer::start(&cluster, PoolMode::Session, "node", 5);
    let pooled = start(&own, &pooler.url().replace("://", "://node@"));
    assert_eq!(code(&pooled.validate(&license, "https://a.example")), "ok");
}

#[test]
fn lines_that_were_changed_or_lost_are_named_and_known_sites_are_served() {
    let cluster = prepared_cluster();
    let first = License::new();
    let second = License::new();
    let third = License::new();
    let own = instance(&[&first, &second, &third]);
    let node = start(&own, &cluster.url("node"));
    for license in [&first, &second] {
        assert_eq!(code(&node.validate(license, "https://a.example")), "ok");
    }
    // As after a failover to a server that has not everything.
    cluster.psql("CREATE TABLE saved AS SELECT * FROM countersign.head");
    cluster.psql("DELETE FROM countersign.ledger WHERE sequence = 2");
    cluster.psql(
        "UPDATE countersign.head SET sequence = 1, digest = \
         (SELECT substring(line from '\"previous\":\"([0-9a-f]*)\"') FROM countersign.ledger WHERE sequence = 1)",
    );
    wait_for_state(&node, "lines_lost");
    assert!(
        node.part("store").to_string().contains("up to line 2"),
        "{}",
        node.part("store")
    );
    assert_eq!(code(&node.validate(&second, "https://a.example")), "ok");
    assert_eq!(node.validate(&third, "https://a.example").status, 503);
    drop(node);

    cluster.psql("UPDATE countersign.ledger SET line = replace(line, 'a.example', 'b.example')");
    cluster.psql("INSERT INTO countersign.ledger VALUES (2, '{\"event\":\"bound\"}')");
    // A node that never knew anything else.
    let other = instance(&[&first]);
    let told = refusal(&other, &cluster.url("node"), 3);
    assert!(told.contains("line 2 of the ledger"), "{told}");
}

#[test]
fn a_node_with_other_keys_issues_nothing_and_of_two_with_copies_of_one_folder_the_later_one_stays() {
    let cluster = prepared_cluster();
    let license = License::new();
    let own = instance(&[&license]);
    let other = instance(&[&license]);
    other.write_key(&new_keys(2048).private);
    let address = cluster.url("node");
    let node = start(&own, &address);
    let seen = || cluster.psql("SELECT count(*) FROM countersign.nodes");
    eventually("the node is entered", || seen() == "1");
    let odd = start(&other, &address);
    wait_for_state(&odd, "nodes_differ");
    assert_eq!(odd.validate(&license, "https://a.example").status, 503);
    assert_eq!(code(&node.validate(&license, "https://a.example")), "ok");
    drop(odd);

    let copy = instance(&[&license]);
    for file in ["node/node.json", "keys/signing.pem"] {
        copy.write_secret(file, &std::fs::read_to_string(own.file(file)).unwrap());
    }
    let later = start(&copy, &address);
    wait_for_state(&node, "same_name");
    assert!(node.part("store").to_string().contains("a copy of this node's folder"));
    assert_eq!(code(&later.validate(&license, "https://a.example")), "ok");
    eventually("the log names a missing standby", || {
        later.log().contains("the database waits for no standby")
    });
}

#[test]
fn a_node_warns_of_a_missing_standby_unless_none_is_needed() {
    let cluster = prepared_cluster();
    let license = License::new();
    let instances = [instance(&[&license]), instance(&[&license])];
    let address = cluster.url("node");
    let rules = ["checked", "assumed"];
    for (own, rule) in instances.iter().zip(rules) {
        let node = Server::start_with(own, &["--store", &address, "--synchronous", rule]);
        // A node reads up to the head before it says no.
        assert_eq!(node.updates(&license, "https://a.example", "").status, 403);
        // Its log is whole when it has stopped.
        node.signal("TERM");
        eventually("the node has stopped", || node.log().contains("INFO stopped"));
        let warns = node.log().contains("the database waits for no standby");
        assert_eq!(warns, rule == "checked", "{rule}: {}", node.log());
    }
}

#[test]
fn what_an_operator_breaks_under_a_running_node_has_a_state_and_is_well_again_when_it_is_mended() {
    let cluster = prepared_cluster();
    let bound = License::new();
    let licenses: Vec<License> = (0..6).map(|_| License::new()).collect();
    let own = instance(&licenses.iter().chain([&bound]).collect::<Vec<_>>());
    cluster.psql("ALTER ROLE node PASSWORD 'right'");
    cluster.require_passwords();
    let told = refusal(&own, &cluster.url("node"), 4);
    assert!(
        told.contains("password missing") && told.contains("check the user, PGPASSWORD"),
        "{told}"
    );
    own.write_secret("passfile", "*:*:*:node:right\n");
    let passfile = own.file("passfile");
    let node = start(
        &own,
        &format!("{}?passfile={}", cluster.url("node"), passfile.display()),
    );
    assert_eq!(code(&node.validate(&bound, "https://a.example")), "ok");
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'node'";
    let append = "INSERT INTO countersign.ledger VALUES ((SELECT max(sequence) + 1 FROM countersign.ledger), '{}'); \
         UPDATE countersign.head SET sequence = sequence + 1";
    let remove =
        "DELETE FROM countersign.ledger WHERE line = '{}'; UPDATE countersign.head SET sequence = sequence - 1";
    let append_of_newer = "WITH next AS (SELECT sequence + 1 AS sequence, '{\"event\":\"ballot\",\"previous\":\"' || digest \
         || '\",\"sequence\":' || sequence + 1 || ',\"synced\":' || sequence || '}' AS line FROM countersign.head), \
         put AS (INSERT INTO countersign.ledger SELECT * FROM next) \
         UPDATE countersign.head SET sequence = next.sequence, \
         digest = encode(sha256(convert_to(next.line || chr(10), 'UTF8')), 'hex') FROM next";
    let remove_of_newer = "UPDATE countersign.head SET sequence = head.sequence - 1, \
         digest = substring(line from '\"previous\":\"([0-9a-f]*)\"') FROM countersign.ledger WHERE line LIKE '%ballot%'; \
         DELETE FROM countersign.ledger WHERE line LIKE '%ballot%'";
    let faults = [
        (
            "refused",
            "ALTER ROLE node PASSWORD 'wrong'",
            end,
            "ALTER ROLE node PASSWORD 'right'",
            "password",
        ),
        (
            "refused",
            "REVOKE SELECT ON countersign.head FROM node",
            end,
            "GRANT SELECT ON countersign.head TO node",
            "permission denied",
        ),
        (
            "read_only",
            "ALTER ROLE node SET default_transaction_read_only = on",
            end,
            "ALTER ROLE node RESET default_transaction_read_only",
            "takes no changes",
        ),
        (
            "schema",
            "UPDATE countersign.head SET format = 3",
            "SELECT 1",
            "UPDATE countersign.head SET format = 2",
            "format 3, and this version reads 2",
        ),
        ("damaged", append, "SELECT 1", remove, "line 6 of the ledger"),
        (
            "newer_version",
            append_of_newer,
            "SELECT 1",
            remove_of_newer,
            "a newer version of countersign wrote the ledger: line 7 is of the kind \"ballot\"",
        ),
    ];
    for ((state, breaks, more, mends, says), license) in faults.into_iter().zip(&licenses) {
        cluster.psql(breaks);
        cluster.psql(more);
        wait_for_state(&node, state);
        let part = node.part("store");
        assert_eq!(part["state"], "failing", "{state}");
        assert!(part["detail"].as_str().unwrap().contains(says), "{state}: {part}");
        assert_eq!(code(&node.validate(&bound, "https://a.example")), "ok", "{state}");
        assert_eq!(node.validate(license, "https://a.example").status, 503, "{state}");
        cluster.psql(mends);
        eventually(&format!("well again after {state}"), || {
            code(&node.validate(license, "https://a.example")) == "ok"
        });
        wait_for_state(&node, "ok");
    }

    drop(node);
    cluster.psql(append_of_newer);
    let other = instance(&[&bound]);
    other.write_secret("passfile", "*:*:*:node:right\n");
    let address = format!("{}?passfile={}", cluster.url("node"), other.file("passfile").display());
    let told = refusal(&other, &address, 3);
    assert!(
        told.contains("a newer version of countersign wrote the ledger: line 8 is of the kind \"ballot\"")
            && told.contains("run the version of countersign that wrote it"),
        "{told}"
    );
}
