//! The server: binds licenses, signs what they entitle to, and hands out manifests to who may have them.
//!
//! `listener` accepts, `routes` dispatches, `validate` and `updates` parse and reply, `gate` decides, `signer` signs,
//! and `reload` puts in force what changed on disk.

pub mod gate;
pub mod health;
pub mod limits;
pub mod listener;
pub mod problem;
pub mod reload;
pub mod request;
pub mod routes;
pub mod signer;
pub mod updates;
pub mod validate;
mod watch;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use tokio::net::TcpListener;

use self::gate::Gate;
use self::health::{Health, Part, State};
use self::limits::Limits;
use self::listener::Bounds;
use self::reload::{Loaded, Reloader};
use self::signer::Signer;
use crate::config::{Config, LocalHosts};
use crate::store::Bindings;

pub use self::reload::LoadError;

/// What every request shares.
pub struct Service {
    gate: Gate,
    signer: Signer,
    limits: Limits,
    health: Health,
    public: PathBuf,
    request_timeout: Duration,
    grace_period_hours: u32,
    local_hosts: LocalHosts,
}

impl Service {
    /// The answer of `/readyz`; the store is asked, the other parts were noted when they were loaded.
    fn readiness(&self) -> warp::reply::Response {
        let store = self.gate.bindings().health();
        let (state, detail) = match store.state {
            Ok(()) => (State::Ok, None),
            Err(error) => (State::Failing, Some(error.to_string())),
        };
        self.health.note(Part::Store, state, detail, store.since);
        self.health.readiness()
    }
}

/// A server that is loaded and ready to listen.
pub struct Server {
    service: Arc<Service>,
    reloader: Reloader,
    bounds: Bounds,
}

impl Server {
    /// Loads the instance and starts the threads that sign and that watch the files.
    ///
    /// # Errors
    /// The key, the registry or the releases are not fit to start with, or the machine gives no thread.
    pub fn start(config: &Config, bindings: Arc<dyn Bindings>) -> Result<Self, StartError> {
        let Loaded { snapshot, files } = reload::load(&config.paths)?;
        let serve = &config.serve;
        tracing::info!(
            plugins = snapshot.registry.plugin_count(),
            licenses = snapshot.registry.license_count(),
            releases = snapshot.catalog.releases(),
            key_id = snapshot.key.public().key_id(),
            "loaded"
        );
        let service = Arc::new(Service {
            gate: Gate::new(snapshot, bindings, serve.local_hosts),
            signer: Signer::start(serve.signing_queue.get())?,
            limits: Limits::new(serve.requests_per_minute),
            health: Health::new(Utc::now()),
            public: config.paths.public.clone(),
            request_timeout: serve.request_timeout,
            grace_period_hours: serve.grace_period_hours,
            local_hosts: serve.local_hosts,
        });
        let reloader = Reloader::start(&service, files, serve.poll)?;
        let bounds = Bounds {
            connections: serve.max_connections.get(),
            header_timeout: serve.request_timeout,
            drain: serve.drain,
        };
        Ok(Self { service, reloader, bounds })
    }

    /// A handle that makes the server look at its files at once.
    pub fn reloader(&self) -> Reloader {
        self.reloader.clone()
    }

    /// Serves on `listener` until `shutdown` completes, and lets requests under way finish.
    pub async fn run(self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        let sweeping = tokio::spawn(sweep(Arc::clone(&self.service)));
        listener::run(listener, routes::all(Arc::clone(&self.service)), self.bounds, shutdown).await;
        sweeping.abort();
    }
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A file is not fit to start with.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The machine gives no thread.
    #[error("a thread cannot be started")]
    Thread(#[from] io::Error),
}

async fn sweep(service: Arc<Service>) {
    loop {
        tokio::time::sleep(limits::SWEEP_INTERVAL).await;
        service.limits.sweep();
    }
}
