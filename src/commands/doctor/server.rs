//! Checks the running server: `/readyz`, with each part's state.
//!
//! The store's lock tells whether a server runs on this instance. Then its admin listener is asked, within a time
//! limit.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use serde::Deserialize;

use crate::commands::doctor::finding::{Finding, broken, ok, warning};
use crate::commands::doctor::node_lag;
use crate::commands::running_server;
use crate::config::{AdminListen, Paths};
use crate::store::{self, StoreSource};
use crate::text::printable::Printable;

/// How long the server may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

const ADDRESS: &str = "give its admin address with --admin-listen or in countersign.toml";

/// The answer of `/readyz`; unknown fields are ignored.
#[derive(Debug, Deserialize)]
struct ServerReadiness {
    ready: bool,
    parts: BTreeMap<String, ServerPart>,
}

#[derive(Debug, Deserialize)]
struct ServerPart {
    state: String,
    since: String,
    #[serde(default)]
    detail: Option<String>,
    #[serde(default)]
    ledger: Option<ServerLedger>,
}

/// How far a node has read the shared ledger.
#[derive(Debug, Deserialize)]
struct ServerLedger {
    sequence: u64,
}

/// Whether a server runs on this instance, and its state. A node should have read the `last_line` of its database.
pub(super) fn findings(admin: AdminListen, paths: &Paths, last_line: Option<u64>) -> Vec<Finding> {
    // A database does not tell whether a node runs here.
    if let (Some(_), AdminListen::At(address)) = (&paths.database, admin) {
        let Ok(readiness) = ask(address) else {
            return vec![ok("server", "not running")];
        };
        let mut findings = said(address, readiness);
        findings.extend(last_line.and_then(|line| node_lag::finding(line, || line_read(address))));
        return findings;
    }
    let runs = store::read_only(StoreSource::Folder(&paths.store)).is_ok_and(|store| store.is_in_use());
    let AdminListen::At(address) = admin else {
        return vec![match runs {
            true => warning("server", "running, but not checked: its admin listener is off", ADDRESS),
            false => ok("server", "not running"),
        }];
    };
    match (runs, ask(address)) {
        (true, Ok(readiness)) => said(address, readiness),
        (true, Err(reason)) => {
            let finding = format!("a server uses the store, but {address} does not answer: {reason}");
            vec![broken("server", finding, Some(format!("see its log; {ADDRESS}")))]
        }
        (false, Ok(_)) => {
            let finding = format!("the server on {address} does not use this instance's store");
            vec![warning(
                "server",
                finding,
                "it serves another instance; give each instance its own admin_listen",
            )]
        }
        (false, Err(_)) => vec![ok("server", "not running")],
    }
}

fn said(address: SocketAddr, ServerReadiness { ready, parts }: ServerReadiness) -> Vec<Finding> {
    let mut findings = vec![match ready {
        true => ok("server", format!("ready, says {address}")),
        false => broken("server", format!("not ready, says {address}"), None),
    }];
    for (name, part) in parts.into_iter().filter(|(_, part)| part.state != "ok") {
        let ServerPart {
            state, since, detail, ..
        } = part;
        let detail = detail.map_or(String::new(), |detail| format!(": {}", Printable(&detail)));
        let finding = format!(
            "{} is {} since {}{detail}",
            Printable(&name),
            Printable(&state),
            Printable(&since)
        );
        findings.push(match (ready, state.as_str()) {
            (true, "stale") => warning(
                "server",
                finding,
                "the server uses the last good version; a restart may fail",
            ),
            (true, _) => warning("server", finding, "see the server's log"),
            (false, _) => broken("server", finding, None),
        });
    }
    findings
}

/// The last line that the node on this address has read; `None` if it shares no ledger, or does not answer.
fn line_read(address: SocketAddr) -> Option<u64> {
    let readiness = ask(address).ok()?;
    let ledger = readiness.parts.get("store")?.ledger.as_ref()?;
    Some(ledger.sequence)
}

fn ask(address: SocketAddr) -> Result<ServerReadiness, String> {
    let body = running_server::ask(address, PATIENCE)?;
    serde_json::from_slice(&body).map_err(|_| "the answer is not from countersign".to_owned())
}
