//! The admin listener's page: health, readiness and metrics, for the operator and their tools.

pub mod openmetrics;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use warp::http::StatusCode;
use warp::{Filter, Rejection};

use crate::serve::net::client_ip::Proxies;
use crate::serve::net::descriptors::Descriptors;
use crate::serve::net::handler::{Handler, filters, problem};
use crate::serve::net::listener::ListenerConfig;
use crate::serve::net::timeouts::Timeouts;
use crate::serve::reply::problem::Problem;
use crate::serve::reply::response::{ContentType, JSON, Response};
use crate::serve::state::Service;

/// Connections at once: a few tools ask, and none is more than a few.
const CONNECTIONS: usize = 64;

/// How long each thing may take that waits for a tool.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long the last answers may take when the server stops.
const DRAIN: Duration = Duration::from_secs(1);

/// `/healthz`, `/readyz` and `/metrics`.
pub fn routes(service: Arc<Service>) -> impl Handler {
    let service = warp::any().map(move || Arc::clone(&service));
    let get = || warp::get().or(warp::head()).unify();
    let healthz = warp::path!("healthz")
        .and(get())
        .map(|| ContentType("text/plain; charset=utf-8").answer("alive\n"));
    let readyz = warp::path!("readyz")
        .and(get())
        .and(service.clone())
        .map(|service: Arc<Service>| readiness(&service));
    let metrics = warp::path!("metrics")
        .and(get())
        .and(service)
        .then(|service: Arc<Service>| async {
            // It counts what is held, which takes some milliseconds for a million bindings.
            let page = tokio::task::spawn_blocking(move || openmetrics::page(service)).await;
            page.unwrap_or_else(|error| Problem::internal(&error).into_response())
        });
    let refuse = |rejection: Rejection| async move { Ok::<_, Infallible>(problem(&rejection).into_response()) };
    filters(healthz.or(readyz).unify().or(metrics).unify().recover(refuse).unify())
}

/// 200 while the server is ready, else 503.
fn readiness(service: &Service) -> Response {
    let readiness = service.readiness();
    // Strings and a bool: nothing in it can fail to serialize.
    let body = serde_json::to_vec_pretty(&readiness).unwrap_or_default();
    let status = if readiness.ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    Response {
        status,
        ..JSON.answer(body)
    }
}

/// What the admin listener takes.
pub fn listener_config(descriptors: &Descriptors) -> ListenerConfig {
    ListenerConfig {
        connections: descriptors.admin_connections(CONNECTIONS),
        connections_per_address: CONNECTIONS,
        proxies: Proxies::default(),
        handshake_timeout: PATIENCE,
        timeouts: Timeouts {
            header: PATIENCE,
            idle: 6 * PATIENCE,
            write: PATIENCE,
        },
        drain: DRAIN,
    }
}
