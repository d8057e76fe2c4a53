//! A commit whose answer is lost: the node finds its own lines in the log, and answers what it decided with them.

use std::process::Output;

use serde_json::json;

use super::database::prepared_cluster;
use super::fault_proxy::{AtCommit, FaultProxy};
use super::management::{run, send};
use super::node::{code, instance, start};
use crate::support::http::{Response, request};
use crate::support::instance::{Instance, License};
use crate::support::issued::license_of;
use crate::support::server::Server;

/// A node whose connection to the database can break at a commit.
struct Shop {
    _instance: Instance,
    server: Server,
    proxy: FaultProxy,
    bearer: String,
}

impl Shop {
    /// Answers of the next question whose commit the database carries out without its node hearing of it.
    fn unheard(&self, ask: impl FnOnce(&Self) -> Response) -> Response {
        self.proxy.at_commit(1, AtCommit::CutAfter);
        let answer = ask(self);
        assert!(!self.proxy.is_armed(), "no commit was cut");
        answer
    }

    fn change(&self, license: &License, revision: &str, sites: u32) -> Response {
        let headers = [("Authorization", &*self.bearer), ("If-Match", revision)];
        let body = json!({ "sites": sites }).to_string();
        let target = format!("/api/v1/licenses/{}", license.id);
        request(self.server.address, "PATCH", &target, &headers, body.as_bytes())
    }
}

#[test]
fn a_change_whose_commit_nobody_confirmed_is_answered_as_what_it_did() {
    let cluster = prepared_cluster();
    let instance = instance(&[&License::new()]);
    let proxy = FaultProxy::start(cluster.port);
    let store = cluster.url("node");
    for key in ["--issuing", "--references"] {
        run(&instance, &store, &["keys", "generate", key]);
    }
    let create = ["token", "create", "shop", "--scope", "licenses:write"];
    let Output { stdout: token, .. } = run(&instance, &store, &create);
    let bearer = format!("Bearer {}", String::from_utf8(token).unwrap().trim());
    let server = start(&instance, &proxy.url("node"));
    let shop = Shop {
        _instance: instance,
        server,
        proxy,
        bearer,
    };
    let body = json!({ "modules": { "forms": [] }, "expires": "never" });
    // The first use of the token on a day has a line of its own.
    let first = send(&shop.server, &shop.bearer, "POST", "", "0", &body);
    assert_eq!(first.status, 201, "{}", first.text());

    let sold = shop.unheard(|shop| send(&shop.server, &shop.bearer, "POST", "", "1", &body));
    assert_eq!(sold.status, 201, "issued, and not a retry: {}", sold.text());
    let license = license_of(&sold);
    let changed = shop.unheard(|shop| shop.change(&license, "\"1\"", 3));
    assert_eq!(
        (changed.status, changed.header("etag")),
        (200, Some("\"2\"")),
        "{}",
        changed.text()
    );
    assert_eq!(shop.change(&license, "\"1\"", 4).status, 412, "somebody else's change");
    let bound = shop.unheard(|shop| shop.server.validate(&license, "a.com"));
    assert_eq!(code(&bound), "ok");
    let lines = cluster.psql("SELECT count(*) FROM countersign.ledger WHERE line LIKE '%\"event\":\"license\"%'");
    assert_eq!(lines, "3", "nothing was written twice");
}
