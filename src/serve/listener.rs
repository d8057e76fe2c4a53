//! The accept loop: takes connections up to a cap, gives each address its seats, and drains.
//!
//! warp's own server sets no timeout and no cap, so hyper's HTTP/1 connection is driven in `connection`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::answer::Answer;
use super::client::Proxies;
use super::connection::Connections;
use super::metrics::{ConnectionCounts, Metrics, Refused};
use super::pace::Patience;
use super::seats::Seats;
use super::tls::TlsAcceptor;

/// How long to wait after a failed accept: mostly there are no file descriptors left, and some will be.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Bounds of what a listener takes.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Connections held at once; further ones wait in the kernel's queue.
    pub connections: usize,
    /// Connections one address (IPv6: one /64) holds at once, proxies excepted; further ones are closed.
    pub connections_per_address: usize,
    /// Who stands between us and the clients.
    pub proxies: Proxies,
    /// How long a TLS handshake may take.
    pub handshake_timeout: Duration,
    /// How long everything else may take that waits for the client.
    pub patience: Patience,
    /// How long requests under way may take after the shutdown began.
    pub drain: Duration,
}

/// Lets `routes` answer until `shutdown` completes; then finishes the requests under way. With `tls`, nothing is
/// answered in the clear.
pub async fn run(
    listener: TcpListener,
    routes: impl Answer,
    tls: Option<TlsAcceptor>,
    bounds: Bounds,
    metrics: Arc<Metrics>,
    shutdown: impl Future<Output = ()>,
) {
    let counts = Arc::clone(&metrics.connections);
    let permits = Arc::new(Semaphore::new(bounds.connections.min(Semaphore::MAX_PERMITS)));
    let seats = Arc::new(Seats::new(bounds.connections_per_address));
    let connections = Arc::new(Connections {
        routes,
        tls,
        handshake_timeout: bounds.handshake_timeout,
        patience: bounds.patience,
        proxies: bounds.proxies,
        metrics,
    });
    let (close, closing) = watch::channel(());
    tokio::pin!(shutdown);
    loop {
        let (stream, peer, permit) = tokio::select! {
            accepted = accept(&listener, &permits, &counts) => accepted,
            () = &mut shutdown => break,
        };
        let seat = seats.take(peer.ip());
        if seat.is_none() && !connections.proxies.include(peer.ip()) {
            counts.refused.add(Refused::Address);
            continue;
        }
        let open = counts.open();
        let (connections, closing) = (Arc::clone(&connections), closing.clone());
        tokio::spawn(async move {
            connections.serve(stream, peer, closing).await;
            drop((permit, seat, open));
        });
    }
    drop((listener, closing));
    // Nobody to tell is fine.
    let _ = close.send(());
    if tokio::time::timeout(bounds.drain, close.closed()).await.is_err() {
        // By now, idle connections are closed.
        tracing::warn!(under_way = close.receiver_count(), "some requests did not finish in time");
    }
}

/// Waits for room first, so that a connection beyond the cap costs nothing.
async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
    counts: &ConnectionCounts,
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
                counts.refused.add(Refused::Accept);
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
