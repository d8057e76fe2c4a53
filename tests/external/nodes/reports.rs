//! What sites tell one node, every node's commands tell: reports, copies that are somebody else's, and hosts that were
//! refused. What belongs to one node only is said to be so.

use std::process::Output;
use std::sync::Arc;

use chrono::Utc;
use countersign_model::build_id::BuildId;
use countersign_model::download_key::DownloadKey;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Builder;

use super::database::prepared_cluster;
use super::node::{code, start};
use crate::support::eventually;
use crate::support::instance::{Instance, LATEST, License, question};
use crate::support::issued::issue;
use crate::support::server::{Server, countersign};
use crate::tools::postgres::Cluster;

/// The key for downloads that both nodes have.
const SECRET: &str = "what makes links, and build ids..";

/// Two nodes with a registry each, and the address of their ledger.
struct Pair {
    instances: [Instance; 2],
    nodes: [Server; 2],
    url: String,
    _cluster: Cluster,
}

impl Pair {
    fn start(tables: &[String]) -> Self {
        let cluster = prepared_cluster();
        let url = cluster.url("node");
        let instances = [(); 2].map(|()| Instance::with_licenses(tables));
        for instance in &instances {
            instance.write_secret("keys/downloads.key", &SECRET[..32]);
        }
        let nodes = instances.each_ref().map(|instance| start(instance, &url));
        Self {
            instances,
            nodes,
            url,
            _cluster: cluster,
        }
    }

    fn run(&self, node: usize, arguments: &[&str]) -> Output {
        let mut command = countersign(&self.instances[node]);
        command.env("COUNTERSIGN_STORE", &self.url).args(arguments);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        output
    }

    fn json(&self, node: usize, arguments: &[&str]) -> Value {
        let arguments = [arguments, &["--json"]].concat();
        serde_json::from_slice(&self.run(node, &arguments).stdout).unwrap()
    }

    /// What a command prints on both nodes, which is the same. Sites ask until just before, and a node writes what it learned
    /// once a second: so it may do that between the two commands.
    fn both(&self, arguments: &[&str]) -> Value {
        let mut printed = [Value::Null, Value::Null];
        eventually(&format!("{arguments:?} print the same"), || {
            printed = [0, 1].map(|node| self.json(node, arguments));
            printed[0] == printed[1]
        });
        printed[0].take()
    }

    /// Has a site of a node report a copy, and the version that it runs.
    fn report(&self, node: usize, license: &License, host: &str, build_id: &str, version: &str) {
        let mut question = question(license, host);
        question["build_id"] = json!(build_id);
        assert_eq!(code(&self.nodes[node].ask(&question)), "ok", "{host}");
        let version = format!("&current_version={version}");
        assert_eq!(self.nodes[node].updates(license, host, &version).status, 200);
    }
}

/// The id of the copy that a site of a license gets.
fn copy_of(license: &License, host: &str) -> String {
    let key = DownloadKey::new(SECRET.as_bytes().first_chunk().unwrap());
    let license = license.id.parse().unwrap();
    let day = Utc::now().date_naive();
    let id = BuildId::new(&key, &license, &host.parse().unwrap(), day, "acme-forms", LATEST).unwrap();
    id.encrypt(&key).to_string()
}

/// A license that no file has.
fn issued(url: &str) -> License {
    let license = License::new();
    let folder = TempDir::new().unwrap();
    let node = countersign_ledger::open_shared(url, folder.path(), true).unwrap();
    let runtime = Builder::new_current_thread().build().unwrap();
    runtime.block_on(node.change_license(issue(&license))).unwrap();
    Arc::clone(&node).close().unwrap();
    license
}

/// The member of each element.
fn each<'a>(list: &'a Value, member: &str) -> Vec<&'a str> {
    let list = list.as_array().unwrap_or_else(|| panic!("{list}"));
    let mut texts: Vec<_> = list.iter().filter_map(|element| element[member].as_str()).collect();
    texts.sort_unstable();
    texts
}

#[test]
fn what_sites_told_one_node_the_commands_of_every_node_tell() {
    let [many, wanted] = [License::new(), License::new()];
    let tables = [many.toml("sites = \"unlimited\"\nnote = \"Anna\""), wanted.toml("")];
    let pair = Pair::start(&tables);
    let issued = issued(&pair.url);
    let own = copy_of(&many, "a.example");
    let stolen = copy_of(&issued, "c.example");
    pair.report(0, &many, "a.example", &own, "1.0.0");
    // A copy that was given to another license, whose own site tells the other node.
    pair.report(1, &many, "b.example", &stolen, "1.1.0");
    eventually("the issued license is in force", || {
        code(&pair.nodes[0].validate(&issued, "c.example")) == "ok"
    });
    pair.report(0, &issued, "c.example", &stolen, "1.1.0");
    assert_eq!(code(&pair.nodes[0].validate(&wanted, "first.example")), "ok");
    for number in 0..6 {
        let told = pair.nodes[number % 2].validate(&wanted, &format!("wants-{number}.example"));
        assert_eq!(code(&told), "bound_elsewhere");
    }
    eventually("both nodes wrote what they learned", || {
        let review = pair.json(0, &["review"]);
        let hosts = review["many_hosts"][0]["hosts"].as_array().map(Vec::len);
        let usage = pair.json(0, &["usage", "acme-forms"]);
        hosts == Some(6) && usage["sites"] == 3 && review["odd_reports"].as_array().map(Vec::len) == Some(1)
    });

    let review = pair.both(&["review"]);
    let odd = &review["odd_reports"][0];
    assert_eq!(
        [&odd["oddity"], &odd["host"], &odd["license"]],
        ["other_license", "b.example", &*many.id],
        "{review}"
    );
    assert_eq!(odd["given_to"], json!([issued.id]), "a program issued it");
    assert_eq!(review["many_hosts"][0]["license"], wanted.id);

    let traced = pair.both(&["trace", &own]);
    assert_eq!(
        (&traced[0]["origin"], &traced[0]["licenses"][0]["note"]),
        (&json!("given"), &json!("Anna"))
    );
    assert_eq!(each(&traced[0]["reported_by"], "host"), ["a.example"]);
    let traced = pair.both(&["trace", &stolen]);
    assert_eq!(traced[0]["origin"], "given", "{traced}");
    assert_eq!(traced[0]["licenses"][0]["id"], issued.id);
    assert_eq!(traced[0]["licenses"][0]["hosts"], json!(["c.example"]));
    assert_eq!(each(&traced[0]["reported_by"], "host"), ["b.example", "c.example"]);

    let usage = pair.both(&["usage", "acme-forms"]);
    assert_eq!(usage["sites"], 3, "{usage}");
    assert_eq!(each(&usage["versions"], "version"), ["1.0.0", "1.1.0"]);
    let installed = pair.both(&["bindings", "installed"]);
    assert_eq!(
        each(&installed["plugins"][0]["versions"], "version"),
        ["1.0.0", "1.1.0"],
        "{installed}"
    );
    let of_host = pair.both(&["license", "list", "--host", "c.example"]);
    assert_eq!(each(&of_host, "id"), [&issued.id]);
    for (license, hosts) in [(&many, &["a.example", "b.example"][..]), (&issued, &["c.example"])] {
        let shown = [0, 1].map(|node| pair.json(node, &["license", "show", &license.id])["bindings"].take());
        assert_eq!(shown[0], shown[1]);
        assert_eq!(each(&shown[0], "host"), hosts);
        let is_told = |site: &Value| site["last_seen"].is_string() && site["build_id"].is_string();
        assert!(shown[0].as_array().unwrap().iter().all(is_told), "{}", shown[0]);
    }
    let [first, second] = [0, 1].map(|node| pair.run(node, &["bindings", "export"]).stdout);
    assert_eq!(String::from_utf8_lossy(&first).lines().count(), 4);
    assert_eq!(first, second);
}

#[test]
fn a_release_of_a_license_of_a_file_or_of_the_ledger_is_every_nodes() {
    let of_file = License::new();
    let pair = Pair::start(&[of_file.toml("")]);
    let [first, second] = &pair.nodes;
    let issued = issued(&pair.url);
    for license in [&of_file, &issued] {
        eventually("the site is bound", || {
            code(&first.validate(license, "a.example")) == "ok"
        });
        assert_eq!(code(&second.validate(license, "b.example")), "bound_elsewhere");

        pair.run(1, &["license", "release", &license.id]);
        eventually("every node frees the seat", || {
            code(&first.validate(license, "c.example")) == "ok"
        });
        assert_eq!(code(&second.validate(license, "a.example")), "bound_elsewhere");
        for node in [0, 1] {
            let shown = pair.json(node, &["license", "show", &license.id]);
            assert_eq!(shown["bindings"][0]["released"], true, "{shown}");
        }
    }
}
