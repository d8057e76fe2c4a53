//! Asks the running server of a store through its admin listener: what sites reported, page by page, and for changes of the
//! ledger.
//!
//! [`admin_file`] says where, and has the token. Every wait has an end.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::Method;
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::commands::Failure;
use crate::commands::admin_file::{self, AdminFile};
use crate::model::license_key::LicenseId;
use crate::serve::imports::{ImportOrder, ImportReply};
use crate::serve::ops::license_answers::{LicenseOrder, LicenseReply};
use crate::serve::ops::license_defaults::LicenseDefaults;
use crate::serve::ops::reference_answers::{ErasureOrder, ErasureReply};
use crate::serve::ops::reports::{RefusedPage, ReportPage};
use crate::serve::ops::token_answers::{TokenOrder, TokenReply, ToldToken};
use crate::store::{RefusedByLicense, SiteReports};

/// Time limit of one answer. A server that is busy says so after ten seconds.
const PATIENCE: Duration = Duration::from_secs(15);

/// Time limit of all answers: a million sites take some seconds.
const LONGEST: Duration = Duration::from_secs(600);

/// Size limit of a page in bytes.
const MAX_PAGE: usize = 64 << 20;

/// Why a running server did not tell what sites reported.
#[derive(Debug, thiserror::Error)]
pub(super) enum QuestionError {
    #[error("a server is running, but {} does not say where it answers", .0.display())]
    NoFile(PathBuf),
    #[error("a server is running, but {} cannot be read", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("the running server does not answer on {address}: {reason}")]
    NoAnswer { address: SocketAddr, reason: String },
    #[error("the server on {0} is not the one of this store")]
    Another(SocketAddr),
    #[error("the server on {0} is another version, which does not answer this")]
    OtherVersion(SocketAddr),
    #[error("the server on {address} does not tell what sites reported: {reason}")]
    Refused { address: SocketAddr, reason: String },
    #[error("the server on {address} changed nothing: {reason}")]
    NotDone { address: SocketAddr, reason: String },
}

impl QuestionError {
    /// What to do.
    fn hint(&self) -> &'static str {
        match self {
            Self::NoFile(_) => {
                "restart the server with this version; its setting `admin_listen` must not be \"off\", and it must be able \
                 to write its store"
            }
            Self::File { .. } => "run this as the user of the server",
            Self::NoAnswer { .. } => "run this where the server runs, and look at its log",
            Self::Another(_) | Self::OtherVersion(_) => "restart the server, with the same version as this command",
            Self::Refused { .. } | Self::NotDone { .. } => "look at the server's log, and try again",
        }
    }
}

impl From<QuestionError> for Failure {
    fn from(error: QuestionError) -> Self {
        let hint = error.hint();
        Self::environment(error).hint(hint)
    }
}

/// What sites reported: of one license, or of all.
pub(super) fn reports(store: &Path, license: Option<&LicenseId>) -> Result<SiteReports, QuestionError> {
    let of = license.map_or(String::new(), |license| format!("&license={license}"));
    ask(store, async |server| {
        let mut reports = SiteReports::new();
        loop {
            let after = reports.last().map_or(String::new(), |(license, host, _)| {
                let host: String = url::form_urlencoded::byte_serialize(host.as_str().as_bytes()).collect();
                format!("&after={license}:{host}")
            });
            let page: ReportPage = server
                .page(&format!("/reports?{}", (of.clone() + &after).trim_start_matches('&')))
                .await?;
            let new = page.reports.into_iter();
            reports.extend(new.map(|site| (site.license, site.host, site.report)));
            if !page.more {
                return Ok(reports);
            }
        }
    })
}

/// The hosts that licenses were refused to.
pub(super) fn refused(store: &Path) -> Result<RefusedByLicense, QuestionError> {
    ask(store, async |server| {
        let mut refused = RefusedByLicense::new();
        let mut after = String::new();
        loop {
            let page: RefusedPage = server.page(&format!("/refused{after}")).await?;
            if let Some((last, _)) = page.refused.last() {
                after = format!("?after={last}");
            }
            refused.extend(page.refused);
            if !page.more {
                return Ok(refused);
            }
        }
    })
}

/// The server's settings for licenses that have none of their own.
pub(super) fn license_defaults(store: &Path) -> Result<LicenseDefaults, QuestionError> {
    ask(store, async |server| server.page("/license-defaults").await)
}

/// The tokens of the management API.
pub(super) fn tokens(store: &Path) -> Result<Vec<ToldToken>, QuestionError> {
    ask(store, async |server| server.page("/tokens").await)
}

/// Has the server make or revoke a token.
pub(super) fn change_token(store: &Path, order: &TokenOrder) -> Result<TokenReply, QuestionError> {
    ask(store, async |server| server.order("/tokens", order).await)
}

/// Has the server take a step of a license of the ledger.
pub(super) fn change_license(store: &Path, order: &LicenseOrder) -> Result<LicenseReply, QuestionError> {
    ask(store, async |server| server.order("/licenses", order).await)
}

/// Has the server erase the text of an order.
pub(super) fn erase_reference(store: &Path, order: &ErasureOrder) -> Result<ErasureReply, QuestionError> {
    ask(store, async |server| server.order("/references", order).await)
}

/// Has the server import licenses of another system.
pub(super) fn import(store: &Path, order: &ImportOrder) -> Result<Vec<ImportReply>, QuestionError> {
    ask(store, async |server| server.order("/imports", order).await)
}

/// Connects to the server and asks it, within the time limit.
fn ask<T>(
    store: &Path,
    questions: impl AsyncFnOnce(&mut Connection) -> Result<T, QuestionError>,
) -> Result<T, QuestionError> {
    let path = admin_file::path_in(store);
    let file = admin_file::read(store).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => QuestionError::NoFile(path),
        _ => QuestionError::File { path, source },
    })?;
    let address = file.address;
    let no_answer = |reason: String| QuestionError::NoAnswer { address, reason };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| no_answer(error.to_string()))?;
    let all = async {
        let mut connection = Connection::open(file).await?;
        questions(&mut connection).await
    };
    // The timer needs the runtime.
    let asked = runtime.block_on(async { timeout(LONGEST, all).await });
    asked.unwrap_or_else(|_| Err(no_answer(not_within(LONGEST))))
}

/// A connection to the admin listener.
struct Connection {
    file: AdminFile,
    sender: SendRequest<Full<Bytes>>,
    driver: JoinHandle<hyper::Result<()>>,
}

impl Connection {
    async fn open(file: AdminFile) -> Result<Self, QuestionError> {
        let address = file.address;
        let opened = in_time(async {
            let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
            handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())
        });
        let (sender, connection) = opened
            .await
            .map_err(|reason| QuestionError::NoAnswer { address, reason })?;
        Ok(Self {
            file,
            sender,
            driver: tokio::spawn(connection),
        })
    }

    /// One page.
    async fn page<T: DeserializeOwned>(&mut self, target: &str) -> Result<T, QuestionError> {
        let address = self.file.address;
        let (status, body) = self.send(Method::GET, target, Bytes::new()).await?;
        match status {
            200 => serde_json::from_slice(&body).map_err(|_| QuestionError::OtherVersion(address)),
            401 => Err(QuestionError::Another(address)),
            404 | 405 => Err(QuestionError::OtherVersion(address)),
            _ => Err(QuestionError::Refused {
                address,
                reason: match status {
                    503 => String::from_utf8_lossy(&body).trim().to_owned(),
                    _ => format!("status {status}"),
                },
            }),
        }
    }

    /// A change.
    async fn order<T: DeserializeOwned>(&mut self, target: &str, order: &impl Serialize) -> Result<T, QuestionError> {
        let address = self.file.address;
        let no_answer = |reason: String| QuestionError::NoAnswer { address, reason };
        let body = serde_json::to_vec(order).map_err(|error| no_answer(error.to_string()))?;
        let (status, body) = self.send(Method::POST, target, body.into()).await?;
        match status {
            200 => serde_json::from_slice(&body).map_err(|_| QuestionError::OtherVersion(address)),
            401 => Err(QuestionError::Another(address)),
            400 | 404 | 405 => Err(QuestionError::OtherVersion(address)),
            _ => Err(QuestionError::NotDone {
                address,
                reason: String::from_utf8_lossy(&body).trim().to_owned(),
            }),
        }
    }

    async fn send(&mut self, method: Method, target: &str, body: Bytes) -> Result<(u16, Bytes), QuestionError> {
        let address = self.file.address;
        let answer = in_time(self.exchange(method, target, body)).await;
        answer.map_err(|reason| QuestionError::NoAnswer { address, reason })
    }

    async fn exchange(&mut self, method: Method, target: &str, body: Bytes) -> Result<(u16, Bytes), String> {
        let request = hyper::Request::builder()
            .method(method)
            .uri(target)
            .header("Host", self.file.address.to_string())
            .header("Authorization", format!("Bearer {}", self.file.token))
            .body(Full::new(body))
            .map_err(|error| error.to_string())?;
        self.sender.ready().await.map_err(|error| error.to_string())?;
        let response = self
            .sender
            .send_request(request)
            .await
            .map_err(|error| error.to_string())?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), MAX_PAGE).collect().await;
        let body = body.map_err(|error| error.to_string())?;
        Ok((status, body.to_bytes()))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

async fn in_time<T>(work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    timeout(PATIENCE, work)
        .await
        .unwrap_or_else(|_| Err(not_within(PATIENCE)))
}

fn not_within(limit: Duration) -> String {
    format!("not within {} s", limit.as_secs())
}
