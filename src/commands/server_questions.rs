//! Asks the running server of a store through its admin socket: what sites reported, page by page, for changes of the ledger,
//! and how it is.
//!
//! [`admin_socket`] connects. Every wait has an end.

use std::collections::HashMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::Method;
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::commands::Failure;
use crate::serve::imports::{ImportOrder, ImportReply};
use crate::serve::ops::admin_socket::{self, ConnectError};
use crate::serve::ops::attach_answers::{AttachOrder, AttachReply};
use crate::serve::ops::command_user::CommandUser;
use crate::serve::ops::commands::{CLAIMED_USER, FolderIdentity, ServerGreeting, is_user_name};
use crate::serve::ops::customer_answers::{CustomerOrder, CustomerReply};
use crate::serve::ops::desk_answers::{DeskLinkOrder, DeskLinkReply};
use crate::serve::ops::issue_answers::{IssueOrder, IssueReply};
use crate::serve::ops::license_answers::{AdoptionOrder, AdoptionReply, LicenseOrder, LicenseReply};
use crate::serve::ops::regrant_answers::{RegrantOrder, RegrantReply};
use crate::serve::ops::reports::{FirstCopiesPage, LicenseDefaults, RefusedPage, ReportPage};
use crate::serve::ops::rollout_answers::{RolloutOrder, RolloutReply};
use crate::serve::ops::text_answers::{ErasureOrder, ErasureReply};
use crate::serve::ops::token_answers::{ListedToken, TokenOrder, TokenReply};
use countersign_ledger::{FirstCopiesByLicense, RefusedByLicense, SiteReports};
use countersign_model::license_key::LicenseId;
use countersign_model::text::ErrorChain;
use countersign_model::text::printable::Printable;
use countersign_model::text::stderr;
use countersign_settings::config::Config;

/// Time limit of one answer. A server that is busy says so after ten seconds.
const PATIENCE: Duration = Duration::from_secs(15);

/// Time limit of all answers: a million sites take some seconds.
const LONGEST: Duration = Duration::from_secs(600);

/// Size limit of a page in bytes.
const MAX_PAGE: usize = 64 << 20;

/// What to do where a server has no socket.
pub(super) const NO_SOCKET: &str = "is the server running? If it is, look at its log and restart it with this version: it may be an older \
     one, or its unit does not allow AF_UNIX in RestrictAddressFamilies";

/// Why a running server did not answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum QuestionError {
    #[error("commands cannot reach the server")]
    Connect(#[from] ConnectError),
    #[error("the server on {} does not answer: {reason}", socket.display())]
    NoAnswer { socket: PathBuf, reason: String },
    #[error("the server on {} is not the one of this store", .0.display())]
    Another(PathBuf),
    #[error("the server on {} is version {server}, which does not answer this; the command is version {}", socket.display(), env!("CARGO_PKG_VERSION"))]
    OtherVersion { socket: PathBuf, server: String },
    #[error("the server on {} does not tell what sites reported: {reason}", socket.display())]
    Refused { socket: PathBuf, reason: String },
    #[error("the server on {} changed nothing: {reason}", socket.display())]
    NotDone { socket: PathBuf, reason: String },
}

impl QuestionError {
    /// Whether this error leaves open whether a server runs.
    pub(super) fn may_mean_no_server(&self) -> bool {
        matches!(
            self,
            Self::NoAnswer { .. } | Self::Connect(ConnectError::Missing(_) | ConnectError::NobodyListens(_))
        )
    }

    /// What to do.
    fn hint(&self) -> &'static str {
        match self {
            Self::Connect(ConnectError::Missing(_) | ConnectError::NobodyListens(_)) => NO_SOCKET,
            Self::Connect(ConnectError::Distrusted { .. }) => {
                "look at who put it there: the socket and its folder belong to the server's user, and nobody else can write there"
            }
            Self::Connect(ConnectError::Failed { .. }) => "run this as the user of the server",
            Self::NoAnswer { .. } => "look at the server's log",
            Self::Another(_) => "give each server a `serve.admin_socket` of its own, and restart this one",
            Self::OtherVersion { .. } => "restart the server, with the same version as this command",
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

/// Which server runs, and the answer of `/readyz`, whatever its status is.
pub(super) fn readiness(config: &Config) -> Result<(ServerGreeting, Bytes), QuestionError> {
    ask(config, async |server| {
        let (_, body) = server.send(Method::GET, "/readyz", Bytes::new()).await?;
        Ok((server.greeting.clone(), body))
    })
}

/// What sites reported: of one license, or of all.
pub(super) fn reports(config: &Config, license: Option<&LicenseId>) -> Result<SiteReports, QuestionError> {
    let of = license.map_or(String::new(), |license| format!("&license={license}"));
    ask(config, async |server| {
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
pub(super) fn refused(config: &Config) -> Result<RefusedByLicense, QuestionError> {
    licenses(config, "/refused", |page: RefusedPage| (page.refused, page.more))
}

/// The first copies that licenses gave.
pub(super) fn first_copies(config: &Config) -> Result<FirstCopiesByLicense, QuestionError> {
    licenses(config, "/first-copies", |page: FirstCopiesPage| {
        (page.first_copies, page.more)
    })
}

/// What is known of licenses, page by page: `parts` gives the licenses of a page, and whether there are more.
fn licenses<P: DeserializeOwned, T>(
    config: &Config,
    target: &str,
    parts: impl Fn(P) -> (Vec<(LicenseId, T)>, bool),
) -> Result<HashMap<LicenseId, T>, QuestionError> {
    ask(config, async |server| {
        let mut found = HashMap::new();
        let mut after = String::new();
        loop {
            let (page, has_more) = parts(server.page(&format!("{target}{after}")).await?);
            if let Some((last, _)) = page.last() {
                after = format!("?after={last}");
            }
            found.extend(page);
            if !has_more {
                return Ok(found);
            }
        }
    })
}

/// The server's settings for licenses that have none of their own. Without a running server, the settings of this command count.
pub(super) fn license_defaults(config: &Config) -> LicenseDefaults {
    match ask(config, async |server| server.page("/license-defaults").await) {
        Ok(defaults) => defaults,
        Err(error) => {
            // Usually there is no server.
            if !matches!(
                error,
                QuestionError::Connect(ConnectError::Missing(_) | ConnectError::NobodyListens(_))
            ) {
                stderr::line(format_args!(
                    "note: the server's settings are read from countersign.toml, and a running server may have others: {}",
                    Printable(ErrorChain(&error).first_line())
                ));
            }
            LicenseDefaults::from(&config.serve)
        }
    }
}

/// The tokens of the management API.
pub(super) fn tokens(config: &Config) -> Result<Vec<ListedToken>, QuestionError> {
    ask(config, async |server| server.page("/tokens").await)
}

/// Has the server make or revoke a token.
pub(super) fn change_token(config: &Config, order: &TokenOrder) -> Result<TokenReply, QuestionError> {
    ask(config, async |server| server.order("/tokens", order).await)
}

/// Has the server tell how far rollouts are, or change one.
pub(super) fn rollout(config: &Config, order: &RolloutOrder) -> Result<RolloutReply, QuestionError> {
    ask(config, async |server| server.order("/rollouts", order).await)
}

/// Has the server take a step of a license of the ledger.
pub(super) fn change_license(config: &Config, order: &LicenseOrder) -> Result<LicenseReply, QuestionError> {
    ask(config, async |server| server.order("/licenses", order).await)
}

/// Has the server issue a license.
pub(super) fn issue_license(config: &Config, order: &IssueOrder) -> Result<IssueReply, QuestionError> {
    ask(config, async |server| server.order("/licenses/new", order).await)
}

/// Has the server say which licenses subscriptions renew.
pub(super) fn attach(config: &Config, order: &AttachOrder) -> Result<Vec<AttachReply>, QuestionError> {
    ask(config, async |server| server.order("/attachments", order).await)
}

/// Has the server grant sales again.
pub(super) fn regrant(config: &Config, order: &RegrantOrder) -> Result<RegrantReply, QuestionError> {
    ask(config, async |server| server.order("/regrants", order).await)
}

/// Has the server take declared licenses into the ledger.
pub(super) fn adopt(config: &Config, order: &AdoptionOrder) -> Result<Vec<AdoptionReply>, QuestionError> {
    ask(config, async |server| server.order("/adoptions", order).await)
}

/// Has the server erase texts.
pub(super) fn erase_texts(config: &Config, order: &ErasureOrder) -> Result<ErasureReply, QuestionError> {
    ask(config, async |server| server.order("/texts", order).await)
}

/// Has the server erase a customer.
pub(super) fn erase_customer(config: &Config, order: &CustomerOrder) -> Result<CustomerReply, QuestionError> {
    ask(config, async |server| server.order("/customers", order).await)
}

/// Has the server make a link that signs in at the desk.
pub(super) fn desk_link(config: &Config) -> Result<DeskLinkReply, QuestionError> {
    ask(config, async |server| {
        server.order("/desk/links", &DeskLinkOrder {}).await
    })
}

/// Has the server import licenses of another system.
pub(super) fn import(config: &Config, order: &ImportOrder) -> Result<Vec<ImportReply>, QuestionError> {
    ask(config, async |server| server.order("/imports", order).await)
}

/// Connects to the server of this instance and asks it, within the time limit.
fn ask<T>(
    config: &Config,
    questions: impl AsyncFnOnce(&mut Connection) -> Result<T, QuestionError>,
) -> Result<T, QuestionError> {
    let socket = config.admin_socket();
    let no_answer = |reason: String| QuestionError::NoAnswer {
        socket: socket.clone(),
        reason,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| no_answer(error.to_string()))?;
    let all = async {
        let mut connection = Connection::open(&socket, &config.paths.store).await?;
        questions(&mut connection).await
    };
    // The timer needs the runtime.
    let asked = runtime.block_on(async { timeout(LONGEST, all).await });
    asked.unwrap_or_else(|_| Err(no_answer(not_within(LONGEST))))
}

/// A connection to the server of a store.
struct Connection {
    socket: PathBuf,
    greeting: ServerGreeting,
    sender: SendRequest<Full<Bytes>>,
    driver: JoinHandle<hyper::Result<()>>,
}

impl Connection {
    /// Connects, and asks which server this is before anything else is sent.
    async fn open(socket: &Path, store: &Path) -> Result<Self, QuestionError> {
        // It does not wait: if the server's queue is full, that is an error.
        let stream = admin_socket::connect_to(socket).await?;
        let opened = in_time(async { handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string()) });
        let (sender, connection) = opened.await.map_err(|reason| QuestionError::NoAnswer {
            socket: socket.to_owned(),
            reason,
        })?;
        let mut connection = Self {
            socket: socket.to_owned(),
            greeting: ServerGreeting::default(),
            sender,
            driver: tokio::spawn(connection),
        };
        connection.greeting = connection.page("/").await?;
        match FolderIdentity::of(store) {
            Ok(own) if own == connection.greeting.store => Ok(connection),
            _ => Err(QuestionError::Another(socket.to_owned())),
        }
    }

    /// One page.
    async fn page<T: DeserializeOwned>(&mut self, target: &str) -> Result<T, QuestionError> {
        let (status, body) = self.send(Method::GET, target, Bytes::new()).await?;
        match status {
            200 => serde_json::from_slice(&body).map_err(|_| self.other_version()),
            404 => Err(self.other_version()),
            _ => Err(QuestionError::Refused {
                socket: self.socket.clone(),
                reason: match status {
                    503 => String::from_utf8_lossy(&body).trim().to_owned(),
                    _ => format!("status {status}"),
                },
            }),
        }
    }

    /// A change.
    async fn order<T: DeserializeOwned>(&mut self, target: &str, order: &impl Serialize) -> Result<T, QuestionError> {
        let body = serde_json::to_vec(order).map_err(|error| self.no_answer(error.to_string()))?;
        let (status, body) = self.send(Method::POST, target, body.into()).await?;
        match status {
            200 => serde_json::from_slice(&body).map_err(|_| self.other_version()),
            400 | 404 => Err(self.other_version()),
            _ => Err(QuestionError::NotDone {
                socket: self.socket.clone(),
                reason: String::from_utf8_lossy(&body).trim().to_owned(),
            }),
        }
    }

    async fn send(&mut self, method: Method, target: &str, body: Bytes) -> Result<(u16, Bytes), QuestionError> {
        let answer = in_time(self.exchange(method, target, body)).await;
        answer.map_err(|reason| self.no_answer(reason))
    }

    async fn exchange(&mut self, method: Method, target: &str, body: Bytes) -> Result<(u16, Bytes), String> {
        let request = hyper::Request::builder()
            .method(method)
            .uri(target)
            .header("Host", "localhost");
        let request = match sudo_user() {
            Some(user) => request.header(CLAIMED_USER, user),
            None => request,
        };
        let request = request.body(Full::new(body)).map_err(|error| error.to_string())?;
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

    fn no_answer(&self, reason: String) -> QuestionError {
        let socket = self.socket.clone();
        QuestionError::NoAnswer { socket, reason }
    }

    fn other_version(&self) -> QuestionError {
        QuestionError::OtherVersion {
            socket: self.socket.clone(),
            server: self.greeting.version.clone(),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Who runs this command, for the ledger.
pub(super) fn own_user() -> CommandUser {
    CommandUser::own(sudo_user().as_deref())
}

/// The user who called `sudo`, if that can be the name of a user.
fn sudo_user() -> Option<String> {
    std::env::var("SUDO_USER").ok().filter(|name| is_user_name(name))
}

async fn in_time<T>(work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    timeout(PATIENCE, work)
        .await
        .unwrap_or_else(|_| Err(not_within(PATIENCE)))
}

fn not_within(limit: Duration) -> String {
    format!("not within {} s", limit.as_secs())
}
