//! A client of several nodes that goes to the next one after a failure, as behind a load balancer.

use countersign_model::digest::Digest;
use serde_json::{Value, json};

use super::node::Node;
use crate::support::License;
use crate::support::http::Client as Connection;
use crate::support::instance::question;
use crate::support::linear::What;
use crate::support::server::updates;

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
        self.bind_with(&question(license, host), host)
    }

    fn bind_with(&mut self, question: &Value, host: &str) -> What {
        let body = question.to_string();
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

    /// The same, with the secret that the host has, if it has one.
    pub fn bind_guarded(&mut self, license: &License, host: &str) -> What {
        let mut question = question(license, host);
        if let Some(secret) = secret_of(host) {
            question["release_hash"] = Digest::of(secret.as_bytes()).to_string().into();
        }
        self.bind_with(&question, host)
    }

    /// Asks to release a host, with its secret if it has one.
    pub fn release(&mut self, license: &License, host: &str) -> What {
        let mut body = json!({ "license_key": license.key, "site_url": host });
        if let Some(secret) = secret_of(host) {
            body["release_secret"] = secret.into();
        }
        let json = [("Content-Type", "application/json")];
        let answer = self.ask("POST", "/api/v1/release-site", &json, body.to_string().as_bytes());
        let host = host.to_owned();
        let Some((status, answer)) = answer else {
            return What::UnknownRelease(host);
        };
        match (status, answer["code"].as_str().unwrap_or_default()) {
            (200, "released") => What::Released(host),
            (403, "license_not_bound") => What::NotBound(host),
            (403, "too_many_moves") => What::TooManyMoves(host),
            (503, _) => {
                self.go_on();
                What::UnknownRelease(host)
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

/// What releases a host: every second one has a secret, and the others have the key alone.
fn secret_of(host: &str) -> Option<String> {
    let number = host.bytes().rfind(u8::is_ascii_digit)?;
    (number % 2 == 1).then(|| format!("the secret of {host}"))
}
