//! Signs one message and brings it to an endpoint, on a connection of its own: HTTP/1.1, TLS for `https`. Follows no redirect.
//!
//! Each message has a time limit, and at most 16 KiB of an answer are read.

use std::io;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::Utc;
use hmac::{Hmac, Mac as _};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Request, StatusCode};
use sha2::Sha256;
use tokio::time::timeout;

use crate::webhook::event::WebhookEvent;
use countersign_settings::config::WebhookConfig;
use countersign_settings::http_client::{self, Trust};
use countersign_settings::keys::service_secrets::ServiceSecretError;
use countersign_settings::keys::webhook_secrets::{self, WebhookSecret};

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
    let secrets = webhook_secrets::read(&endpoint.name, &endpoint.secret_file).map_err(PostError::Secret)?;
    let url = endpoint.url.as_url();
    let id = format!("msg_{}", event.id);
    let seconds = Utc::now().timestamp();
    let request = Request::post(http_client::path(url))
        .header(HOST, http_client::host(url))
        .header(USER_AGENT, http_client::USER_AGENT)
        .header(CONTENT_TYPE, "application/json")
        .header("webhook-id", &id)
        .header("webhook-timestamp", seconds)
        .header("webhook-signature", signature(&secrets, &id, seconds, &event.body))
        .body(Full::new(Bytes::from(event.body.clone())));
    let failed = |reason: io::Error| PostError::Connection {
        origin: endpoint.url.origin(),
        reason,
    };
    let request = request.map_err(|error| failed(io::Error::other(error)))?;
    let certificates = Trust {
        file: endpoint.certificates.as_deref(),
        setting: "certificates to the table of this webhook",
    };
    let answered = timeout(PATIENCE, http_client::send(url, certificates, request, MAX_ANSWER)).await;
    let (status, _) = answered
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

/// The header `webhook-signature`: HMAC-SHA256 over id, time and body by each secret (Standard Webhooks, "Signature scheme").
/// `seconds` is the header `webhook-timestamp`.
fn signature(secrets: &[WebhookSecret], id: &str, seconds: i64, body: &str) -> String {
    let signed: Vec<_> = secrets
        .iter()
        .filter_map(|secret| {
            let mut mac = Hmac::<Sha256>::new_from_slice(secret.bytes()).ok()?;
            mac.update(format!("{id}.{seconds}.{body}").as_bytes());
            Some(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
        })
        .collect();
    signed.join(" ")
}
