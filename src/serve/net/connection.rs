//! One connection: plain or TLS, served by hyper, with limits on request heads; a panic becomes a response.
//!
//! Requests go to the listener's handler, with the client's address.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};
use warp::http::{HeaderValue, Request, header};

use crate::serve::metrics::{Metrics, Operation, Refused, TimedOut};
use crate::serve::net::client_ip::Proxies;
use crate::serve::net::handler::{Handler, Sending};
use crate::serve::net::phase::{HandOver, Phase};
use crate::serve::net::request_head;
use crate::serve::net::timeouts::{TimeoutStream, Timeouts};
use crate::serve::net::tls::{TlsAcceptor, TlsStream};
use crate::serve::reply::outcome::Code;
use crate::serve::reply::problem::Problem;
use crate::serve::reply::response::{ExtraHeader, Response};

/// The largest request head that hyper buffers, in bytes; beyond it hyper answers 431 without a body.
const MAX_HEAD: usize = 16 * 1024;

/// The first byte of a TLS connection: a handshake record (RFC 8446 section 5.1).
const TLS_HANDSHAKE: u8 = 22;

/// How long a closing server waits on each connection for a request that is on its way: longer than a round trip around the world.
/// Without this wait, hyper closes a connection whose first byte has not arrived, and a restart loses that request.
const LAST_REQUEST: Duration = Duration::from_millis(500);

/// What all connections of a listener share.
pub struct Connections<A> {
    /// Answers requests.
    pub routes: A,
    /// The TLS configuration, if any.
    pub tls: Option<TlsAcceptor>,
    /// Time limit of a handshake.
    pub handshake_timeout: Duration,
    /// Time limits of everything else that waits for the client.
    pub timeouts: Timeouts,
    /// The trusted proxies.
    pub proxies: Proxies,
    /// The counters.
    pub metrics: Arc<Metrics>,
}

impl<A: Handler> Connections<A> {
    /// Serves a connection to its end, and keeps its state in `phase`. After `closing` changes, the connection ends with the current
    /// request, or with the next one if it arrives within [`LAST_REQUEST`].
    pub async fn serve(&self, stream: TcpStream, peer: SocketAddr, phase: Arc<Phase>, closing: watch::Receiver<()>) {
        let Some(tls) = &self.tls else {
            return self
                .serve_http(stream, peer, phase, closing, |request| self.answer(peer, request))
                .await;
        };
        phase.opened();
        // Boxed, so that a plain connection need not be as large as one with TLS.
        let open = Box::pin(open(tls, stream, &phase));
        let too_late = async {
            let _ = closing.clone().changed().await;
            sleep(LAST_REQUEST).await;
        };
        let opened = tokio::select! {
            opened = timeout(self.handshake_timeout, open) => opened,
            () = evicted(&phase) => return,
            () = too_late => return,
        };
        match opened {
            Ok(Ok(OpenedConnection::Tls(stream))) => {
                self.serve_http(stream, peer, phase, closing, |request| self.answer(peer, request))
                    .await;
            }
            Ok(Ok(OpenedConnection::Plain(stream))) => {
                self.serve_http(stream, peer, phase, closing, |_| self.use_tls()).await;
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "a TLS handshake failed");
                self.metrics.connections.refused[Refused::Handshake].inc();
            }
            Err(_) => {
                self.metrics.connections.timed_out[TimedOut::Handshake].inc();
            }
        }
    }

    /// Serves HTTP/1.1 over an open stream.
    async fn serve_http<IO, F>(
        &self,
        stream: IO,
        peer: SocketAddr,
        phase: Arc<Phase>,
        closing: watch::Receiver<()>,
        answer: impl Fn(Request<Incoming>) -> F,
    ) where
        IO: AsyncRead + AsyncWrite + Unpin,
        F: Future<Output = Sending>,
    {
        let turn = Turn::default();
        let stream = TimeoutStream::new(
            stream,
            Arc::clone(&phase),
            self.timeouts,
            Arc::clone(&self.metrics.connections),
        );
        let service = service_fn(|request| {
            phase.busy();
            // Boxed: hyper keeps space for the future while the connection is open, and this one takes some kilobytes.
            Box::pin(async {
                turn.take().await;
                let mut response = answer(request).await;
                if closing.has_changed().unwrap_or(true) {
                    let last = HeaderValue::from_static("close");
                    response.headers_mut().insert(header::CONNECTION, last);
                }
                phase.answered();
                Ok::<_, Infallible>(response.map(|content| content.tell(HandOver(Arc::clone(&phase)))))
            })
        });
        let connection = http1::Builder::new()
            .header_read_timeout(None)
            .max_buf_size(MAX_HEAD)
            // One `send` of head and body together: for mostly short bodies, `writev` is slower than copying.
            // Measured with `{}`: 18.4 µs a request instead of 19.5.
            .writev(false)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let ended = match before_closing(connection.as_mut(), &turn, &phase, &closing).await {
            Some(ended) => ended,
            // hyper would wait for the rest of the head.
            None if phase.is_cut_off() => return,
            None => {
                let patience = if phase.is_evicted() {
                    Duration::ZERO
                } else {
                    LAST_REQUEST
                };
                match timeout(patience, connection.as_mut()).await {
                    Ok(ended) => ended,
                    Err(_) => {
                        connection.as_mut().graceful_shutdown();
                        connection.await
                    }
                }
            }
        };
        // hyper has answered what it could not parse, without a document. A client that disconnects is not logged.
        if let Err(error) = ended
            && error.is_parse()
        {
            let code = if error.is_parse_too_large() {
                Code::HeadersTooLarge
            } else {
                Code::MalformedRequest
            };
            self.metrics.requests.of(Operation::Public).outcomes[code].inc();
            // The client behind a proxy is unknown without the head.
            if !self.proxies.include(peer.ip()) {
                self.routes.failed(peer.ip(), code);
            }
        }
    }

    /// Answers a request; a panic becomes a response.
    async fn answer(&self, peer: SocketAddr, request: Request<Incoming>) -> Sending {
        // Shared state stays consistent: it is replaced as a whole, or behind a lock that survives a panic.
        let answered = AssertUnwindSafe(self.pass_on(peer, request)).catch_unwind().await;
        answered.unwrap_or_else(|_| self.refuse(Problem::internal(&"a handler panicked")).into_http())
    }

    /// Finds the client's address, checks the head, and lets the handler answer.
    async fn pass_on(&self, peer: SocketAddr, request: Request<Incoming>) -> Sending {
        let client = self.proxies.client(peer.ip(), request.headers());
        if let Some(refusal) = self.routes.refusal(client, &request) {
            return refusal.into_http();
        }
        if let Some(problem) = request_head::unfit(&request) {
            self.routes.failed(client, problem.code());
            return self.refuse(problem).into_http();
        }
        self.routes.answer(client, request).await
    }

    fn refuse(&self, problem: Problem) -> Response {
        self.metrics.requests.count_refused(Operation::Public, problem.code());
        problem.into_response()
    }

    /// The response to a plain HTTP request on a TLS port.
    async fn use_tls(&self) -> Sending {
        let response = self.refuse(Problem::Malformed("This port speaks TLS: use https://.".to_owned()));
        Response {
            extra: Some(ExtraHeader::Close),
            ..response
        }
        .into_http()
    }
}

/// Serves a connection until its end, or until it is evicted or `closing` changes; then `None`.
///
/// It is registered for the change once: every request wakes the connection, and registering again would take a lock
/// that all connections share. Once is enough because a task's waker stays the same.
async fn before_closing<C: Future>(
    mut connection: Pin<&mut C>,
    turn: &Turn,
    phase: &Phase,
    closing: &watch::Receiver<()>,
) -> Option<C::Output> {
    let mut changed = closing.clone();
    let mut changed = pin!(changed.changed());
    let mut is_registered = false;
    poll_fn(|cx| {
        turn.begin();
        match connection.as_mut().poll(cx) {
            Poll::Ready(ended) => Poll::Ready(Some(ended)),
            Poll::Pending if phase.is_evicted() => Poll::Ready(None),
            Poll::Pending if is_registered && !closing.has_changed().unwrap_or(true) => Poll::Pending,
            Poll::Pending => {
                is_registered = true;
                phase.wake_when_evicted(cx.waker());
                if phase.is_evicted() {
                    return Poll::Ready(None);
                }
                changed.as_mut().poll(cx).map(|_| None)
            }
        }
    })
    .await
}

/// Completes when the connection is evicted.
async fn evicted(phase: &Phase) {
    poll_fn(|cx| {
        phase.wake_when_evicted(cx.waker());
        if phase.is_evicted() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

/// What a connection to a TLS port begins with.
enum OpenedConnection {
    /// TLS.
    Tls(Box<TlsStream<TcpStream>>),
    /// Something else, nearly always HTTP.
    Plain(TcpStream),
}

async fn open(tls: &TlsAcceptor, stream: TcpStream, phase: &Phase) -> io::Result<OpenedConnection> {
    let mut first = [0];
    let peeked = stream.peek(&mut first).await?;
    phase.opening();
    match peeked {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ if first[0] == TLS_HANDSHAKE => Ok(OpenedConnection::Tls(Box::new(tls.accept(stream).await?))),
        _ => Ok(OpenedConnection::Plain(stream)),
    }
}

/// Whether a connection was answered in the current run of its task.
#[derive(Debug, Default)]
pub(crate) struct Turn(AtomicBool);

impl Turn {
    /// The connection's task runs.
    pub(crate) fn begin(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Returns at once for the first response of a turn. For each later response, yields to all other tasks first.
    pub(crate) async fn take(&self) {
        if self.0.swap(true, Ordering::Relaxed) {
            yield_now().await;
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::pin::pin;

    use futures_util::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::serve::reply::response::JSON;

    struct Panicking;

    impl Handler for Panicking {
        fn refusal(&self, _client: IpAddr, head: &Request<Incoming>) -> Option<Response> {
            assert_ne!(head.uri().path(), "/refused", "on purpose");
            None
        }

        async fn answer(&self, _client: IpAddr, request: Request<Incoming>) -> Sending {
            match request.uri().path() {
                "/now" => panic!("on purpose"),
                "/later" => {
                    tokio::task::yield_now().await;
                    panic!("on purpose")
                }
                _ => JSON.answer("{}").into_http(),
            }
        }
    }

    /// Sends a request for each path over one connection. Returns the responses, and the number of internal errors.
    async fn ask<const N: usize>(paths: [&str; N]) -> ([String; N], u64) {
        let timeouts = Duration::from_secs(10);
        let connections = Connections {
            routes: Panicking,
            tls: None,
            handshake_timeout: timeouts,
            timeouts: Timeouts {
                header: timeouts,
                idle: timeouts,
                write: timeouts,
            },
            proxies: Proxies::default(),
            metrics: Arc::default(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, peer) = listener.accept().await.unwrap();
        let (_closing, closed) = watch::channel(());
        let asking = async move {
            let mut answers = [const { String::new() }; N];
            for (path, text) in paths.into_iter().zip(&mut answers) {
                let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nCookie: secret\r\n\r\n");
                client.write_all(request.as_bytes()).await.unwrap();
                let mut answer = Vec::new();
                while !answer.ends_with(b"}") {
                    assert!(client.read_buf(&mut answer).await.unwrap() > 0, "{path}: closed");
                }
                *text = String::from_utf8(answer).unwrap();
            }
            answers
        };
        let ((), answers) = tokio::join!(connections.serve(stream, peer, Arc::default(), closed), asking);
        (
            answers,
            connections.metrics.requests.of(Operation::Public).outcomes[Code::Internal].get(),
        )
    }

    #[tokio::test]
    async fn a_panic_is_an_answer_and_the_connection_goes_on() {
        let (answers, internal) = ask(["/", "/refused", "/now", "/later", "/"]).await;
        for (answer, status) in answers.iter().zip(["200", "500", "500", "500", "200"]) {
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
        }
        assert_eq!(internal, 3);
    }

    #[tokio::test]
    async fn nothing_of_a_request_stands_in_its_answer() {
        let (answers, _) = ask(["/", "/now", "/later"]).await;
        for answer in answers.map(|answer| answer.to_ascii_lowercase()) {
            assert!(!answer.contains("secret") && !answer.contains("cookie"), "{answer}");
        }
    }

    #[tokio::test]
    async fn the_second_answer_of_a_turn_waits_for_the_next() {
        let turn = Turn::default();
        turn.begin();
        assert!(turn.take().now_or_never().is_some());
        let mut second = pin!(turn.take());
        assert!(second.as_mut().now_or_never().is_none());
        turn.begin();
        second.await;
        assert!(turn.take().now_or_never().is_none(), "the second one was this turn's");
    }
}
