//! Two nodes serve the customer's page. What a customer gets at one node is in the history of both, once.

use std::fs;

use serde_json::{Value, json};

use super::database::prepared_cluster;
use super::node;
use crate::support::account::session;
use crate::support::eventually;
use crate::support::http::{Client, Response, get};
use crate::support::instance::Instance;
use crate::support::server::{Server, countersign};
use crate::tools::smtp::MailServer;

const ANNA: &str = "anna@buyer.example";

fn ask_for_the_key(server: &Server, license: &str, once: &str) -> Response {
    let cookie = format!("account={}", session(ANNA));
    let headers = [
        ("Cookie", cookie.as_str()),
        ("Sec-Fetch-Site", "same-origin"),
        ("Content-Type", "application/x-www-form-urlencoded"),
    ];
    let form = format!("once={once}");
    let path = format!("/account/licenses/{license}/mail-key");
    Client::connect(server.address).request("POST", &path, &headers, form.as_bytes())
}

#[test]
fn a_key_that_was_mailed_at_one_node_is_in_the_history_of_both_once() {
    let cluster = prepared_cluster();
    let url = cluster.url("node");
    let mail = MailServer::start("none");
    let nodes = [Instance::issuing(&[]), Instance::issuing(&[])];
    for instance in &nodes {
        let settings = format!(
            "[account]\nname = 'Acme'\nsupport = 'help@acme.example'\n[mail]\nserver = \"127.0.0.1\"\nport = {}\ntls = \"none\"\nfrom = \"shop@acme.example\"\n",
            mail.port
        );
        instance.write("countersign.toml", &settings);
    }
    fs::copy(nodes[0].file("keys/signing.pem"), nodes[1].file("keys/signing.pem")).unwrap();
    let servers = nodes.each_ref().map(|instance| node::start(instance, &url));
    let json_of = |arguments: &[&str]| -> Value {
        let mut command = countersign(&nodes[0]);
        let output = command
            .args(["--store", &url])
            .args(arguments)
            .arg("--json")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let issue = [
        "license",
        "issue",
        "--module",
        "forms",
        "--expires",
        "2099-06-30",
        "--customer",
        ANNA,
    ];
    let issued = json_of(&issue);
    let id = issued["id"].as_str().unwrap();
    let key = issued["license_key"].as_str().unwrap();

    let page = |server: &Server| {
        let cookie = format!("account={}", session(ANNA));
        let path = format!("/account/licenses/{id}");
        Client::connect(server.address)
            .request("GET", &path, &[("Cookie", &cookie)], b"")
            .text()
    };
    for server in &servers {
        eventually("each node knows the license", || page(server).contains("value=\""));
    }

    // One form that reaches both nodes at once, as by a proxy that tries again, is one line.
    let once = "5".repeat(32);
    std::thread::scope(|scope| {
        for server in &servers {
            scope.spawn(|| {
                let sent = ask_for_the_key(server, id, &once);
                let page = format!("/account/licenses/{id}?done=mailed");
                assert_eq!(sent.header("location"), Some(page.as_str()), "{}", sent.text());
            });
        }
    });
    let mails = || {
        let mails = mail.mails();
        mails
            .iter()
            .filter(|mail| mail["text"].as_str().unwrap().contains(key))
            .count()
    };
    eventually("the key is mailed", || mails() > 0);
    let handed = "SELECT count(*) FROM countersign.ledger WHERE line LIKE '{\"event\":\"handed\"%'";
    assert_eq!(cluster.psql(handed), "1");
    let history = json_of(&["license", "history", id]);
    assert_eq!(
        (&history["events"][0]["event"], &history["events"][0]["by"]),
        (&json!("key mailed"), &json!("operator:account")),
        "{history}"
    );
    let verified = json_of(&["bindings", "verify"]);
    assert_eq!(verified["lines"], json!(2), "{verified}");
    for server in &servers {
        eventually("the page of each node shows it", || {
            page(server).contains("The key was mailed to you")
        });
        assert_eq!(get(server.admin, "/healthz").status, 200);
    }
}
