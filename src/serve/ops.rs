//! The admin listener: health, readiness and metrics, for the operator and their tools; and, for commands, what sites
//! reported.

pub mod admin_token;
pub mod openmetrics;
pub mod reports;

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
use crate::serve::ops::admin_token::AdminToken;
use crate::serve::ops::reports::{PageQuery, ReportAnswers};
use crate::serve::reply::problem::Problem;
use crate::serve::reply::response::{ContentType, JSON, Response};
use crate::serve::state::Service;

/// The connection limit: only a few tools connect.
const CONNECTIONS: usize = 64;

/// Time limits of everything that waits for a tool.
const PATIENCE: Duration = Duration::from_secs(10);

/// Time for the last responses when the server stops.
const DRAIN: Duration = Duration::from_secs(1);

/// `/healthz`, `/readyz` and `/metrics`; for who has the token, also `/reports` and `/refused`.
pub fn routes(service: Arc<Service>, token: Option<AdminToken>) -> impl Handler {
    let reports = Arc::new(ReportAnswers::new(Arc::clone(&service), token));
    let reports = warp::any().map(move || Arc::clone(&reports));
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
            // It counts the bindings, which takes milliseconds for a million.
            let page = tokio::task::spawn_blocking(move || openmetrics::page(service)).await;
            page.unwrap_or_else(|error| Problem::internal(&error).into_response())
        });
    let page = || {
        warp::get()
            .and(warp::header::optional::<String>("authorization"))
            .and(warp::query::<PageQuery>())
    };
    let reported = warp::path!("reports").and(reports.clone()).and(page()).then(
        |reports: Arc<ReportAnswers>, authorization: Option<String>, query| async move {
            reports.reported(authorization.as_deref(), query).await
        },
    );
    let refused = warp::path!("refused").and(reports).and(page()).then(
        |reports: Arc<ReportAnswers>, authorization: Option<String>, query| async move {
            reports.refused(authorization.as_deref(), query).await
        },
    );
    let stored = reported.or(refused).unify();
    let refuse = |rejection: Rejection| async move { Ok::<_, Infallible>(problem(&rejection).into_response()) };
    filters(
        healthz
            .or(readyz)
            .unify()
            .or(metrics)
            .unify()
            .or(stored)
            .unify()
            .recover(refuse)
            .unify(),
    )
}

/// 200 while the server is ready, else 503.
fn readiness(service: &Service) -> Response {
    let readiness = service.readiness();
    // Strings and a bool always serialize.
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

/// The limits of the admin listener.
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
