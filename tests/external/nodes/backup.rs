//! The section of docs/operating.md on backups of several nodes: its commands, run as they stand.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::database::{prepare, prepared_cluster};
use super::node::{code, instance};
use crate::support::eventually;
use crate::support::instance::{Instance, License};
use crate::support::server::{Server, countersign_in};
use crate::tools::daemon::{give, run, unprivileged};
use crate::tools::postgres::{Cluster, Version};

/// The block of the section in this language that has these words.
fn block(language: &str, words: &str) -> &'static str {
    let page = include_str!("../../../docs/operating.md");
    let (_, section) = page.split_once("\n### Back up and restore several nodes\n").unwrap();
    let section = section.split("\n### ").next().unwrap();
    let mut blocks = section.split("```").skip(1).step_by(2);
    let found = blocks.find_map(|block| {
        block
            .strip_prefix(&format!("{language}\n"))
            .filter(|text| text.contains(words))
    });
    found.unwrap_or_else(|| panic!("no {language} with {words}"))
}

/// A shell that runs commands of the section, with these variables.
fn sh(mut command: Command, commands: &str, folder: &Path, variables: &[(&str, &str)]) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_countersign")).parent().unwrap();
    let programs = Version::Debian.programs();
    let path = std::env::var("PATH").unwrap();
    command
        .args(["-e", "-c", commands])
        .current_dir(folder)
        .env("PATH", format!("{}:{}:{path}", programs.display(), program.display()))
        .envs(variables.iter().copied());
    run(&mut command)
}

/// A node whose address of the database is in its configuration.
fn configured(licenses: &[&License], url: &str) -> Instance {
    let own = instance(licenses);
    own.write("countersign.toml", &format!("[paths]\nstore = \"{url}\"\n"));
    own.write("public/index.html", "");
    std::fs::create_dir_all(own.file("releases")).unwrap();
    own
}

fn loses_lines(node: &Server) {
    let series = "countersign_ledger_state{state=\"lines_lost\"}";
    eventually(&node.log(), || node.metric(series) == Some(1.0));
}

fn is_well(node: &Server) {
    eventually(&node.log(), || node.part("store")["state"] == "ok");
}

#[test]
fn a_dump_and_the_files_of_a_node_bring_everything_back() {
    let cluster = prepared_cluster();
    let licenses: Vec<License> = (0..4).map(|_| License::new()).collect();
    let all: Vec<_> = licenses.iter().collect();
    let own = [
        configured(&all, &cluster.url("node")),
        configured(&all, &cluster.url("node")),
    ];
    let [first, second] = own.each_ref().map(Server::start);
    let elsewhere = TempDir::new().unwrap();
    let backup = elsewhere.path().join("backup");
    let owner = cluster.url("postgres");
    let variables = [("BACKUP", backup.to_str().unwrap()), ("OWNER", &owner)];
    let shell = |words: &str| sh(Command::new("sh"), block("sh", words), own[0].path(), &variables);
    assert_eq!(code(&first.validate(&licenses[0], "https://a.example")), "ok");
    shell("cp -a countersign.toml");
    shell("pg_dump");
    let kept: Value = serde_json::from_slice(&std::fs::read(backup.join("verified.json")).unwrap()).unwrap();
    for (license, host) in [(&licenses[1], "b"), (&licenses[2], "c")] {
        assert_eq!(
            code(&second.validate(license, &format!("https://{host}.example"))),
            "ok"
        );
    }
    // A no is said only by a node that has read up to the head.
    assert_eq!(
        code(&first.validate(&licenses[2], "https://z.example")),
        "bound_elsewhere"
    );

    shell("pg_restore");
    loses_lines(&first);
    loses_lines(&second);
    let repaired = shell("bindings repair");
    assert!(repaired.contains("2 bindings appended"), "{repaired}");
    is_well(&first);
    is_well(&second);
    // The chain proves it: the line that was noted with the backup is in it.
    let line = format!(
        "SELECT line FROM countersign.ledger WHERE sequence = {}",
        kept["sequence"]
    );
    let digest = crate::support::instance::sha256(&format!("{}\n", cluster.psql(&line)));
    assert_eq!(kept["last_digest"], digest);
    let verified = countersign_in(own[1].path())
        .args(["bindings", "verify", "--json"])
        .output()
        .unwrap();
    let verified: Value = serde_json::from_slice(&verified.stdout).unwrap();
    assert_eq!([&verified["lines"], &verified["bindings"]], [3, 3], "{verified}");

    // The machine of a node is lost.
    drop(first);
    let restored = elsewhere.path().join("restored");
    let variables = [&variables[..], &[("RESTORED", restored.to_str().unwrap())]].concat();
    sh(
        Command::new("sh"),
        block("sh", "$RESTORED"),
        elsewhere.path(),
        &variables,
    );
    let third = Server::start_in(&restored, &[]);
    for node in [&second, &third] {
        for (license, host) in licenses.iter().zip(["a", "b", "c", "d"]) {
            let answer = node.validate(license, &format!("https://{host}.example"));
            assert_eq!(code(&answer), "ok", "{host}");
        }
        assert_eq!(
            code(&node.validate(&licenses[1], "https://z.example")),
            "bound_elsewhere"
        );
    }
}

#[test]
fn a_base_backup_and_the_archive_lack_only_what_the_nodes_know() {
    let elsewhere = TempDir::new().unwrap();
    let wal = elsewhere.path().join("wal");
    let base = elsewhere.path().join("base");
    std::fs::create_dir(&wal).unwrap();
    give(elsewhere.path());
    give(&wal);
    let ours = |text: &str| {
        assert!(text.contains("/srv/wal"), "{text}");
        text.replace("/srv/wal", wal.to_str().unwrap())
    };
    let mut cluster = Cluster::start_with(Version::Debian, &ours(block("ini", "archive_command")));
    prepare(&cluster);
    let licenses: Vec<License> = (0..4).map(|_| License::new()).collect();
    let own = configured(&licenses.iter().collect::<Vec<_>>(), &cluster.url("node"));
    let node = Server::start(&own);
    let bind = |number: usize, host: &str| code(&node.validate(&licenses[number], &format!("https://{host}.example")));
    assert_eq!(bind(0, "a"), "ok");
    let data = cluster.data();
    let owner = cluster.url("postgres");
    let variables = [
        ("OWNER", owner.as_str()),
        ("BASE", base.to_str().unwrap()),
        ("DATA", data.to_str().unwrap()),
    ];
    let as_database = |commands: &str| sh(unprivileged("sh"), commands, elsewhere.path(), &variables);
    as_database(block("sh", "pg_basebackup"));
    assert_eq!(bind(1, "b"), "ok");
    let segment = cluster.psql("SELECT pg_walfile_name(pg_switch_wal())");
    eventually("the segment is archived", || wal.join(&segment).exists());
    // After the last segment of the archive.
    assert_eq!(bind(2, "c"), "ok");

    cluster.kill();
    std::fs::remove_dir_all(&data).unwrap();
    as_database(&ours(block("sh", "recovery.signal")));
    cluster.restart();
    eventually("it takes changes", || cluster.psql("SELECT pg_is_in_recovery()") == "f");
    assert_eq!(cluster.psql("SELECT count(*) FROM countersign.ledger"), "2");
    loses_lines(&node);
    assert_eq!(bind(2, "c"), "ok");
    let variables = [("OWNER", owner.as_str())];
    let repaired = sh(
        Command::new("sh"),
        block("sh", "bindings repair"),
        own.path(),
        &variables,
    );
    assert!(repaired.contains("1 binding appended"), "{repaired}");
    is_well(&node);
    for (number, host, answer) in [
        (0, "a", "ok"),
        (1, "b", "ok"),
        (2, "c", "ok"),
        (2, "z", "bound_elsewhere"),
        (3, "d", "ok"),
    ] {
        assert_eq!(bind(number, host), answer, "{host}");
    }
    let verified = countersign_in(own.path())
        .args(["bindings", "verify"])
        .output()
        .unwrap();
    assert!(verified.status.success(), "{verified:?}");
}
