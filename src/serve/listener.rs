//! The accept loop: takes connections up to a cap, bounds what a request may be and how long it may take, and drains.
//!
//! warp's own server sets no timeout and no cap, so hyper's HTTP/1 connection is driven here, over `warp::service`.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_io_timeout::TimeoutStream;
use warp::Filter;
use warp::http::Request;
use warp::reply::Response;

use super::client::{ClientAddress, Proxies};
use super::problem::Problem;
use super::seats::Seats;

/// Largest request head hyper buffers; it answers 431 without a body beyond it.
const MAX_HEAD: usize = 16 * 1024;

/// Longest path and query, in bytes: a key, a site address and a plugin fit many times.
const MAX_TARGET: usize = 4 * 1024;

/// Largest header fields together, in bytes: proxies add theirs.
const MAX_HEADERS: usize = 8 * 1024;

/// How long to wait after a failed accept: mostly there are no file descriptors left, and some will be.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Bounds of a connection.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Connections held at once; further ones wait in the kernel's queue.
    pub connections: usize,
    /// Connections one address (IPv6: one /64) holds at once, proxies excepted; further ones are closed.
    pub connections_per_address: usize,
    /// Who stands between us and the clients.
    pub proxies: Proxies,
    /// Time for a request's headers to arrive, which also ends an idle connection.
    pub header_timeout: Duration,
    /// Time a client may not take anything of its answer.
    pub write_timeout: Duration,
    /// Time for requests under way after the shutdown.
    pub drain: Duration,
}

/// Serves `routes` on `listener` until `shutdown` completes, then drains.
pub async fn run<F>(listener: TcpListener, routes: F, bounds: Bounds, shutdown: impl Future<Output = ()>)
where
    F: Filter<Error = Infallible> + Clone + Send + Sync + 'static,
    F::Extract: warp::Reply + Send,
    F::Future: Send,
{
    let service = TowerToHyperService::new(warp::service(routes));
    let permits = Arc::new(Semaphore::new(bounds.connections));
    let proxies = Arc::new(bounds.proxies);
    let seats = Arc::new(Seats::new(bounds.connections_per_address));
    let graceful = GracefulShutdown::new();
    tokio::pin!(shutdown);
    loop {
        let (stream, peer, permit) = tokio::select! {
            accepted = accept(&listener, &permits) => accepted,
            () = &mut shutdown => break,
        };
        let seat = seats.take(peer.ip());
        if seat.is_none() && !proxies.include(peer.ip()) {
            continue;
        }
        // A client that does not take its answer must not hold a connection for ever.
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(bounds.write_timeout));
        let service = service.clone();
        let proxies = Arc::clone(&proxies);
        let bounded = service_fn(move |request| {
            let client = proxies.client(peer.ip(), Request::<Incoming>::headers(&request));
            answer(service.clone(), client, request)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(bounds.header_timeout)
            .max_buf_size(MAX_HEAD)
            .serve_connection(TokioIo::new(Box::pin(stream)), bounded);
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            // A client that breaks its connection is no event.
            let _ = connection.await;
            drop((permit, seat));
        });
    }
    drop(listener);
    let under_way = graceful.count();
    if tokio::time::timeout(bounds.drain, graceful.shutdown()).await.is_err() {
        tracing::warn!(under_way, "some requests did not finish in time");
    }
}

/// Waits for room first, so that a connection beyond the cap costs nothing.
async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> (TcpStream, SocketAddr, Option<OwnedSemaphorePermit>) {
    // The semaphore is never closed.
    let permit = Arc::clone(permits).acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // An answer is one write: waiting for more would only delay it.
                let _ = stream.set_nodelay(true);
                return (stream, peer, permit);
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Bounds the head, names the client, and turns a panic into an answer.
async fn answer<S>(service: S, client: ClientAddress, mut request: Request<Incoming>) -> Result<Response, Infallible>
where
    S: Service<Request<Incoming>, Response = Response, Error = Infallible>,
{
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    if target > MAX_TARGET {
        return Ok(Problem::UriTooLong(MAX_TARGET).into_response());
    }
    let headers: usize = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if headers > MAX_HEADERS {
        return Ok(Problem::HeadersTooLarge(MAX_HEADERS).into_response());
    }
    request.extensions_mut().insert(client);
    // Nothing shared is left half-changed: what requests share is swapped whole or behind a lock that survives a panic.
    let answered = AssertUnwindSafe(service.call(request)).catch_unwind().await;
    Ok(answered.map_or_else(|_| Problem::internal(&"a handler panicked").into_response(), |Ok(response)| response))
}
