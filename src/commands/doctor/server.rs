//! Asks the running server: what `/readyz` says, each part with its state.
//!
//! Whether a server has this instance, its store tells: it is locked. The admin listener is then asked, within a time limit.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::TcpStream;

use super::{Finding, broken, ok, warning};
use crate::config::AdminListen;
use crate::model::printable::Printable;
use crate::store;

/// How long the server may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// More than any answer of `/readyz`, in bytes.
const MAX_ANSWER: usize = 256 << 10;

const ADDRESS: &str = "name its admin listener with --admin-listen or in countersign.toml";

/// What `/readyz` answers; what is new in it is passed over.
#[derive(Debug, Deserialize)]
struct Readiness {
    ready: bool,
    parts: BTreeMap<String, Part>,
}

#[derive(Debug, Deserialize)]
struct Part {
    state: String,
    since: String,
    #[serde(default)]
    detail: Option<String>,
}

/// Whether a server runs on this instance, and what it says of itself.
pub(super) fn findings(admin: AdminListen, store: &Path) -> Vec<Finding> {
    let runs = store::read_only(store).is_ok_and(|store| store.is_in_use());
    let AdminListen::At(address) = admin else {
        return vec![match runs {
            true => warning("server", "it runs, and cannot be asked: its admin listener is off", ADDRESS),
            false => ok("server", "none runs on this instance"),
        }];
    };
    match (runs, ask(address)) {
        (true, Ok(readiness)) => said(address, readiness),
        (true, Err(reason)) => {
            let finding = format!("one has the store, and {address} gives no answer: {reason}");
            vec![broken("server", finding, Some(format!("look at its log; {ADDRESS}")))]
        }
        (false, Ok(_)) => {
            let finding = format!("what answers on {address} has not opened this instance's store");
            vec![warning("server", finding, "it serves another instance; give each an admin_listen of its own")]
        }
        (false, Err(_)) => vec![ok("server", "none runs on this instance")],
    }
}

fn said(address: SocketAddr, Readiness { ready, parts }: Readiness) -> Vec<Finding> {
    let mut findings = vec![match ready {
        true => ok("server", format!("ready, says {address}")),
        false => broken("server", format!("not ready, says {address}"), None),
    }];
    for (name, Part { state, since, detail }) in parts.into_iter().filter(|(_, part)| part.state != "ok") {
        let detail = detail.map_or(String::new(), |detail| format!(": {}", Printable(&detail)));
        let finding = format!("{} is {} since {}{detail}", Printable(&name), Printable(&state), Printable(&since));
        findings.push(match (ready, state.as_str()) {
            (true, "stale") => warning("server", finding, "the last good version is served; a restart may fail"),
            (true, _) => warning("server", finding, "look at the server's log"),
            (false, _) => broken("server", finding, None),
        });
    }
    findings
}

fn ask(address: SocketAddr) -> Result<Readiness, String> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    let answer = runtime.block_on(async { tokio::time::timeout(PATIENCE, get(address)).await });
    let body = answer.map_err(|_| format!("not within {} seconds", PATIENCE.as_secs()))??;
    serde_json::from_slice(&body).map_err(|_| "what answers there is no countersign".to_owned())
}

async fn get(address: SocketAddr) -> Result<Bytes, String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let stream = TcpStream::connect(address).await.map_err(|error| told(&error))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| told(&error))?;
    let driver = tokio::spawn(connection);
    let request = hyper::Request::get("/readyz").header("Host", address.to_string());
    let request = request.body(Empty::<Bytes>::new()).map_err(|error| told(&error))?;
    let response = sender.send_request(request).await.map_err(|error| told(&error))?;
    let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await.map_err(|error| told(&error))?;
    driver.abort();
    Ok(body.to_bytes())
}
