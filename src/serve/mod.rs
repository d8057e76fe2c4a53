//! The server: binds licenses, signs what they entitle to, and hands out manifests to who may have them.
//!
//! `listener` accepts, `connection` speaks, `routes` dispatches, `validate` and `updates` parse and reply, `gate` decides,
//! `signer` signs. `loading` reads everything for a start, `reload` notices what changed on disk, and `part_files` puts it in
//! force. `admin` answers the operator.

pub mod admin;
pub mod answer;
pub mod buckets;
pub mod client;
pub mod code;
mod conditions;
pub mod connection;
mod connection_table;
pub mod content;
pub mod descriptors;
pub mod drop_guard;
pub mod exposition;
mod fingerprint;
pub mod gate;
mod head;
pub mod health;
pub mod label;
pub mod limits;
pub mod listener;
pub mod loading;
pub mod metrics;
pub mod networks;
pub mod pace;
pub mod part_files;
mod priority;
mod private_key;
pub mod problem;
mod public_files;
pub mod public_folder;
mod query;
pub mod reload;
pub mod request;
pub mod response;
pub mod routes;
mod seats;
mod secret_file;
pub mod signer;
pub mod signing_queue;
pub mod ticks;
pub mod tls;
mod turn;
pub mod updates;
pub mod validate;
mod watch;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::FutureExt;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use self::client::Proxies;
use self::descriptors::Descriptors;
use self::drop_guard::DropGuard;
use self::gate::Gate;
use self::health::{Health, Part, State};
use self::limits::Limits;
use self::listener::Bounds;
use self::loading::Loaded;
use self::metrics::Metrics;
use self::pace::Patience;
use self::part_files::Reloads;
use self::reload::{Reloader, stands_still_after};
use self::signer::Signer;
use self::tls::{Tls, TlsAcceptor};
use crate::config::{LocalHosts, ServeConfig};
use crate::model::error_chain::ErrorChain;
use crate::store::{Bindings, StoreError};

pub use self::fingerprint::FilesSeen;
pub use self::loading::load;
pub use self::part_files::LoadError;

/// What every request shares.
pub struct Service {
    gate: Gate,
    signer: Signer,
    limits: Limits,
    health: Health,
    metrics: Arc<Metrics>,
    descriptors: Descriptors,
    /// Whether no proxy is named, so that none may be in front.
    has_no_proxy: bool,
    reloads: Reloads,
    drop_guard: DropGuard,
    tls: Option<Arc<Tls>>,
    started: DateTime<Utc>,
    public: Arc<Path>,
    request_timeout: Duration,
    grace_period_hours: u32,
    local_hosts: LocalHosts,
}

impl Service {
    /// The answer of `/readyz`.
    fn readiness(&self) -> response::Response {
        self.note_store();
        self.health.readiness()
    }

    /// The store is asked; the other parts were noted when they were loaded.
    fn note_store(&self) {
        let store = self.gate.bindings().health();
        let (state, detail) = match store.state {
            Ok(()) => (State::Ok, None),
            Err(error @ StoreError::NotIndexed(_)) => (State::Stale, Some(error.to_string())),
            Err(error) => (State::Failing, Some(error.to_string())),
        };
        self.health.note(Part::Store, state, detail, store.since);
    }
}

/// A server that is loaded and ready to listen.
pub struct Server {
    service: Arc<Service>,
    reloader: Reloader,
    bounds: Bounds,
    acceptor: Option<TlsAcceptor>,
    admin: Option<TcpListener>,
}

impl Server {
    /// Puts what was loaded in force, and starts the threads that sign and that watch the files.
    ///
    /// # Errors
    /// The machine gives no thread, or there is no runtime here that answers.
    pub fn start(config: &ServeConfig, public: &Path, loaded: Loaded, bindings: Arc<dyn Bindings>) -> io::Result<Self> {
        let Loaded { snapshot, tls, files, fault, started, drop_guard } = loaded;
        drop_guard.accept(&snapshot.registry);
        tracing::info!(
            plugins = snapshot.registry.plugin_count(),
            licenses = snapshot.registry.license_count(),
            releases = snapshot.catalog.releases(),
            key_id = snapshot.key.public().key_id(),
            "loaded"
        );
        let health = Health::new(tls.is_some(), Utc::now(), stands_still_after(config.poll));
        files.iter().for_each(|file| file.tell(&health));
        let acceptor = tls.as_ref().map(Tls::acceptor).transpose().map_err(io::Error::other)?;
        if let Some(fault) = fault {
            health.note(Part::Catalog, State::Failing, Some(ErrorChain(&fault).first_line()), Utc::now());
        }
        let limits = Limits::new(config.requests_per_minute, config.requests_per_license, config.failures_per_minute);
        limits.renumber(limits.new_buckets(snapshot.registry.license_count()));
        let descriptors = Descriptors::raised(config.max_connections.get());
        if descriptors.are_short() {
            tracing::warn!(
                open_files = descriptors.limit,
                max_connections = descriptors.wanted,
                held_at_once = descriptors.connections,
                "the limit on open files allows fewer connections than max_connections: {}",
                Descriptors::HINT
            );
        }
        let service = Arc::new(Service {
            limits,
            gate: Gate::new(snapshot, bindings, config.local_hosts),
            signer: Signer::start(config.signing_queue.get())?,
            health,
            metrics: Arc::default(),
            descriptors,
            has_no_proxy: config.proxies.is_empty(),
            reloads: Reloads::default(),
            drop_guard,
            tls,
            started,
            public: Arc::from(public),
            request_timeout: config.request_timeout,
            grace_period_hours: config.grace_period_hours,
            local_hosts: config.local_hosts,
        });
        let reloader = Reloader::start(&service, files, config.poll)?;
        let bounds = Bounds {
            connections: descriptors.connections,
            connections_per_address: config.connections_per_address.get(),
            proxies: Proxies { networks: config.proxies.clone(), hops: config.proxy_hops.get() },
            handshake_timeout: config.tls_handshake_timeout,
            patience: Patience {
                header: config.header_timeout,
                idle: config.idle_timeout,
                write: config.write_timeout,
            },
            drain: config.drain,
        };
        Ok(Self { service, reloader, bounds, acceptor, admin: None })
    }

    /// A handle that makes the server look at its files at once.
    pub fn reloader(&self) -> Reloader {
        self.reloader.clone()
    }

    /// Answers health and metrics on `listener`.
    pub fn with_admin(self, listener: TcpListener) -> Self {
        Self { admin: Some(listener), ..self }
    }

    /// Serves on `listener` until `shutdown` completes, and lets requests under way finish. The admin listener goes
    /// last.
    pub async fn run(self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        let Self { service, reloader: _reloader, bounds, acceptor, admin } = self;
        let (drained, draining) = oneshot::channel::<()>();
        let public = async {
            let metrics = Arc::clone(&service.metrics);
            listener::run(listener, routes::all(Arc::clone(&service)), acceptor, bounds, metrics, shutdown).await;
            drop(drained);
        };
        let admin = async {
            let Some(listener) = admin else { return };
            let routes = admin::routes(Arc::clone(&service));
            let bounds = admin::bounds(&service.descriptors);
            listener::run(listener, routes, None, bounds, Arc::default(), draining.map(drop)).await;
        };
        tokio::join!(public, admin);
    }
}
