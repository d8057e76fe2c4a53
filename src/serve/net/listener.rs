//! The accept loop: takes connections up to a cap, limits the connections of each address, and drains.
//! A full table closes the connection that has waited longest for its next request.
//!
//! warp's own server sets no timeout and no cap, so hyper's HTTP/1 connection is driven in `connection`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::serve::metrics::{ConnectionCounts, Metrics, Refused};
use crate::serve::net::client_ip::Proxies;
use crate::serve::net::connection::Connections;
use crate::serve::net::connection_limit::ConnectionLimit;
use crate::serve::net::connection_table::ConnectionTable;
use crate::serve::net::handler::Handler;
use crate::serve::net::phase::Phase;
use crate::serve::net::timeouts::Timeouts;
use crate::serve::net::tls::TlsAcceptor;

/// How long to wait after a failed accept: mostly there are no file descriptors left, and some will be.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Failed accepts are one episode, told once, until so long none has failed.
const EPISODE: Duration = Duration::from_secs(60);

/// Bounds of what a listener takes.
#[derive(Clone, Debug)]
pub struct ListenerConfig {
    /// Connections held at once. For a further one, the connection that has waited longest for a request is closed; where
    /// all have a request under way, it waits.
    pub connections: usize,
    /// Connections one address holds at once, proxies excepted; further ones are closed. See `connection_limit` for IPv6.
    pub connections_per_address: usize,
    /// Who stands between us and the clients.
    pub proxies: Proxies,
    /// How long a TLS handshake may take.
    pub handshake_timeout: Duration,
    /// How long everything else may take that waits for the client.
    pub timeouts: Timeouts,
    /// How long requests under way may take after the shutdown began.
    pub drain: Duration,
}

/// Lets `routes` answer until `shutdown` completes; then finishes the requests under way. With `tls`, nothing is
/// answered in the clear.
pub async fn run(
    listener: TcpListener,
    routes: impl Handler,
    tls: Option<TlsAcceptor>,
    listener_config: ListenerConfig,
    metrics: Arc<Metrics>,
    shutdown: impl Future<Output = ()>,
) {
    let counts = Arc::clone(&metrics.connections);
    let table = ConnectionTable::new(listener_config.connections, Arc::clone(&counts));
    let mut failures = Failures::default();
    let connection_limit = Arc::new(ConnectionLimit::new(listener_config.connections_per_address));
    let connections = Arc::new(Connections {
        routes,
        tls,
        handshake_timeout: listener_config.handshake_timeout,
        timeouts: listener_config.timeouts,
        proxies: listener_config.proxies,
        metrics,
    });
    let (close, closing) = watch::channel(());
    tokio::pin!(shutdown);
    loop {
        let (stream, peer) = tokio::select! {
            accepted = accept(&listener, &table, &counts, &mut failures) => accepted,
            () = &mut shutdown => break,
        };
        let permit = connection_limit.take(peer.ip());
        if permit.is_none() && !connections.proxies.include(peer.ip()) {
            counts.refused[Refused::Address].inc();
            continue;
        }
        let phase = Arc::new(Phase::default());
        let place = tokio::select! {
            place = table.place(Arc::clone(&phase)) => place,
            () = &mut shutdown => break,
        };
        let open = counts.open();
        let connections = Arc::clone(&connections);
        let closing = closing.clone();
        tokio::spawn(async move {
            connections.serve(stream, peer, phase, closing).await;
            drop((place, permit, open));
        });
    }
    drop((listener, closing));
    // Nobody to tell is fine.
    let _ = close.send(());
    if tokio::time::timeout(listener_config.drain, close.closed())
        .await
        .is_err()
    {
        // By now, idle connections are closed.
        tracing::warn!(
            under_way = close.receiver_count(),
            "some requests did not finish in time"
        );
    }
}

/// Takes the next connection. Where the system gives none, one that waits for a request is closed and it is tried again.
async fn accept(
    listener: &TcpListener,
    table: &ConnectionTable,
    counts: &ConnectionCounts,
    failures: &mut Failures,
) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // An answer is one write: waiting for more would only delay it.
                let _ = stream.set_nodelay(true);
                return (stream, peer);
            }
            Err(error) => {
                counts.refused[Refused::Accept].inc();
                if failures.are_news(Instant::now()) {
                    tracing::warn!(%error, "cannot accept connections; told once until a minute has passed without it");
                }
                table.evict();
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// When an accept last failed.
#[derive(Debug, Default)]
struct Failures {
    last: Option<Instant>,
}

impl Failures {
    /// Takes note of a failure; whether it begins an episode.
    fn are_news(&mut self, now: Instant) -> bool {
        let last = self.last.replace(now);
        last.is_none_or(|last| now.duration_since(last) >= EPISODE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn failures_are_news_once_an_episode() {
        let mut failures = Failures::default();
        assert!(failures.are_news(Instant::now()));
        for _ in 0..100 {
            tokio::time::sleep(EPISODE - Duration::from_secs(1)).await;
            assert!(!failures.are_news(Instant::now()));
        }
        tokio::time::sleep(EPISODE).await;
        assert!(failures.are_news(Instant::now()));
    }
}
