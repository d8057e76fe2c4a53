//! Brings one message to an endpoint, on a connection of its own: HTTP/1.1, TLS for `https`. Follows no redirect.
//!
//! Each message has a time limit, and at most 16 KiB of an answer are read.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use chrono::Utc;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper::header::{CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use url::Url;

use crate::config::WebhookConfig;
use crate::keys::service_secrets::ServiceSecretError;
use crate::keys::webhook_secrets;
use crate::tls_client;
use crate::webhook::event::WebhookEvent;
use crate::webhook::signing;

/// How long a message may take, the connection included. Standard Webhooks suggests 15 to 30 s.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// What of an answer's body is read, in bytes.
const MAX_ANSWER: usize = 16 << 10;

/// Why a message was not taken, in one line. Says neither the path of the URL nor anything of the answer's body.
#[derive(Debug, thiserror::Error)]
pub enum PostError {
    /// The secret cannot be read.
    #[error(transparent)]
    Secret(ServiceSecretError),
    /// No connection, no TLS, or no answer in HTTP.
    #[error("{origin}: {reason}")]
    Connection {
        /// Scheme, host and port.
        origin: String,
        /// Why. Part of the message, so it is not a source.
        reason: io::Error,
    },
    /// No answer in time.
    #[error("{origin}: no answer within {} s", PATIENCE.as_secs())]
    Silent {
        /// Scheme, host and port.
        origin: String,
    },
    /// An answer that is not 2xx.
    #[error("{origin}: answered {status}")]
    Refused {
        /// Scheme, host and port.
        origin: String,
        /// The status.
        status: StatusCode,
    },
}

impl PostError {
    /// Whether the endpoint refused this message, and may take the next one. All else is about the endpoint: then every
    /// message waits.
    pub fn is_about_the_message(&self) -> bool {
        let Self::Refused { status, .. } = self else {
            return false;
        };
        let of_endpoint = [
            StatusCode::UNAUTHORIZED,
            StatusCode::FORBIDDEN,
            StatusCode::NOT_FOUND,
            StatusCode::METHOD_NOT_ALLOWED,
            StatusCode::REQUEST_TIMEOUT,
            StatusCode::GONE,
            StatusCode::TOO_EARLY,
            StatusCode::TOO_MANY_REQUESTS,
        ];
        status.is_client_error() && !of_endpoint.contains(status)
    }
}

/// Posts a message; returns when the endpoint has answered 2xx.
///
/// # Errors
/// It was not taken, or nobody knows: the endpoint may have it, and gets it again with the same id.
pub async fn post(endpoint: &WebhookConfig, event: &WebhookEvent) -> Result<StatusCode, PostError> {
    let secrets = webhook_secrets::read(&endpoint.secret_file).map_err(PostError::Secret)?;
    let url = endpoint.url.as_url();
    let id = format!("msg_{}", event.id);
    let seconds = Utc::now().timestamp();
    let request = Request::post(&url[url::Position::BeforePath..url::Position::AfterQuery])
        .header(HOST, &url[url::Position::BeforeHost..url::Position::AfterPort])
        .header(USER_AGENT, concat!("countersign/", env!("CARGO_PKG_VERSION")))
        .header(CONTENT_TYPE, "application/json")
        .header("webhook-id", &id)
        .header("webhook-timestamp", seconds)
        .header(
            "webhook-signature",
            signing::signature(&secrets, &id, seconds, &event.body),
        )
        .body(Full::new(Bytes::from(event.body.clone())));
    let failed = |reason: io::Error| PostError::Connection {
        origin: endpoint.url.origin(),
        reason,
    };
    let request = request.map_err(|error| failed(io::Error::other(error)))?;
    let answered = timeout(PATIENCE, exchange(url, endpoint.certificates.clone(), request)).await;
    let status = answered
        .map_err(|_| PostError::Silent {
            origin: endpoint.url.origin(),
        })?
        .map_err(failed)?;
    match status.is_success() {
        true => Ok(status),
        false => Err(PostError::Refused {
            origin: endpoint.url.origin(),
            status,
        }),
    }
}

async fn exchange(url: &Url, certificates: Option<PathBuf>, request: Request<Full<Bytes>>) -> io::Result<StatusCode> {
    let host = url.host_str().unwrap_or_default();
    // An IPv6 address stands in brackets.
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let port = url.port_or_known_default().unwrap_or(443);
    let stream = TcpStream::connect((name, port)).await?;
    match url.scheme() {
        "https" => {
            let config = tls_client::config(certificates.as_deref(), "certificates to the table of this webhook")?;
            send(tls_client::handshake(config, name, stream).await?, request).await
        }
        _ => send(stream, request).await,
    }
}

async fn send(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> io::Result<StatusCode> {
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    let driven = tokio::spawn(connection);
    let answer = sender.send_request(request).await.map_err(io::Error::other);
    let status = match answer {
        Ok(answer) => {
            let status = answer.status();
            // Read, so that the other side sees its answer taken; what it says does not matter.
            let _ = Limited::new(answer.into_body(), MAX_ANSWER).collect().await;
            Ok(status)
        }
        Err(error) => Err(error),
    };
    driven.abort();
    status
}
