//! Three nodes start the rollout of a release once, and each obeys what people order at another.

use std::process::Output;
use std::time::Duration;

use serde_json::{Value, json};

use super::database::prepared_cluster;
use super::node;
use crate::support::eventually;
use crate::support::instance::{Instance, LATEST, License, manifest};
use crate::support::server::{Server, countersign};

const PATIENCE: Duration = Duration::from_secs(60);

fn run(instance: &Instance, store: &str, arguments: &[&str]) -> Output {
    let mut command = countersign(instance);
    command
        .args(arguments)
        .env("COUNTERSIGN_STORE", store)
        .output()
        .unwrap()
}

fn show(instance: &Instance, store: &str) -> Value {
    let output = run(instance, store, &["rollout", "acme-forms", "show", "--json"]);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

/// The steps of the newest release with a rollout.
fn steps(report: &Value) -> Vec<String> {
    let events = report["releases"][0]["events"].as_array().into_iter().flatten();
    events.map(|event| event["step"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn three_nodes_start_one_rollout_once_and_obey_each_others_pauses() {
    let cluster = prepared_cluster();
    let url = cluster.url("node");
    let license = License::new();
    let nodes: Vec<Instance> = (0..3).map(|_| Instance::issuing(&[license.toml("")])).collect();
    for instance in &nodes {
        let entry = "module = \"forms\"\nrepository = \"../../src\"\ndownload_url = \"https://dl.example/{version}.zip\"\n\
                     [rollout]\nsteps = [\"0h 0.001%\", \"72h 100%\"]\n";
        instance.write("registry/plugins/acme-forms.toml", entry);
    }
    let servers: Vec<Server> = nodes.iter().map(|instance| node::start(instance, &url)).collect();
    assert_eq!(servers[0].validate(&license, "a.com").code(), "ok");
    eventually("all have looked at the releases", PATIENCE, || {
        steps(&show(&nodes[2], &url)) == ["finished"]
    });
    for instance in &nodes {
        instance.publish_all("releases", "1.3.0", &[("1.3.0", false), (LATEST, false)]);
    }
    let held = |server: &Server| {
        let answer = server.updates(&license, "a.com", "&current_version=1.2.0&holds=1");
        let answer = answer.json();
        (answer["version"] == json!("1.3.0") && answer["held"] == json!(true)).then(|| answer["held_until"].clone())
    };
    eventually("every node holds the release until the same time", PATIENCE, || {
        let until: Vec<_> = servers.iter().map(held).collect();
        until[0].as_ref().is_some_and(Value::is_string) && until.iter().all(|each| *each == until[0])
    });
    assert_eq!(steps(&show(&nodes[1], &url)), ["started"]);
    assert!(
        run(&nodes[1], &url, &["rollout", "acme-forms", "pause"])
            .status
            .success()
    );
    eventually("every node obeys the pause", PATIENCE, || {
        servers.iter().all(|server| held(server) == Some(Value::Null))
    });
    assert!(
        run(&nodes[2], &url, &["rollout", "acme-forms", "finish"])
            .status
            .success()
    );
    eventually("every node gives it to everybody", PATIENCE, || {
        let query = "&current_version=1.2.0&holds=1";
        servers
            .iter()
            .all(|server| server.updates(&license, "a.com", query).text() == manifest("1.3.0"))
    });
    assert_eq!(steps(&show(&nodes[0], &url)), ["started", "paused", "finished"]);
}
