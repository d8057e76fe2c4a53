//! Checks the running server: each part's state, as on `/readyz`.
//!
//! The lock of the store, or of the node's folder, tells whether a server runs on this instance. Then it is asked. A node should have
//! read the ledger up to the line that `database` read before; `nodes` checks the other nodes.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::build::counted;
use crate::commands::doctor::finding::{Finding, broken, ok, warning};
use crate::commands::server_questions::{self, NO_SOCKET, QuestionError};
use crate::serve::ops::admin_socket::ConnectError;
use crate::serve::ops::commands::ServerGreeting;
use countersign_model::text::ErrorChain;
use countersign_model::text::printable::Printable;
use countersign_settings::config::Config;

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
pub(super) fn findings(config: &Config, last_line: Option<u64>) -> Vec<Finding> {
    let runs = countersign_ledger::is_in_use(&config.paths.store);
    match ask(config) {
        Ok((greeting, readiness)) => {
            let mut findings = said(&greeting, readiness);
            findings.extend(last_line.and_then(|line| lag(line, || line_read(config))));
            findings
        }
        Err(error) if !runs && error.may_mean_no_server() => {
            vec![warning(
                "server",
                "not running",
                "start it with `countersign serve`, or as a service",
            )]
        }
        Err(error) => {
            let reason = ErrorChain(&error).first_line();
            let finding = match runs {
                true => format!("running, but not checked: {reason}"),
                false => reason,
            };
            // Sites are served all the same.
            let is_missing = matches!(error, QuestionError::Connect(ConnectError::Missing(_)));
            vec![match is_missing {
                true => warning("server", finding, NO_SOCKET),
                false => broken(
                    "server",
                    finding,
                    Some("see its log, and who owns the socket and its folder".to_owned()),
                ),
            }]
        }
    }
}

fn said(greeting: &ServerGreeting, ServerReadiness { ready, parts }: ServerReadiness) -> Vec<Finding> {
    let version = Printable(&greeting.version);
    let mut findings = vec![match ready {
        true => ok("server", format!("ready, version {version}")),
        false => broken("server", format!("not ready, version {version}"), None),
    }];
    if greeting.version != env!("CARGO_PKG_VERSION") {
        let finding = format!(
            "its version is {version}, and this command's is {}",
            env!("CARGO_PKG_VERSION")
        );
        findings.push(warning(
            "server",
            finding,
            "restart the server with the version that is installed",
        ));
    }
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

/// The last line that the node has read; `None` if it shares no ledger, or does not answer.
fn line_read(config: &Config) -> Option<u64> {
    let (_, readiness) = ask(config).ok()?;
    let ledger = readiness.parts.get("store")?.ledger.as_ref()?;
    Some(ledger.sequence)
}

fn ask(config: &Config) -> Result<(ServerGreeting, ServerReadiness), QuestionError> {
    let (greeting, body) = server_questions::readiness(config)?;
    match serde_json::from_slice(&body) {
        Ok(readiness) => Ok((greeting, readiness)),
        Err(_) => Err(QuestionError::OtherVersion {
            socket: config.admin_socket(),
            server: greeting.version,
        }),
    }
}

/// How long the node may take. It looks four times a second.
const CATCH_UP: Duration = Duration::from_secs(3);

/// The time between two questions.
const PAUSE: Duration = Duration::from_millis(100);

const PART: &str = "server";

/// What to say if the database has the line `last_line`. `ask` tells the last line that the node has read; where it tells
/// none, there is nothing to compare.
fn lag(last_line: u64, mut ask: impl FnMut() -> Option<u64>) -> Option<Finding> {
    let begun = Instant::now();
    loop {
        let read = ask()?;
        if read >= last_line {
            return Some(ok(PART, format!("has read the ledger up to line {read}")));
        }
        if begun.elapsed() > CATCH_UP {
            return Some(warning(
                PART,
                format!(
                    "{} behind: has read the ledger up to line {read}, and the database has line {last_line}",
                    counted(last_line - read, "line")
                ),
                "look at its log, and at the network between this machine and the database",
            ));
        }
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::finding::Severity;

    #[test]
    fn a_node_has_a_moment_to_read_the_last_line() {
        let mut positions = [5, 6, 7].into_iter();
        let found = lag(7, || positions.next()).unwrap();
        assert_eq!(
            (found.verdict, found.finding.as_str()),
            (Severity::Ok, "has read the ledger up to line 7")
        );
        // Others may have appended since.
        let found = lag(7, || Some(9)).unwrap();
        assert_eq!(found.verdict, Severity::Ok);
        assert!(lag(7, || None).is_none());
    }
}
