//! Asks a running server for its state through its admin listener, within a time limit.

use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::TcpStream;

use crate::serve::FilesSeen;

/// Time limit of one answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The time between two requests.
const PAUSE: Duration = Duration::from_millis(50);

/// Size limit of `/readyz`'s answer in bytes.
const MAX_ANSWER: usize = 256 << 10;

/// Why it is unknown whether the server uses a change.
#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    /// There is no answer.
    #[error("no answer from a server on {address}: {reason}")]
    NoServer {
        /// The address.
        address: SocketAddr,
        /// Why.
        reason: String,
    },
    /// The answer is not from a server, or does not name a registry.
    #[error("the answer from {0} does not say which registry it serves")]
    NotTold(SocketAddr),
    /// The answer is from the server of another instance.
    #[error("the server on {address} serves another registry: {registry}")]
    Another {
        /// The address.
        address: SocketAddr,
        /// Its registry.
        registry: String,
    },
    /// The server does not use the change in time.
    #[error("the server on {address} has not reloaded the change within {} s{}", limit.as_secs(),
        detail.as_ref().map_or(String::new(), |detail| format!(": {detail}")))]
    TooLong {
        /// The address.
        address: SocketAddr,
        /// The time limit.
        limit: Duration,
        /// The registry's state according to the server.
        detail: Option<String>,
    },
}

/// The used fields of `/readyz`.
#[derive(Debug, Deserialize)]
struct ReadinessReply {
    parts: ReadyParts,
}

#[derive(Debug, Deserialize)]
struct ReadyParts {
    registry: RegistryPart,
}

#[derive(Debug, Deserialize)]
struct RegistryPart {
    #[serde(default)]
    detail: Option<String>,
    #[serde(default)]
    files: Option<String>,
    #[serde(default)]
    in_force: Option<String>,
}

/// Returns when the server uses the current files of the folder `registry`.
pub fn wait_for_registry(address: SocketAddr, registry: &Path, limit: Duration) -> Result<(), WaitError> {
    let deadline = Instant::now() + limit;
    loop {
        let said = ask(address, limit.min(PATIENCE)).map_err(|reason| WaitError::NoServer { address, reason })?;
        let said: ReadinessReply = serde_json::from_slice(&said).map_err(|_| WaitError::NotTold(address))?;
        let RegistryPart {
            detail,
            files,
            in_force,
        } = said.parts.registry;
        // Computed each time, because another command may have changed more meanwhile.
        let seen = FilesSeen::of(registry);
        match files {
            None => return Err(WaitError::NotTold(address)),
            Some(files) if files != seen.path.to_string_lossy() => {
                return Err(WaitError::Another {
                    address,
                    registry: files,
                });
            }
            Some(_) if in_force.as_deref() == Some(&seen.fingerprint) => return Ok(()),
            Some(_) if Instant::now() >= deadline => return Err(WaitError::TooLong { address, limit, detail }),
            Some(_) => thread::sleep(PAUSE),
        }
    }
}

/// The answer of `/readyz`, whatever its status is; a reason if there is none within `limit`.
pub fn ask(address: SocketAddr, limit: Duration) -> Result<Bytes, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let answer = runtime.block_on(async { tokio::time::timeout(limit, get(address)).await });
    answer.map_err(|_| format!("not within {} s", limit.as_secs()))?
}

async fn get(address: SocketAddr) -> Result<Bytes, String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let stream = TcpStream::connect(address).await.map_err(|error| told(&error))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| told(&error))?;
    let driver = tokio::spawn(connection);
    let request = hyper::Request::get("/readyz").header("Host", address.to_string());
    let request = request.body(Empty::<Bytes>::new()).map_err(|error| told(&error))?;
    let response = sender.send_request(request).await.map_err(|error| told(&error))?;
    let body = Limited::new(response.into_body(), MAX_ANSWER)
        .collect()
        .await
        .map_err(|error| told(&error))?;
    driver.abort();
    Ok(body.to_bytes())
}
