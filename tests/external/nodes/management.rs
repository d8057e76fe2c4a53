//! The management API on two nodes of one ledger: what one does is in force on the other within a second, and a retry at
//! the other gets the same key.

use std::fs;
use std::process::Output;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::database::prepared_cluster;
use super::node::{code, instance, start};
use crate::support::eventually_within;
use crate::support::http::{Response, request};
use crate::support::instance::{Instance, License};
use crate::support::issued::license_of;
use crate::support::server::{Server, countersign};
use crate::tools::postgres::Cluster;

/// What another node appended is read four times a second.
const A_SECOND: Duration = Duration::from_secs(1);

pub fn run(instance: &Instance, store: &str, arguments: &[&str]) -> Output {
    let output = countersign(instance)
        .env("COUNTERSIGN_STORE", store)
        .args(arguments)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

pub fn send(server: &Server, bearer: &str, method: &str, target: &str, key: &str, body: &Value) -> Response {
    let headers = [("Authorization", bearer), ("Idempotency-Key", key)];
    let target = format!("/api/v1/licenses{target}");
    request(server.address, method, &target, &headers, body.to_string().as_bytes())
}

/// Two nodes of one ledger, and who asks them.
pub struct Nodes {
    pub cluster: Cluster,
    pub instances: [Instance; 2],
    pub servers: [Server; 2],
    pub bearer: String,
}

impl Nodes {
    pub fn start() -> Self {
        let cluster = prepared_cluster();
        let store = cluster.url("node");
        let in_file = License::new();
        let instances = [instance(&[&in_file]), instance(&[&in_file])];
        for key in ["--issuing", "--references"] {
            run(&instances[0], &store, &["keys", "generate", key]);
        }
        for name in ["issuing.key", "references.key"] {
            let [from, to] = instances.each_ref().map(|instance| instance.file("keys").join(name));
            fs::copy(from, to).unwrap();
        }
        let create = ["token", "create", "shop", "--scope", "licenses:write"];
        let made = run(&instances[0], &store, &create);
        let bearer = format!("Bearer {}", String::from_utf8(made.stdout).unwrap().trim());
        let servers = instances.each_ref().map(|instance| start(instance, &store));
        Self {
            cluster,
            instances,
            servers,
            bearer,
        }
    }
}

#[test]
fn a_sale_at_one_node_is_in_force_on_the_other_within_a_second_and_a_retry_there_gets_its_key() {
    let Nodes {
        cluster,
        instances,
        servers: [first, second],
        bearer,
    } = Nodes::start();
    let store = cluster.url("node");

    let body = json!({ "modules": { "forms": [] }, "expires": "never", "reference": "order 1" });
    let sold = send(&first, &bearer, "POST", "", "1", &body);
    assert_eq!(sold.status, 201, "{}", sold.text());
    let license = license_of(&sold);
    assert_eq!(code(&first.validate(&license, "a.com")), "ok");
    eventually_within("the sale is in force", A_SECOND, || {
        code(&second.validate(&license, "a.com")) == "ok"
    });
    // At once: a look at the ledger comes before a no.
    let other = license_of(&send(&first, &bearer, "POST", "", "2", &body));
    let shown = send(&second, &bearer, "GET", &format!("/{}", other.id), "", &json!({}));
    assert_eq!(shown.status, 200, "{}", shown.text());
    let listed = send(&second, &bearer, "GET", "?reference=order+1", "", &json!({})).json();
    assert_eq!(listed["licenses"].as_array().unwrap().len(), 2);

    let retry = send(&second, &bearer, "POST", "", "1", &body);
    assert_eq!((retry.status, license_of(&retry).key), (200, license.key.clone()));
    let step = |server: &Server, step: &str| {
        let answer = send(
            server,
            &bearer,
            "POST",
            &format!("/{}/{step}", license.id),
            "",
            &json!({}),
        );
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    step(&second, "suspend");
    assert_eq!(code(&second.validate(&license, "a.com")), "suspended");
    eventually_within("the license is suspended", A_SECOND, || {
        code(&first.validate(&license, "a.com")) == "suspended"
    });
    step(&first, "resume");

    // Retries at both nodes at once: one license.
    let keys: Vec<_> = thread::scope(|scope| {
        let retries: Vec<_> = (0..8)
            .map(|number| {
                let server = if number % 2 == 0 { &first } else { &second };
                let bearer = &bearer;
                let body = &body;
                scope.spawn(move || license_of(&send(server, bearer, "POST", "", "3", body)).key)
            })
            .collect();
        retries.into_iter().map(|retry| retry.join().unwrap()).collect()
    });
    assert!(keys.iter().all(|key| *key == keys[0]), "one key for all");

    // A token that one node revokes is refused by the other within a second.
    run(&instances[1], &store, &["token", "revoke", "shop"]);
    eventually_within("the token is revoked", A_SECOND, || {
        let answer = send(&first, &bearer, "GET", "", "", &json!({}));
        answer.status == 401
    });
}
