//! The server: binds licenses, signs what they entitle to, and hands out manifests to who may have them.
//!
//! `listener` accepts, `routes` dispatches, `validate` and `updates` parse and reply, `gate` decides, `signer` signs,
//! and `reload` puts in force what changed on disk.

pub mod client;
pub mod gate;
pub mod health;
pub mod limits;
pub mod listener;
pub mod problem;
pub mod reload;
pub mod request;
pub mod routes;
mod seats;
pub mod signer;
pub mod signing_queue;
pub mod updates;
pub mod validate;
mod watch;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use tokio::net::TcpListener;

use self::client::Proxies;
use self::gate::Gate;
use self::health::{Health, Part, State};
use self::limits::Limits;
use self::listener::Bounds;
use self::reload::{Loaded, Reloader};
use self::signer::Signer;
use crate::config::{LocalHosts, ServeConfig};
use crate::model::error_chain::ErrorChain;
use crate::store::Bindings;

pub use self::reload::{LoadError, load};

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
    /// Puts what was loaded in force, and starts the threads that sign and that watch the files.
    ///
    /// # Errors
    /// The machine gives no thread.
    pub fn start(config: &ServeConfig, public: &Path, loaded: Loaded, bindings: Arc<dyn Bindings>) -> io::Result<Self> {
        let Loaded { snapshot, files, fault } = loaded;
        tracing::info!(
            plugins = snapshot.registry.plugin_count(),
            licenses = snapshot.registry.license_count(),
            releases = snapshot.catalog.releases(),
            key_id = snapshot.key.public().key_id(),
            "loaded"
        );
        let health = Health::new(Utc::now());
        if let Some(fault) = fault {
            health.note(Part::Catalog, State::Failing, Some(ErrorChain(&fault).first_line()), Utc::now());
        }
        let service = Arc::new(Service {
            gate: Gate::new(snapshot, bindings, config.local_hosts),
            signer: Signer::start(config.signing_queue.get())?,
            limits: Limits::new(config.requests_per_minute, config.requests_per_license, config.failures_per_minute),
            health,
            public: public.to_owned(),
            request_timeout: config.request_timeout,
            grace_period_hours: config.grace_period_hours,
            local_hosts: config.local_hosts,
        });
        let reloader = Reloader::start(&service, files, config.poll)?;
        let bounds = Bounds {
            connections: config.max_connections.get(),
            connections_per_address: config.connections_per_address.get(),
            proxies: Proxies { networks: config.proxies.clone(), hops: config.proxy_hops.get() },
            header_timeout: config.request_timeout,
            write_timeout: config.request_timeout,
            drain: config.drain,
        };
        Ok(Self { service, reloader, bounds })
    }

    /// A handle that makes the server look at its files at once.
    pub fn reloader(&self) -> Reloader {
        self.reloader.clone()
    }

    /// Serves on `listener` until `shutdown` completes, and lets requests under way finish.
    pub async fn run(self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        listener::run(listener, routes::all(Arc::clone(&self.service)), self.bounds, shutdown).await;
    }
}
