//! Answers commands on the admin socket: what sites reported, and orders that change the ledger.
//!
//! [`AdminSocket`] lets only this user and root connect. A connection begins with `GET /`, whose answer says which server this
//! is. Orders and answers are JSON.

use std::fmt::Display;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use tracing::Instrument as _;
use warp::http::{Request, StatusCode};

use crate::serve::imports;
use crate::serve::net::handler::Sending;
use crate::serve::ops::admin_socket::AdminSocket;
use crate::serve::ops::command_user::{CommandUser, GivenOrder};
use crate::serve::ops::reports::{LicenseDefaults, PageQuery, ReportAnswers};
use crate::serve::ops::{
    attach_answers, customer_answers, desk_answers, issue_answers, license_answers, readiness, regrant_answers,
    rollout_answers, text_answers, token_answers,
};
use crate::serve::reply::problem::Problem;
use crate::serve::reply::response::Response;
use crate::serve::state::Service;

/// Commands that are answered at once; more wait.
const CONNECTIONS: usize = 64;

/// Time limit of everything that waits for a command.
const PATIENCE: Duration = Duration::from_secs(10);

/// Time for the last answers when the server stops.
const DRAIN: Duration = Duration::from_secs(1);

/// The wait after a failed accept. Mostly no file descriptors are left, and some will be free soon.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Size limit of an order in bytes.
const MAX_ORDER: usize = 64 << 10;

/// Size limit of an order of adoption in bytes: 500 licenses.
const MAX_ADOPTION: usize = 128 << 10;

/// Size limit of an import in bytes: 500 licenses with all that a ledger's line holds.
const MAX_IMPORT: usize = 4 << 20;

/// The header in which a command says for whom it was run: the user who called `sudo`.
pub const CLAIMED_USER: &str = "claimed-user";

/// Which server this is: the answer of `GET /`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerGreeting {
    /// Its version.
    pub version: String,
    /// Its folder: the store, or the node's.
    pub store: FolderIdentity,
}

/// A folder, by whichever path it is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderIdentity {
    device: u64,
    inode: u64,
}

impl FolderIdentity {
    /// Of the folder at this path.
    ///
    /// # Errors
    /// There is none, or it cannot be looked at.
    pub fn of(folder: &Path) -> io::Result<Self> {
        let found = fs::metadata(folder)?;
        Ok(Self {
            device: found.dev(),
            inode: found.ino(),
        })
    }
}

/// What answers commands: the socket, and the folder whose server this is.
pub struct CommandAccess {
    socket: AdminSocket,
    store: FolderIdentity,
}

impl CommandAccess {
    /// Listens at `path` for commands about the folder `store`.
    ///
    /// # Errors
    /// As [`AdminSocket::bind`].
    pub fn open(path: &Path, store: &Path) -> io::Result<Self> {
        Ok(Self {
            store: FolderIdentity::of(store)?,
            socket: AdminSocket::bind(path)?,
        })
    }

    /// Answers until `shutdown` completes, then finishes what is under way.
    pub(in crate::serve) async fn run(self, service: Arc<Service>, shutdown: impl Future<Output = ()>) {
        let Self { socket, store } = self;
        let answers = Arc::new(CommandAnswers {
            reports: ReportAnswers::new(Arc::clone(&service)),
            service,
            store,
        });
        let permits = Arc::new(Semaphore::new(CONNECTIONS));
        let graceful = GracefulShutdown::new();
        tokio::pin!(shutdown);
        loop {
            let (stream, uid, permit) = tokio::select! {
                accepted = accept(&socket, &permits) => accepted,
                () = &mut shutdown => break,
            };
            let answers = Arc::clone(&answers);
            let service = service_fn(move |request| {
                let answers = Arc::clone(&answers);
                async move { Ok::<_, std::convert::Infallible>(answers.answer(uid, request).await) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(PATIENCE)
                .serve_connection(TokioIo::new(stream), service);
            let connection = graceful.watch(connection);
            tokio::spawn(async move {
                // A command that was killed is not an error.
                let _ = connection.await;
                drop(permit);
            });
        }
        drop(socket);
        let _ = timeout(DRAIN, graceful.shutdown()).await;
    }
}

async fn accept(socket: &AdminSocket, permits: &Arc<Semaphore>) -> (UnixStream, u32, Option<OwnedSemaphorePermit>) {
    // The semaphore is never closed.
    let permit = Arc::clone(permits).acquire_owned().await.ok();
    loop {
        match socket.accept().await {
            Ok((stream, uid)) => return (stream, uid, permit),
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// What all connections share.
struct CommandAnswers {
    service: Arc<Service>,
    reports: ReportAnswers,
    store: FolderIdentity,
}

impl CommandAnswers {
    /// Answers a command of this user; a panic becomes an answer.
    async fn answer(&self, uid: u32, request: Request<Incoming>) -> Sending {
        // Shared state stays consistent: it is replaced as a whole, or behind a lock that survives a panic.
        let answered = AssertUnwindSafe(self.choose(uid, request)).catch_unwind().await;
        let response = answered.unwrap_or_else(|_| Problem::internal(&"a handler panicked").into_response());
        response.into_http()
    }

    async fn choose(&self, uid: u32, request: Request<Incoming>) -> Response {
        let service = &self.service;
        let path = request.uri().path().to_owned();
        let query = request.uri().query().unwrap_or_default();
        match (request.method(), path.as_str()) {
            (&Method::GET, "/") => Response::json(&ServerGreeting {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                store: self.store,
            }),
            (&Method::GET, "/readyz") => readiness(service),
            (&Method::GET, "/license-defaults") => Response::json(&LicenseDefaults::from(&**service)),
            (&Method::GET, "/tokens") => Response::json(&token_answers::listed(service.gate.bindings())),
            (&Method::GET, "/reports") => self.reports.reported(PageQuery::parse(query)).await,
            (&Method::GET, "/refused") => self.reports.refused(PageQuery::parse(query)).await,
            (&Method::GET, "/first-copies") => self.reports.first_copies(PageQuery::parse(query)).await,
            (&Method::POST, "/licenses") => self.order(uid, request, MAX_ORDER, license_answers::change).await,
            (&Method::POST, "/licenses/new") => self.order(uid, request, MAX_ORDER, issue_answers::issue).await,
            (&Method::POST, "/adoptions") => self.order(uid, request, MAX_ADOPTION, license_answers::adopt).await,
            (&Method::POST, "/tokens") => self.order(uid, request, MAX_ORDER, token_answers::change).await,
            (&Method::POST, "/attachments") => self.order(uid, request, MAX_ADOPTION, attach_answers::attach).await,
            (&Method::POST, "/regrants") => self.order(uid, request, MAX_ORDER, regrant_answers::regrant).await,
            (&Method::POST, "/rollouts") => self.order(uid, request, MAX_ORDER, rollout_answers::order).await,
            (&Method::POST, "/texts") => self.order(uid, request, MAX_ORDER, text_answers::carry_out).await,
            (&Method::POST, "/customers") => self.order(uid, request, MAX_ORDER, customer_answers::carry_out).await,
            (&Method::POST, "/desk/links") => self.order(uid, request, MAX_ORDER, desk_answers::make_link).await,
            (&Method::POST, "/imports") => self.order(uid, request, MAX_IMPORT, imports::answer).await,
            _ => Response::text(StatusCode::NOT_FOUND, "this version has no such answer\n"),
        }
    }

    /// Reads the order in a body of at most `limit` bytes, and carries it out. Its log lines say who ordered it.
    async fn order<O, R, E, F>(
        &self,
        uid: u32,
        request: Request<Incoming>,
        limit: usize,
        carry_out: fn(Arc<Service>, GivenOrder<O>) -> F,
    ) -> Response
    where
        O: DeserializeOwned,
        R: Serialize,
        E: Display,
        F: Future<Output = Result<R, E>>,
    {
        let claimed = claimed_user(request.headers()).map(str::to_owned);
        let order = match read_order(Limited::new(request.into_body(), limit)).await {
            Ok(order) => order,
            Err(refused) => return refused,
        };
        let span = tracing::info_span!("command", uid, claimed);
        let named = spawn_blocking(move || CommandUser::new(uid, claimed.as_deref())).await;
        let Ok(user) = named else {
            return Problem::internal(&"a user's name was not looked up").into_response();
        };
        let given = GivenOrder { order, user };
        match carry_out(Arc::clone(&self.service), given).instrument(span).await {
            Ok(reply) => Response::json(&reply),
            // Nothing was changed.
            Err(error) => Response::text(StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")),
        }
    }
}

/// The user whom a command names. Only what can be a user's name goes into the log.
fn claimed_user(headers: &HeaderMap) -> Option<&str> {
    headers
        .get(CLAIMED_USER)?
        .to_str()
        .ok()
        .filter(|name| is_user_name(name))
}

/// Whether a text can be the name of a user, also of a directory service.
pub fn is_user_name(text: &str) -> bool {
    let may_have = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@\\$+".contains(&byte);
    (1..=64).contains(&text.len()) && text.bytes().all(may_have)
}

/// The order in a body, or the answer that refuses it.
async fn read_order<T: DeserializeOwned>(body: impl Body<Data = Bytes, Error: Display>) -> Result<T, Response> {
    match timeout(PATIENCE, body.collect()).await {
        Ok(Ok(body)) => serde_json::from_slice(&body.to_bytes())
            .map_err(|_| Response::text(StatusCode::BAD_REQUEST, "the order is malformed\n")),
        Ok(Err(error)) => Err(Response::text(
            StatusCode::BAD_REQUEST,
            format!("the order cannot be read: {error}\n"),
        )),
        Err(_) => Err(Response::text(
            StatusCode::REQUEST_TIMEOUT,
            "the order did not arrive in time\n",
        )),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{StreamExt as _, stream};
    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_body_is_read_only_for_some_time() {
        let part = |text: &'static str| Ok::<_, io::Error>(Frame::data(Bytes::from_static(text.as_bytes())));
        let started = Instant::now();
        let unfinished = StreamBody::new(stream::iter([part("tr")]).chain(stream::pending()));
        let refused = read_order::<bool>(unfinished).await.unwrap_err();
        assert_eq!((refused.status.as_u16(), started.elapsed()), (408, PATIENCE));
        let whole = StreamBody::new(stream::iter([part("tr"), part("ue")]));
        assert!(read_order::<bool>(whole).await.unwrap());
    }

    #[test]
    fn only_what_can_be_a_users_name_is_logged() {
        let claimed = |name: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(CLAIMED_USER, name.parse().unwrap());
            claimed_user(&headers).map(str::to_owned)
        };
        for name in ["alice", "EXAMPLE\\alice", "alice@example.com", "www-data"] {
            assert_eq!(claimed(name).as_deref(), Some(name));
        }
        for name in ["", "a b", "a=\"b\"", "x,y"] {
            assert_eq!(claimed(name), None, "{name}");
        }
        assert_eq!(claimed_user(&HeaderMap::new()), None);
    }
}
