//! HTTP/1.1 as a client: one request on a connection of its own, with TLS for `https`. Follows no redirect.
//!
//! Webhooks are posted, and a shop is asked, through here. There is no time limit: each caller has one.

use std::io;
use std::path::Path;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use url::{Position, Url};

use crate::tls_client;

/// What the header `User-Agent` says.
pub const USER_AGENT: &str = concat!("countersign/", env!("CARGO_PKG_VERSION"));

/// The certificates that are trusted.
#[derive(Clone, Copy, Debug)]
pub struct Trust<'a> {
    /// A file in PEM; `None` for those of the system.
    pub file: Option<&'a Path>,
    /// Where a person names such a file.
    pub setting: &'static str,
}

/// What the header `Host` says.
pub fn host(url: &Url) -> &str {
    &url[Position::BeforeHost..Position::AfterPort]
}

/// The path and the query.
pub fn path(url: &Url) -> &str {
    &url[Position::BeforePath..Position::AfterQuery]
}

/// Sends a request, and gives the status and the body of the answer. A body that is longer than `limit` bytes or
/// breaks off is given empty.
///
/// # Errors
/// No connection, no TLS, or no answer in HTTP.
pub async fn send(
    url: &Url,
    trust: Trust<'_>,
    request: Request<Full<Bytes>>,
    limit: usize,
) -> io::Result<(StatusCode, Bytes)> {
    let host = url.host_str().unwrap_or_default();
    // An IPv6 address is in brackets.
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let port = url.port_or_known_default().unwrap_or(443);
    let stream = TcpStream::connect((name, port)).await?;
    match url.scheme() {
        "https" => {
            let config = tls_client::config(trust.file, trust.setting)?;
            exchange(tls_client::handshake(config, name, stream).await?, request, limit).await
        }
        _ => exchange(stream, request, limit).await,
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
    limit: usize,
) -> io::Result<(StatusCode, Bytes)> {
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    let driven = tokio::spawn(connection);
    let answer = sender.send_request(request).await.map_err(io::Error::other);
    let answered = match answer {
        Ok(answer) => {
            let status = answer.status();
            // Read in any case, so that the other side sees its answer taken.
            let body = Limited::new(answer.into_body(), limit).collect().await;
            Ok((
                status,
                body.map(http_body_util::Collected::to_bytes).unwrap_or_default(),
            ))
        }
        Err(error) => Err(error),
    };
    driven.abort();
    answered
}
