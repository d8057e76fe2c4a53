//! The desk of two nodes: a session of one holds at the other, its end is obeyed by both, and a code works once.

use std::fs;
use std::net::SocketAddr;

use serde_json::json;

use super::database::prepared_cluster;
use super::node;
use crate::support::eventually;
use crate::support::http::{Client, Response};
use crate::support::instance::Instance;
use crate::support::server::{Server, countersign};
use crate::support::shop::{add_shop, deliver, invoice};
use crate::tools::smtp::MailServer;

const ANNA: &str = "anna@vendor.example";

/// A node's desk.
struct Door {
    server: Server,
    address: SocketAddr,
}

impl Door {
    fn open(instance: &Instance, store: &str) -> Self {
        let server = node::start(instance, store);
        let told = countersign(instance)
            .args(["desk", "--json"])
            .env("COUNTERSIGN_STORE", store)
            .output()
            .unwrap();
        let told: serde_json::Value =
            serde_json::from_slice(&told.stdout).unwrap_or_else(|_| panic!("{told:?} {}", server.log()));
        let port = u16::try_from(told["port"].as_u64().unwrap()).unwrap();
        Self {
            server,
            address: SocketAddr::from(([127, 0, 0, 1], port)),
        }
    }

    fn send(&self, method: &str, path: &str, cookie: &str, form: &str) -> Response {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\nCookie: {cookie}\r\nSec-Fetch-Site: same-origin\r\n\
             Content-Type: application/x-www-form-urlencoded\r\n\r\n{form}",
            form.len()
        );
        let mut client = Client::connect(self.address);
        client.send(head.as_bytes()).unwrap();
        client.receive().unwrap()
    }

    /// Whether a person with the cookie is signed in.
    fn knows(&self, cookie: &str) -> bool {
        self.send("GET", "/", cookie, "").status == 200
    }
}

/// Asks at a node for a code; the path of its page, and the code of the mail.
fn ask(door: &Door, mail: &MailServer) -> (String, String) {
    let before = mail.mails().len();
    let asked = door.send("POST", "/sign-in", "", &format!("address={ANNA}"));
    let path = asked.header("location").unwrap().to_owned();
    eventually("the mail comes", || mail.mails().len() > before);
    let mails = mail.mails();
    let text = mails.last().unwrap()["text"].as_str().unwrap();
    let code = text.split("Your code: ").nth(1).unwrap()[..9].to_owned();
    (path, code)
}

#[test]
fn the_desk_of_a_node_shows_what_is_parked_and_who_bought_on_the_others() {
    let cluster = prepared_cluster();
    let url = cluster.url("node");
    let nodes = [Instance::new(), Instance::new()];
    for instance in &nodes {
        add_shop(instance);
        instance.write("countersign.toml", "[desk]\nlisten = \"127.0.0.1:0\"\n[shops.stripe]\n");
    }
    for file in ["keys/signing.pem", "keys/issuing.key", "keys/references.key"] {
        fs::copy(nodes[0].file(file), nodes[1].file(file)).unwrap();
    }
    let [first, second] = nodes.each_ref().map(|instance| Door::open(instance, &url));
    let page = |door: &Door, path: &str| {
        let link = countersign(&nodes[0])
            .args(["desk", "--json"])
            .env("COUNTERSIGN_STORE", &url)
            .output()
            .unwrap();
        let link: serde_json::Value = serde_json::from_slice(&link.stdout).unwrap();
        let link = link["link"].as_str().unwrap();
        let used = first.send("POST", &link[link.find("/link/").unwrap()..], "", "");
        let cookie = used.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        door.send("GET", path, &cookie, "").text()
    };
    let today = |door: &Door| page(door, "/");
    assert!(!today(&first).contains("Node "), "{}", today(&first));
    let sale = invoice("in_1", "subscription_create", "price_of_nothing", 1, 30);
    assert_eq!(deliver(&second.server, "invoice.paid", 1, &sale), 200);
    let parked = |page: &str| page.contains(": 1 parked delivery") && page.contains("Node ");
    eventually("the other node shows it", || parked(&today(&first)));
    assert!(!parked(&today(&second)), "its own page has it as its own");

    // Who bought at one node is found at the other by a part of the address, in which `_` and `%` mean themselves.
    let mut sale = invoice("in_2", "subscription_create", "price_small", 1, 30);
    sale["customer_email"] = json!("Zoë_100%@Buyer.example");
    assert_eq!(deliver(&second.server, "invoice.paid", 2, &sale), 200);
    let finds = |door: &Door, wanted: &str| page(door, &format!("/licenses?q={wanted}")).contains("Buyer.example");
    eventually("it is sold", || finds(&first, "zoe_100%25@"));
    assert!(finds(&second, "00%25@buyer"));
    for other in ["zoe%25", "zoe_1__%25", "%25%25", "zoe%5C_100", "zoe%00"] {
        assert!(!finds(&first, other), "{other}");
    }

    // A node that does not run is named with what waits on it.
    second.server.kill();
    let silent =
        "UPDATE countersign.nodes SET seen = seen - interval '2 minutes' WHERE queues->>'deliveries_parked' = '1'";
    cluster.psql(silent);
    let page = today(&first);
    assert!(parked(&page) && page.contains("it does not run"), "{page}");
}

#[test]
fn two_nodes_take_each_others_sessions_and_obey_each_others_ends() {
    let cluster = prepared_cluster();
    let url = cluster.url("node");
    let mail = MailServer::start("none");
    let nodes = [Instance::issuing(&[]), Instance::issuing(&[])];
    for instance in &nodes {
        let settings = format!(
            "[desk]\nlisten = \"127.0.0.1:0\"\n[mail]\nserver = \"127.0.0.1\"\nport = {}\ntls = \"none\"\nfrom = \"shop@acme.example\"\n",
            mail.port
        );
        instance.write("countersign.toml", &settings);
        instance.write(
            "registry/desk.toml",
            &format!("[[person]]\nname = 'Anna'\naddress = '{ANNA}'\nrole = 'admin'\n"),
        );
    }
    fs::copy(nodes[0].file("keys/signing.pem"), nodes[1].file("keys/signing.pem")).unwrap();
    let first = Door::open(&nodes[0], &url);
    let second = Door::open(&nodes[1], &url);

    // A code works once, at either node.
    let (path, code) = ask(&first, &mail);
    let form = format!("code={code}");
    let both = std::thread::scope(|scope| {
        let tries = [&first, &second].map(|door| scope.spawn(|| door.send("POST", &path, "", &form)));
        tries.map(|tried| tried.join().unwrap())
    });
    let mut statuses = both.each_ref().map(|answer| answer.status);
    statuses.sort_unstable();
    assert_eq!(statuses, [303, 410]);
    let signed_in = both.iter().find(|answer| answer.status == 303).unwrap();
    let cookie = signed_in
        .header("set-cookie")
        .unwrap()
        .split(';')
        .next()
        .unwrap()
        .to_owned();
    assert!(first.knows(&cookie) && second.knows(&cookie));

    // A code that was tried too often at one is over at the other.
    let (path, code) = ask(&first, &mail);
    for _ in 0..5 {
        assert_eq!(first.send("POST", &path, "", "code=00000000").status, 422);
    }
    let form = format!("code={code}");
    eventually("it is over", || second.send("POST", &path, "", &form).status == 410);

    // Signed out at one, out at the other, also after a restart.
    let (path, code) = ask(&second, &mail);
    let again = second.send("POST", &path, "", &format!("code={code}"));
    let other = again
        .header("set-cookie")
        .unwrap()
        .split(';')
        .next()
        .unwrap()
        .to_owned();
    assert!(first.knows(&other));
    assert_eq!(first.send("POST", "/sign-out", &cookie, "").status, 303);
    assert!(!first.knows(&cookie));
    eventually("the other obeys", || !second.knows(&cookie));
    assert!(first.knows(&other) && second.knows(&other), "another session stays");
    let people = second.send("GET", "/people", &other, "").text();
    let everywhere = people
        .split("action=\"/people/")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    assert_eq!(
        second.send("POST", &format!("/people/{everywhere}"), &other, "").status,
        303
    );
    assert!(!second.knows(&other));
    eventually("the other obeys", || !first.knows(&other));
    assert!(first.server.stop().success());
    let first = Door::open(&nodes[0], &url);
    assert!(!first.knows(&cookie) && !first.knows(&other));
    assert!(first.server.stop().success() && second.server.stop().success());
}
