//! Commands beside running nodes: they read the shared ledger, and say what they cannot do with one.

use std::process::{Command, Output};

use serde_json::Value;

use super::database::prepared_cluster;
use crate::support::cli_json::Page;
use crate::support::eventually;
use crate::support::instance::{Instance, License, sha256};
use crate::support::server::{Server, countersign};
use crate::tools::postgres::Cluster;

/// A cluster with the tables, and an instance that uses it as the role `node`.
struct Shared {
    cluster: Cluster,
    instance: Instance,
}

impl Shared {
    fn start(tables: &[String]) -> Self {
        Self {
            cluster: prepared_cluster(),
            instance: Instance::with_licenses(tables),
        }
    }

    fn command(&self) -> Command {
        let mut command = countersign(&self.instance);
        command.env("COUNTERSIGN_STORE", self.cluster.url("node"));
        command
    }

    fn output(&self, arguments: &[&str]) -> Output {
        self.command().args(arguments).output().unwrap()
    }

    /// What a verb prints.
    fn run(&self, arguments: &[&str]) -> String {
        run(self.command().args(arguments))
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.run(arguments)).unwrap()
    }

    /// The error of a verb, and its exit code.
    fn fails(&self, arguments: &[&str]) -> (i32, String) {
        let output = self.output(arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code().unwrap(), error)
    }
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Binds `sites` numbered sites to an unlimited license, and one to another.
fn bound(sites: usize) -> (Shared, [License; 2], Server) {
    let licenses = [License::new(), License::new()];
    let tables = [licenses[0].toml("sites = \"unlimited\""), licenses[1].toml("")];
    let shared = Shared::start(&tables);
    let node = Server::start_command(shared.command(), &[]);
    for number in 0..sites {
        let answer = node.validate(&licenses[0], &format!("https://s{number}.example"));
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    node.validate(&licenses[1], "https://only.example");
    (shared, licenses, node)
}

#[test]
fn what_the_nodes_know_is_shown_beside_them() {
    let (shared, [many, one], node) = bound(3);
    let verified = shared.json(&["bindings", "verify", "--json"]);
    assert_eq!(verified["lines"], 4, "{verified}");
    assert_eq!(verified["bindings"], 4);
    assert_eq!(verified["licenses"], 2);
    let digest = shared.cluster.psql("SELECT digest FROM countersign.head");
    assert_eq!(verified["last_digest"], digest);
    assert!(shared.run(&["bindings", "verify"]).contains("of the table"));

    let exported = shared.run(&["bindings", "export"]);
    let lines: Vec<Value> = exported
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let hosts: Vec<_> = lines.iter().map(|line| line["host"].as_str().unwrap()).collect();
    assert_eq!(hosts, ["s0.example", "s1.example", "s2.example", "only.example"]);
    assert_eq!(lines[3]["license"], one.id);

    eventually("reports are written", || {
        shared.cluster.psql("SELECT count(*) FROM countersign.reports") == "4"
    });
    let shown = shared.json(&["license", "show", &many.id, "--json"]);
    let bindings = shown["bindings"].as_array().unwrap_or_else(|| panic!("{shown}"));
    assert_eq!(bindings.len(), 3);
    assert!(bindings[2]["last_seen"].is_string(), "{shown}");
    let listed = shared.json(&["license", "list", "--host", "s1.example", "--json"]);
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!(listed[0]["id"], many.id);

    // A release is a line, and the next site takes the seat.
    shared.run(&["license", "release", &one.id]);
    eventually("the seat is free", || {
        node.validate(&one, "https://next.example");
        shared.cluster.psql("SELECT count(*) FROM countersign.ledger") == "6"
    });
    let released: Vec<Value> = shared
        .run(&["bindings", "export"])
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &Value| line["license"] == one.id)
        .collect();
    assert_eq!(released.len(), 2, "{released:?}");
    assert_eq!([&released[0]["released"], &released[1]["released"]], [true, false]);
    let changes = shared.json(&["changes", "--anyone", "--limit", "4", "--json"]);
    let events: Vec<_> = changes["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| &change["event"])
        .collect();
    assert_eq!(events, ["bound", "released", "bound", "bound"], "{changes}");
    let older = changes["older"].to_string();
    let older = shared.json(&["changes", "--anyone", "--before", &older, "--json"]);
    assert_eq!(older["changes"].as_array().unwrap().len(), 2, "{older}");
    assert_eq!(older["older"], Value::Null);
    for arguments in [["usage", "acme-forms"], ["bindings", "installed"]] {
        shared.run(&arguments);
    }
}

#[test]
fn commands_reach_the_node_of_this_machine_and_no_second_server_takes_its_folder() {
    let (shared, _, node) = bound(0);
    let socket = shared.instance.file("node/admin.sock");
    assert!(socket.exists());
    for key in ["--issuing", "--references"] {
        shared.run(&["keys", "generate", key]);
    }
    let (exit, error) = shared.fails(&["serve", "--listen", "127.0.0.1:0", "--admin-listen", "off"]);
    assert!(
        exit == 4 && error.contains("node: in use by another process"),
        "{error}"
    );
    assert!(shared.run(&["doctor"]).contains("ready, version "));
    let order = ["token", "create", "a", "--scope", "keys:read"];
    shared.run(&order);
    assert!(node.log().contains("changed a token token=a"), "{}", node.log());
    // As with an older server.
    let aside = shared.instance.file("node/aside.sock");
    std::fs::rename(&socket, &aside).unwrap();
    let told = shared.run(&["doctor"]);
    assert!(
        told.contains("running, but not checked: commands cannot reach the server"),
        "{told}"
    );
    std::fs::rename(&aside, &socket).unwrap();
    // Without its server, a command is a node for a moment.
    node.kill();
    assert!(socket.exists());
    assert!(shared.run(&["doctor"]).contains("not running"));
    let output = shared.output(&["token", "revoke", "a"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success() && told.contains("note: no server runs: "),
        "{told}"
    );
    let node = Server::start_command(shared.command(), &[]);
    assert!(shared.json(&["token", "list", "--json"])[0]["revoked"].is_string());
    node.stop();
    assert!(!socket.exists());
}

#[test]
fn every_damage_names_its_line() {
    let (shared, _, node) = bound(3);
    node.stop();
    let damages = [
        (
            "UPDATE countersign.ledger SET line = replace(line, 's1.', 's9.') WHERE sequence = 2",
            "line 3 of the ledger",
        ),
        (
            "UPDATE countersign.ledger SET line = '{}' WHERE sequence = 2",
            "line 2 of the ledger",
        ),
        (
            "DELETE FROM countersign.ledger WHERE sequence = 2",
            "line 3 of the ledger",
        ),
        ("DELETE FROM countersign.ledger WHERE sequence = 4", "ends with line 3"),
        (
            "UPDATE countersign.ledger SET line = replace(line, 'only', 'else') WHERE sequence = 4",
            "line 4 of the ledger is not the one",
        ),
    ];
    for (damage, told) in damages {
        shared
            .cluster
            .psql("CREATE TABLE kept AS SELECT sequence, line FROM countersign.ledger");
        shared.cluster.psql(damage);
        let verbs = [["bindings", "verify"], ["bindings", "export"]];
        for verb in verbs {
            let (exit, error) = shared.fails(&verb);
            assert_eq!(exit, 3, "{damage}: {error}");
            assert!(error.contains(told), "{damage}: {error}");
        }
        shared.cluster.psql("DELETE FROM countersign.ledger");
        shared
            .cluster
            .psql("INSERT INTO countersign.ledger (sequence, line) SELECT * FROM kept; DROP TABLE kept");
    }
    assert_eq!(shared.json(&["bindings", "verify", "--json"])["lines"], 4);
}

#[test]
fn what_a_database_does_not_have_is_said() {
    let shared = Shared::start(&[]);
    let (exit, error) = shared.fails(&["bindings", "rebuild"]);
    assert_eq!(exit, 3);
    assert!(error.contains("a database has no index"), "{error}");
    shared.cluster.psql("DROP SCHEMA countersign CASCADE");
    let (exit, error) = shared.fails(&["bindings", "verify"]);
    assert_eq!(exit, 4);
    assert!(error.contains("countersign bindings schema"), "{error}");
}

#[test]
fn a_ledger_is_copied_into_a_database_and_back() {
    let license = License::new();
    let shared = Shared::start(&[license.toml("sites = \"unlimited\"")]);
    let single = Server::start(&shared.instance);
    let bind = |server: &Server, number: usize| {
        let site = format!("https://s{number}.example");
        assert_eq!(server.validate(&license, &site).status, 200);
    };
    // At once, so that they share the waits for the disk.
    std::thread::scope(|scope| {
        for part in 0..6 {
            let single = &single;
            scope.spawn(move || (part * 100..part * 100 + 100).for_each(|number| bind(single, number)));
        }
    });
    let url = shared.cluster.url("node");
    let copy = || {
        let mut command = countersign(&shared.instance);
        command
            .args(["bindings", "copy", "--json", "--to", &url])
            .output()
            .unwrap()
    };
    let told = |output: &Output| -> Value {
        let document = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        Page::read().check("bindings-copy", &document);
        document
    };
    let first = told(&copy());
    assert_eq!(
        [&first["lines"], &first["again"]],
        [&Value::from(600), &Value::from(true)]
    );
    (600..603).for_each(|number| bind(&single, number));
    single.stop();
    let last = told(&copy());
    assert_eq!([&last["lines"], &last["again"]], [&Value::from(3), &Value::from(false)]);
    assert_eq!(told(&copy())["lines"], 0);
    assert_eq!(
        shared.json(&["bindings", "verify", "--json"])["last_digest"],
        last["last_digest"]
    );

    let node = Server::start_command(shared.command(), &[]);
    bind(&node, 603);
    node.stop();
    // The folder lacks a line now.
    let behind = copy();
    assert_eq!(behind.status.code(), Some(3), "{behind:?}");

    let folder = shared.instance.file("back");
    let back = folder.to_str().unwrap();
    let returned = shared.json(&["bindings", "copy", "--json", "--to", back]);
    assert_eq!(returned["lines"], 604);
    Page::read().check("bindings-copy", &returned);
    let lines = std::fs::read_to_string(folder.join("ledger.jsonl")).unwrap();
    let old = std::fs::read_to_string(shared.instance.file("store/ledger.jsonl")).unwrap();
    assert!(lines.starts_with(&old));
    assert_ne!(shared.fails(&["bindings", "copy", "--to", back]).0, 0);
    let single = Server::start_with(&shared.instance, &["--store", back]);
    bind(&single, 604);
    single.stop();
}

/// A ledger of this many lines, as a server writes it.
fn ledger(lines: usize, host: &str) -> String {
    let license = License::new().id;
    let mut previous = sha256("countersign ledger 1\n");
    let mut text = String::new();
    for sequence in 1..=lines {
        let line = format!(
            "{{\"event\":\"bound\",\"host\":\"{host}{sequence}.example\",\"license\":\"{license}\",\"previous\":\"{previous}\",\
             \"sequence\":{sequence},\"synced\":{},\"time\":\"2026-11-20T10:17:03Z\"}}\n",
            sequence - 1
        );
        previous = sha256(&line);
        text += &line;
    }
    text
}

#[test]
fn a_database_with_another_ledger_stays_as_it_is() {
    let shared = Shared::start(&[License::new().toml("")]);
    let url = shared.cluster.url("node");
    let copy = |lines: &str| {
        shared.instance.write("store/ledger.jsonl", lines);
        let mut command = countersign(&shared.instance);
        command.args(["bindings", "copy", "--to", &url]).output().unwrap()
    };
    let text = ledger(3, "a");
    let copied = copy(&text);
    assert!(copied.status.success(), "{copied:?}");
    let digest = || shared.cluster.psql("SELECT digest FROM countersign.head");
    let before = digest();
    for other in [ledger(5, "b"), ledger(3, "b"), ledger(2, "b")] {
        let refused = copy(&other);
        assert_eq!(refused.status.code(), Some(3), "{refused:?}");
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(error.contains("line 3 is not in the ledger to copy"), "{error}");
    }
    let damaged = text.replace("a2.", "x2.") + "more\n";
    assert_eq!(copy(&damaged).status.code(), Some(3));
    assert_eq!(digest(), before);
}

#[test]
fn a_copy_that_was_killed_goes_on_where_it_ended() {
    let shared = Shared::start(&[License::new().toml("")]);
    let url = shared.cluster.url("node");
    let text = ledger(10_000, "a");
    shared.instance.write("store/ledger.jsonl", &text);
    let copy = || {
        let mut command = countersign(&shared.instance);
        command.args(["bindings", "copy", "--json", "--to", &url]);
        command
    };
    // So slow that it cannot end before it is killed.
    shared.cluster.psql(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.5); RETURN NULL; END'; \
         CREATE TRIGGER slow AFTER INSERT ON countersign.ledger FOR EACH STATEMENT EXECUTE FUNCTION slow()",
    );
    let mut first = copy().stdout(std::process::Stdio::null()).spawn().unwrap();
    let head = || -> u64 {
        let sequence = shared.cluster.psql("SELECT sequence FROM countersign.head");
        sequence.parse().unwrap()
    };
    eventually("lines are copied", || head() > 0);
    first.kill().unwrap();
    first.wait().unwrap();
    shared.cluster.psql("DROP TRIGGER slow ON countersign.ledger");
    let there = head();
    assert!(there < 10_000, "{there}");

    let told: Value = serde_json::from_str(&run(&mut copy())).unwrap();
    assert_eq!(told["lines"], 10_000 - there);
    let last = text.lines().next_back().unwrap();
    let verified = shared.json(&["bindings", "verify", "--json"]);
    assert_eq!(verified["lines"], 10_000);
    assert_eq!(verified["last_digest"], sha256(&format!("{last}\n")));
}
