//! Webhooks of nodes that share a ledger: one node tells an endpoint, and another goes on where that one ends.

use std::collections::BTreeMap;

use serde_json::Value;

use super::database::{ledger, prepared_cluster};
use super::node::{code, start};
use crate::support::eventually;
use crate::support::instance::{Instance, License};
use crate::support::server::{Server, countersign};
use crate::tools::receiver::Receiver;

const SENT: &str = "countersign_webhook_messages_total{webhook=\"crm\",result=\"sent\"}";

fn sent(node: &Server) -> f64 {
    node.metric(SENT).unwrap()
}

/// The hosts whose messages arrived, each once, in the order of their first messages. A message that came twice has one id.
fn delivered(receiver: &Receiver) -> Vec<String> {
    let mut hosts = Vec::new();
    let mut ids: BTreeMap<String, Value> = BTreeMap::new();
    for message in receiver
        .received()
        .into_iter()
        .filter(|message| message["status"] == 200)
    {
        assert_eq!(message["verified"], true, "{message}");
        let host = message["body"]["data"]["host"].as_str().unwrap().to_owned();
        match ids.get(&host) {
            Some(id) => assert_eq!(*id, message["id"], "{message}"),
            None => {
                ids.insert(host.clone(), message["id"].clone());
                hosts.push(host);
            }
        }
    }
    hosts
}

/// How many messages were taken.
fn messages(receiver: &Receiver) -> usize {
    receiver.taken().len()
}

#[test]
fn one_node_tells_an_endpoint_at_a_time_and_another_goes_on_behind_it() {
    let mut cluster = prepared_cluster();
    let store = cluster.url("node");
    let receiver = Receiver::start();
    let license = License::new();
    let instances = [(); 2].map(|()| {
        let instance = Instance::with_licenses(&[license.toml("sites = \"unlimited\"")]);
        let webhook = format!(
            "[webhooks.crm]\nurl = \"{}\"\nevents = [\"site.bound\"]\n",
            receiver.url()
        );
        instance.write("countersign.toml", &webhook);
        instance
    });
    let [first, second] = &instances;
    let made = countersign(first)
        .args(["webhook", "secret", "crm", "--json"])
        .output()
        .unwrap();
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    receiver.know(made["secret"].as_str().unwrap());
    second.write_secret("keys/webhooks/crm.secret", made["secret"].as_str().unwrap());
    let listed = |instance: &Instance| -> Value {
        let mut command = countersign(instance);
        let output = command
            .args(["--store", &store, "webhook", "list", "--json"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    };

    let mut nodes = instances.each_ref().map(|instance| Some(start(instance, &store)));
    eventually("a node holds the lease", || listed(first)[0].get("node").is_some());
    assert_eq!(listed(first), listed(second));

    // Events of both nodes, each delivered once.
    let mut count = 0;
    let mut bind = |node: &Server, hosts: usize| {
        for _ in 0..hosts {
            let answer = node.validate(&license, &format!("site-{count}.example"));
            assert_eq!(code(&answer), "ok");
            count += 1;
        }
        count
    };
    for _ in 0..5 {
        for node in nodes.iter().flatten() {
            bind(node, 2);
        }
    }
    eventually("the receiver has all events", || delivered(&receiver).len() == 20);
    assert_eq!(messages(&receiver), 20, "each once");
    // A node counts a message after the endpoint has answered.
    let sends = || nodes.iter().flatten().map(sent).collect::<Vec<_>>();
    eventually("all are counted", || sends().iter().sum::<f64>() == 20.0);
    let sends = sends();
    assert!(sends == [20.0, 0.0] || sends == [0.0, 20.0], "{sends:?}");
    let holder = usize::from(sends[1] > 0.0);
    let other = 1 - holder;
    let holder_name = listed(first)[0]["node"].clone();

    // The holder is killed while it sends.
    let killed = nodes[holder].take().unwrap();
    let goes_on = nodes[other].take().unwrap();
    bind(&killed, 10);
    bind(&goes_on, 10);
    killed.kill();
    let all = bind(&goes_on, 10);
    eventually("the other node goes on", || delivered(&receiver).len() == all);
    eventually("the other node counts them", || sent(&goes_on) >= 10.0);
    assert_ne!(listed(first)[0]["node"], holder_name);
    assert!(messages(&receiver) <= all + 20, "no more than a batch comes twice");

    // The killed one comes back, and leaves the endpoint to the other.
    let back = start(&instances[holder], &store);
    let all = bind(&back, 10);
    eventually("the receiver has all events", || delivered(&receiver).len() == all);
    assert_eq!(sent(&back), 0.0);

    // The database is away: the events before and after it arrive.
    cluster.kill();
    cluster.restart();
    eventually("a node binds again", || {
        code(&back.validate(&license, "first-again.example")) == "ok"
    });
    let all = bind(&back, 10) + 1;
    eventually("the receiver has all events", || delivered(&receiver).len() == all);

    // One that ends as it should gives the lease up: the other need not wait for its end.
    assert!(goes_on.stop().success());
    let all = bind(&back, 10) + 1;
    eventually("the first one tells them", || delivered(&receiver).len() == all);
    eventually("the first one counts them", || sent(&back) >= 10.0);
    let in_order = ledger(|sql| cluster.psql(sql)).remove(&license.id).unwrap();
    assert_eq!(delivered(&receiver), in_order, "in the order of the ledger");
}
