//! Licenses of another system in a ledger that nodes share: imported through one, in force on the other, and again without a
//! server.

use std::fs;
use std::process::Output;
use std::time::Duration;

use serde_json::Value;

use super::database::prepared_cluster;
use super::node::{code, instance};
use crate::support::instance::{License, sha256};
use crate::support::server::countersign;
use crate::support::{Instance, Server, eventually_within};

const ROWS: usize = 1_200;

fn license(number: usize) -> License {
    let key = sha256(&format!("license {number}"))[..32].to_owned();
    let id = sha256(&key);
    License { key, id }
}

fn import(instance: &Instance, store: &str) -> Output {
    let mut text = "key,expires,modules,hosts,created\n".to_owned();
    for number in 0..ROWS {
        text += &format!(
            "{},2099-12-31,forms,site-{number}.example,2025-01-01\n",
            license(number).key
        );
    }
    let file = instance.file("export.csv");
    fs::write(&file, text).unwrap();
    let mut command = countersign(instance);
    command.args(["--store", store, "license", "import"]).arg(&file);
    command.args(["--from", "csv", "--json"]).output().unwrap()
}

fn counts(output: &Output) -> [u64; 4] {
    let told = String::from_utf8_lossy(&output.stderr);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{told}"));
    let names = ["new_licenses", "unchanged_licenses", "sites_bound", "rejected"];
    assert!(output.status.success(), "{told}");
    names.map(|name| document[name].as_u64().unwrap())
}

#[test]
fn licenses_are_imported_into_a_shared_ledger_through_a_node_and_without_one() {
    let cluster = prepared_cluster();
    let address = cluster.url("node");
    let flags = ["--foreign-keys", "true", "--store", &address];
    let in_file = License::new();
    let [first, second] = [instance(&[&in_file]), instance(&[&in_file])];
    let one = Server::start_command(countersign(&first), &flags);
    let other = Server::start_command(countersign(&second), &flags);
    assert_eq!(counts(&import(&first, &address)), [ROWS as u64, 0, ROWS as u64, 0]);
    let last = license(ROWS - 1);
    let site = format!("site-{}.example", ROWS - 1);
    assert_eq!(code(&one.validate(&last, &site)), "ok");
    eventually_within("the other node has it", Duration::from_secs(1), || {
        code(&other.validate(&last, &site)) == "ok"
    });
    assert_eq!(
        code(&other.validate(&license(0), "elsewhere.example")),
        "bound_elsewhere"
    );
    one.stop();
    other.stop();
    assert_eq!(
        counts(&import(&second, &address)),
        [0, ROWS as u64, 0, 0],
        "a node of its own, for a moment"
    );
    let ledger = cluster.psql("select string_agg(line::text, '') from countersign.ledger");
    assert!(!ledger.contains(&last.key));
}
