//! Nodes that share one ledger: an instance and a process for each, and clients that go to the next node after a
//! failure, as behind a load balancer.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard};

use serde_json::Value;

use crate::support::http::Client as Connection;
use crate::support::instance::question;
use crate::support::linear::What;
use crate::support::server::{countersign, updates};
use crate::support::{Instance, License, Server};

/// The hosts of each license, by its id, in the order of the ledger.
pub type Ledger = BTreeMap<String, Vec<String>>;

/// A node: its folder, and its process while it runs.
pub struct Node {
    instance: Instance,
    store: String,
    server: Mutex<Option<Server>>,
}

impl Node {
    /// A running one with these licenses, on the database at `store`.
    pub fn start(licenses: &[String], store: String) -> Self {
        let node = Self {
            instance: Instance::with_licenses(licenses),
            store,
            server: Mutex::default(),
        };
        node.restart();
        node
    }

    /// Starts its process; one that runs is killed.
    pub fn restart(&self) {
        let flags = ["--store", &self.store, "--signing-queue", "1024"];
        let server = Server::start_command(countersign(&self.instance), &flags);
        *self.server() = Some(server);
    }

    /// kill -9.
    pub fn kill(&self) {
        self.server().take().expect("it runs").kill();
    }

    /// Where it listens, if it runs.
    pub fn address(&self) -> Option<SocketAddr> {
        self.server().as_ref().map(|server| server.address)
    }

    fn server(&self) -> MutexGuard<'_, Option<Server>> {
        self.server.lock().unwrap()
    }
}

/// Reads the whole ledger, after every transaction that has begun to append. No line is missing, and none is there twice.
pub fn ledger(psql: impl Fn(&str) -> String) -> Ledger {
    let lines = psql(
        "DO 'BEGIN PERFORM 1 FROM countersign.head FOR UPDATE; END'; \
         SELECT line FROM countersign.ledger ORDER BY sequence",
    );
    let mut ledger = Ledger::new();
    let mut seen = BTreeSet::new();
    for (line, number) in lines.lines().zip(1..) {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["sequence"], number);
        let text = |member: &str| line[member].as_str().unwrap().to_owned();
        let license = text("license");
        let host = text("host");
        assert!(seen.insert((license.clone(), host.clone())), "{line} is there twice");
        ledger.entry(license).or_default().push(host);
    }
    ledger
}

/// A client of all nodes. It stays with one until that fails.
pub struct Client<'a> {
    nodes: &'a [Node],
    /// The node it asks.
    pub at: usize,
    connection: Option<Connection>,
}

impl<'a> Client<'a> {
    /// One that begins with the node of its number.
    pub fn new(nodes: &'a [Node], number: usize) -> Self {
        Self {
            nodes,
            at: number % nodes.len(),
            connection: None,
        }
    }

    /// Asks to bind a host.
    pub fn bind(&mut self, license: &License, host: &str) -> What {
        let body = question(license, host).to_string();
        let json = [("Content-Type", "application/json")];
        let answer = self.ask("POST", "/api/v1/validate-license", &json, body.as_bytes());
        let unknown = || What::Unknown(host.to_owned());
        let Some((status, answer)) = answer else {
            return unknown();
        };
        match (status, answer["code"].as_str().unwrap_or_default()) {
            (200, "ok") => What::Bound(host.to_owned()),
            (200, "bound_elsewhere") => {
                What::Elsewhere(host.to_owned(), answer["bound_domain"].as_str().unwrap().to_owned())
            }
            (503, _) => {
                self.go_on();
                unknown()
            }
            _ => panic!("{status}: {answer}"),
        }
    }

    /// Whether a host gets updates; the error says what came instead.
    pub fn update(&mut self, license: &License, host: &str) -> Result<(), String> {
        match self.ask("GET", &updates("acme-forms", license, host, ""), &[], b"") {
            Some((200, _)) => Ok(()),
            Some((status, answer)) => Err(format!("{host}: {status} {answer}")),
            None => Err(format!("{host}: no answer")),
        }
    }

    fn ask(&mut self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Option<(u16, Value)> {
        if self.connection.is_none() {
            let address = self.nodes[self.at].address();
            self.connection = address.and_then(|address| Connection::try_connect(address).ok());
        }
        let answer = self.connection.as_mut().and_then(|connection| {
            let answer = connection.try_request(method, target, headers, body).ok()?;
            // A body that was cut is no answer.
            Some((answer.status, serde_json::from_slice(&answer.body).ok()?))
        });
        if answer.is_none() {
            self.go_on();
        }
        answer
    }

    fn go_on(&mut self) {
        self.connection = None;
        self.at = (self.at + 1) % self.nodes.len();
    }
}
