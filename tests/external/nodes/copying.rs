//! `bindings copy` of many lines: how long it takes, and how long others wait meanwhile.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::database::prepared_cluster;
use super::node::{code, instance, start};
use crate::support::cli_json::Page;
use crate::support::instance::{Instance, License, sha256};
use crate::support::server::{Server, countersign};
use crate::support::soak::timed;
use crate::support::{eventually, eventually_within};
use crate::tools::postgres::Cluster;

/// Writes a ledger of this many lines, each of a license of its own. The first line binds `first` to a.example.
fn write_ledger(instance: &Instance, first: &License, lines: usize) {
    let mut previous = sha256("countersign ledger 1\n");
    let mut text = String::with_capacity(lines * 330);
    for sequence in 1..=lines {
        let license = match sequence {
            1 => first.id.clone(),
            _ => sha256(&sequence.to_string()),
        };
        let line = format!(
            "{{\"event\":\"bound\",\"host\":\"a.example\",\"license\":\"{license}\",\"previous\":\"{previous}\",\
             \"sequence\":{sequence},\"synced\":{},\"time\":\"2026-11-20T10:17:03Z\"}}\n",
            sequence - 1
        );
        previous = sha256(&line);
        text += &line;
    }
    instance.write("store/ledger.jsonl", &text);
}

/// What a copy took.
struct Copied {
    all: Duration,
    /// The longest answer of the old server, which binds meanwhile.
    old: Duration,
    /// The longest refusal of a node on the database: each waits for the head's lock.
    refusal: Duration,
    refusals: usize,
}

/// Copies a ledger of this many lines while its server binds, and while a node on the database refuses seats.
fn copy(cluster: &Cluster, lines: usize) -> Copied {
    let taken = License::new();
    let new = License::new();
    let of_node = instance(&[&taken]);
    let old = Instance::with_licenses(&[taken.toml(""), new.toml("sites = \"unlimited\"")]);
    write_ledger(&old, &taken, lines);
    let server = Server::start(&old);
    let url = cluster.url("node");
    let started = Instant::now();
    let child = countersign(&old)
        .args(["bindings", "copy", "--json", "--to", &url])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let head = || -> usize {
        let sequence = cluster.psql("SELECT sequence FROM countersign.head");
        sequence.parse().unwrap()
    };
    eventually_within("the copy has begun", Duration::from_secs(120), || head() > 0);
    let node = start(&of_node, &url);
    let mut copied = Copied {
        all: Duration::ZERO,
        old: Duration::ZERO,
        refusal: Duration::ZERO,
        refusals: 0,
    };
    // At least once, also where the copy ended while the node started.
    while copied.refusals == 0 || head() < lines {
        for _ in 0..20 {
            let asked = Instant::now();
            let site = format!("https://s{}.example", copied.refusals);
            assert_eq!(code(&server.validate(&new, &site)), "ok");
            copied.old = copied.old.max(asked.elapsed());
            let asked = Instant::now();
            assert_eq!(code(&node.validate(&taken, "https://b.example")), "bound_elsewhere");
            copied.refusal = copied.refusal.max(asked.elapsed());
            copied.refusals += 1;
        }
    }
    let output = child.wait_with_output().unwrap();
    copied.all = started.elapsed();
    assert!(output.status.success(), "{output:?}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    Page::read().check("bindings-copy", &told);
    assert_eq!(told["again"], true);
    // What the old server bound meanwhile comes with the second copy.
    server.stop();
    let second = countersign(&old)
        .args(["bindings", "copy", "--json", "--to", &url])
        .output()
        .unwrap();
    assert!(second.status.success(), "{second:?}");
    assert_eq!(head(), lines + copied.refusals);
    let verified = countersign(&of_node)
        .args(["--store", &url, "bindings", "verify", "--json"])
        .output()
        .unwrap();
    let verified: Value = serde_json::from_slice(&verified.stdout).unwrap();
    assert_eq!(verified["lines"], lines + copied.refusals);
    eventually("the node knows the last line", || {
        node.metric("countersign_bindings") == Some((lines + copied.refusals) as f64)
    });
    copied
}

#[test]
fn nobody_waits_long_while_a_ledger_is_copied() {
    let copied = copy(&prepared_cluster(), 60_000);
    // A copy that held the head's lock from its begin to its end would make one refusal wait for all of it. How long a
    // refusal takes where nobody else has the machine (200 ms) is measured by the soak test.
    assert!(
        copied.refusal < copied.all / 3,
        "{:?} of {:?}",
        copied.refusal,
        copied.all
    );
}

mod soak {
    use super::*;

    #[test]
    #[ignore = "takes long: make soak"]
    fn a_million_bindings_are_copied_in_minutes_and_nobody_waits() {
        timed("copy of a million lines", || {
            let copied = copy(&prepared_cluster(), 1_000_000);
            assert!(copied.all < Duration::from_secs(600), "{:?}", copied.all);
            format!(
                "{:?}; the old server answered within {:?}, the database within {:?} ({} refusals)",
                copied.all, copied.old, copied.refusal, copied.refusals
            )
        });
    }
}
