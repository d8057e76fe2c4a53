//! The accept loop: accepts connections up to a limit, limits the connections of each address, and drains at the end.
//!
//! warp's own server has no timeouts and no limits, so `connection` drives hyper's HTTP/1 connection itself.

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

/// The wait after a failed accept. Mostly no file descriptors are left, and some will be free soon.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Failed accepts are logged again only after this time without one.
const EPISODE: Duration = Duration::from_secs(60);

/// The limits of a listener.
#[derive(Clone, Debug)]
pub struct ListenerConfig {
    /// Open connections. For one more, the connection that has been idle longest is closed; if none is idle, the new
    /// one waits.
    pub connections: usize,
    /// Open connections of one address, except proxies; more are closed. `connection_limit` has the limits for IPv6.
    pub connections_per_address: usize,
    /// The trusted proxies.
    pub proxies: Proxies,
    /// Time limit of a TLS handshake.
    pub handshake_timeout: Duration,
    /// Time limits of everything else that waits for the client.
    pub timeouts: Timeouts,
    /// Time for open requests to finish after the shutdown began.
    pub drain: Duration,
}

/// Serves with `routes` until `shutdown` completes, then finishes open requests. With `tls`, plain requests are
/// refused.
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
        // An accepted connection is served even if the shutdown begins before a place is free.
        let place = tokio::select! {
            biased;
            place = table.place(Arc::clone(&phase)) => Some(place),
            () = &mut shutdown => None,
        };
        let is_last = place.is_none();
        let open = counts.open();
        let connections = Arc::clone(&connections);
        let closing = closing.clone();
        tokio::spawn(async move {
            connections.serve(stream, peer, phase, closing).await;
            drop((place, permit, open));
        });
        if is_last {
            break;
        }
    }
    drop((listener, closing));
    // It does not matter if nobody receives it.
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

/// Accepts the next connection. If the system fails to, closes an idle connection and tries again.
async fn accept(
    listener: &TcpListener,
    table: &ConnectionTable,
    counts: &ConnectionCounts,
    failures: &mut Failures,
) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // A response is one write, so waiting for more would only delay it.
                let _ = stream.set_nodelay(true);
                return (stream, peer);
            }
            Err(error) => {
                counts.refused[Refused::Accept].inc();
                if failures.are_news(Instant::now()) {
                    tracing::warn!(%error, "cannot accept connections; not logged again until a minute passes without it");
                }
                table.evict();
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// When accepting last failed.
#[derive(Debug, Default)]
struct Failures {
    last: Option<Instant>,
}

impl Failures {
    /// Records a failure; whether to log it.
    fn are_news(&mut self, now: Instant) -> bool {
        let last = self.last.replace(now);
        last.is_none_or(|last| now.duration_since(last) >= EPISODE)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::IpAddr;

    use hyper::body::Incoming;
    use warp::http::Request;

    use super::*;
    use crate::serve::net::handler::Sending;
    use crate::serve::reply::response::JSON;

    struct Answering;

    impl Handler for Answering {
        async fn answer(&self, _client: IpAddr, _request: Request<Incoming>) -> Sending {
            JSON.answer("{}").into_http()
        }
    }

    /// As at a restart behind a socket of systemd, for which the next server accepts what this one left.
    #[tokio::test]
    async fn a_connection_that_comes_with_the_shutdown_is_answered_or_left_to_the_next_server() {
        let patience = Duration::from_secs(10);
        let config = ListenerConfig {
            connections: 10,
            connections_per_address: 10,
            proxies: Proxies::default(),
            handshake_timeout: patience,
            timeouts: Timeouts {
                header: patience,
                idle: patience,
                write: patience,
            },
            drain: patience,
        };
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut left = 0;
        // The runtime looks at the connection and at the shutdown in a random order.
        for _ in 0..64 {
            let mut client = std::net::TcpStream::connect(socket.local_addr().unwrap()).unwrap();
            client.set_read_timeout(Some(patience)).unwrap();
            client
                .write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                .unwrap();
            let listener = TcpListener::from_std(socket.try_clone().unwrap()).unwrap();
            // The runtime knows that the socket is readable.
            tokio::time::sleep(Duration::from_millis(1)).await;
            run(listener, Answering, None, config.clone(), Arc::default(), async {}).await;
            if socket.accept().is_ok() {
                left += 1;
                continue;
            }
            let mut answer = String::new();
            client.read_to_string(&mut answer).unwrap();
            assert!(answer.ends_with("{}"), "{answer}");
        }
        assert!(left < 64, "none was accepted");
    }

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
