//! `countersign preview`: shows a plugin's releases as the CMS will, before anyone else sees them.
//!
//! `target` says what to preview, `snapshot` reads it, `live` reads it again, `view` picks a version and a `site`,
//! `page`, `terminal` and `json` show it, `routes` serves the page to this machine. Nothing is written, and nothing
//! is shared with `serve`.

pub mod compare;
pub mod json;
pub mod license_mail;
pub mod license_states;
pub mod live;
mod markup;
pub mod package;
pub mod page;
pub mod printed;
pub mod routes;
pub mod site;
pub mod snapshot;
pub mod target;
pub mod terminal;
pub mod view;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::preview::live::LatestSnapshot;
use crate::preview::routes::Preview;
use crate::preview::target::Target;

/// Open connections: a browser opens six, and an open page holds one of them.
const CONNECTIONS: usize = 64;

/// Event streams among them. The rest is for requests.
const STREAMS: usize = 48;

/// Time for a request to arrive, also on an idle connection.
const PATIENCE: Duration = Duration::from_secs(30);

/// Time for open requests after the shutdown.
const DRAIN: Duration = Duration::from_secs(1);

/// Serves the preview of `target` on `listener`, which must have a loopback address, until `shutdown`.
pub async fn run(
    listener: TcpListener,
    target: Arc<Target>,
    latest: watch::Receiver<LatestSnapshot>,
    shutdown: impl Future<Output = ()>,
) {
    let (end, ending) = watch::channel(false);
    let run = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_micros()
        .to_string();
    let streams = Arc::new(Semaphore::new(STREAMS));
    let routes = routes::all(Arc::new(Preview {
        target,
        latest,
        run,
        streams,
        ending,
    }));
    let service = TowerToHyperService::new(warp::service(routes));
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    let graceful = GracefulShutdown::new();
    tokio::pin!(shutdown);
    loop {
        let (stream, permit) = tokio::select! {
            accepted = accept(&listener, &permits) => accepted,
            () = &mut shutdown => break,
        };
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(PATIENCE)
            .serve_connection(TokioIo::new(stream), service.clone());
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            // A disconnecting browser is not an error.
            let _ = connection.await;
            drop(permit);
        });
    }
    end.send_replace(true);
    // Requests that have not finished by then are dropped.
    let _ = tokio::time::timeout(DRAIN, graceful.shutdown()).await;
}

async fn accept(listener: &TcpListener, permits: &Arc<Semaphore>) -> (TcpStream, Option<OwnedSemaphorePermit>) {
    // The semaphore is never closed.
    let permit = Arc::clone(permits).acquire_owned().await.ok();
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            return (stream, permit);
        }
        // Mostly no file descriptors are left, and some will be free soon.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
