//! Three nodes start the rollout of a release once, and each obeys what people order at another.

use std::process::Output;
use std::time::Duration;

use serde_json::{Value, json};

use super::database::prepared_cluster;
use super::{clock_skew, node};
use crate::support::history::make_repository;
use crate::support::instance::{Instance, LATEST, License, manifest};
use crate::support::server::{Server, countersign};
use crate::support::{eventually, eventually_within, get};

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
    eventually("all have looked at the releases", || {
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
    // Before a node knows of the first line, it holds the release as if the rollout began at each question.
    eventually("every node knows that the rollout started, once", || {
        nodes.iter().all(|node| steps(&show(node, &url)) == ["started"])
    });
    eventually("every node holds the release until the same time", || {
        let until: Vec<_> = servers.iter().map(held).collect();
        until[0].as_ref().is_some_and(Value::is_string) && until.iter().all(|each| *each == until[0])
    });
    assert!(
        run(&nodes[1], &url, &["rollout", "acme-forms", "pause"])
            .status
            .success()
    );
    eventually("every node obeys the pause", || {
        servers.iter().all(|server| held(server) == Some(Value::Null))
    });
    assert!(
        run(&nodes[2], &url, &["rollout", "acme-forms", "finish"])
            .status
            .success()
    );
    eventually("every node gives it to everybody", || {
        let query = "&current_version=1.2.0&holds=1";
        servers
            .iter()
            .all(|server| server.updates(&license, "a.com", query).text() == manifest("1.3.0"))
    });
    assert_eq!(steps(&show(&nodes[0], &url)), ["started", "paused", "finished"]);
}

/// The vendor's machine: it builds these versions of acme-forms, each with its package.
fn built(versions: &[&str]) -> Instance {
    let vendor = Instance::empty();
    let entry = "module = \"forms\"\nrepository = \"../../forms.git\"\n";
    vendor.write("registry/plugins/acme-forms.toml", entry);
    let history = versions.iter().map(|version| {
        let header = format!("<?php\n/*\n * Plugin Name: Acme Forms\n * Version: {version}\n */");
        format!(">>> write acme-forms.php\n{header}\n>>> tag {version}\n")
    });
    make_repository(&history.collect::<String>(), &vendor.file("forms.git"));
    let output = countersign(&vendor).arg("build").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    vendor
}

fn publish(vendor: &Instance, node: &Instance) {
    let mut command = countersign(vendor);
    command
        .arg("publish")
        .args([vendor.file("releases"), node.file("releases")]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Two sites take the release from a node; those whose time has not come are left out.
fn take(server: &Server, license: &License, name: &str) -> Vec<String> {
    let hosts = (0..).map(|number| format!("{name}{number}.example"));
    let offered = hosts.filter(|host| {
        assert_eq!(server.validate(license, host).code(), "ok");
        let answer = server.updates(license, host, "&current_version=1.1.0&holds=1").json();
        assert_eq!(answer["version"], "1.2.0");
        let is_held = answer.get("held").is_some();
        if !is_held {
            let link = answer["download_url"].as_str().unwrap();
            let path = link.find("/api/").map(|at| &link[at..]).unwrap();
            assert_eq!(get(server.address, path).status, 200, "{link}");
        }
        !is_held
    });
    offered.take(2).collect()
}

#[test]
fn what_three_nodes_counted_together_raises_one_alarm() {
    let cluster = prepared_cluster();
    let url = cluster.url("node");
    let license = License::new();
    let [before, after] = [["1.1.0"].as_slice(), &["1.1.0", "1.2.0"]].map(built);
    let nodes: Vec<Instance> = (0..3)
        .map(|_| Instance::issuing(&[license.toml("sites = \"unlimited\"\n")]))
        .collect();
    for instance in &nodes {
        let entry = "module = \"forms\"\nrepository = \"../../src\"\n[rollout]\nsteps = [\"0h 50%\", \"720h 100%\"]\n";
        instance.write("registry/plugins/acme-forms.toml", entry);
        instance.write_secret("keys/downloads.key", &"downloads".repeat(4)[..32]);
        std::fs::remove_dir_all(instance.file("releases")).unwrap();
        publish(&before, instance);
        clock_skew::set(instance, 0);
    }
    let servers: Vec<Server> = nodes.iter().map(|node| clock_skew::start(node, &cluster)).collect();
    assert_eq!(servers[0].validate(&license, "a.example").code(), "ok");
    eventually("all have looked at the releases", || {
        steps(&show(&nodes[2], &url)) == ["finished"]
    });
    nodes.iter().for_each(|instance| publish(&after, instance));
    eventually("every node has the release", || {
        let offered = |server: &Server| server.updates(&license, "a.example", "").json()["version"] == "1.2.0";
        servers.iter().all(offered) && steps(&show(&nodes[1], &url)) == ["started"]
    });
    // A node alone has too few for an alarm.
    let taken: Vec<Vec<String>> = servers
        .iter()
        .zip(["one", "two", "three"])
        .map(|(server, name)| take(server, &license, name))
        .collect();
    nodes.iter().for_each(|instance| clock_skew::set(instance, 25 * 3_600));
    for (server, hosts) in servers.iter().zip(&taken) {
        for host in hosts {
            let answer = server.updates(&license, host, "&current_version=1.1.0&holds=1");
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
    }
    // A minute goes by in a second: each node looks again, once the others' counts are in the database.
    let mut offset = 25 * 3_600;
    eventually_within("one node raises the alarm", Duration::from_secs(240), || {
        offset += 60;
        nodes.iter().for_each(|instance| clock_skew::set(instance, offset));
        std::thread::sleep(Duration::from_secs(1));
        steps(&show(&nodes[0], &url)) == ["started", "alarmed"]
    });
    for server in &servers {
        eventually("every node shows it", || {
            server.metric("countersign_rollout_alarms{plugin=\"acme-forms\"}") == Some(1.0)
        });
    }
    std::thread::sleep(Duration::from_secs(35));
    assert_eq!(
        steps(&show(&nodes[2], &url)),
        ["started", "alarmed"],
        "it is raised once"
    );
}
