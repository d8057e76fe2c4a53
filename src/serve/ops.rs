//! The admin listener: health, readiness and metrics, for the operator and their tools; and, for commands, what sites
//! reported, and changes of the ledger.

mod admin_replies;
pub mod admin_token;
mod command_access;
pub mod import_answers;
pub mod license_answers;
pub mod license_defaults;
pub mod openmetrics;
pub mod reference_answers;
pub mod reports;
pub mod token_answers;

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
use crate::serve::ops::command_access::CommandAccess;
use crate::serve::ops::import_answers::MAX_IMPORT;
use crate::serve::ops::license_defaults::LicenseDefaults;
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

/// Size limit of an order of a command in bytes.
const MAX_ORDER: u64 = 64 << 10;

/// `/healthz`, `/readyz` and `/metrics`; for who has the token, also `/reports`, `/refused`, `/license-defaults`, `/tokens`,
/// `/licenses`, `/imports` and `/references`.
pub fn routes(service: Arc<Service>, token: Option<AdminToken>) -> impl Handler {
    let access = CommandAccess::new(Arc::clone(&service), token);
    let stepped = access.ordered("licenses", MAX_ORDER, license_answers::change);
    let imported = access.ordered("imports", MAX_IMPORT, import_answers::import);
    let erased = access.ordered("references", MAX_ORDER, reference_answers::carry_out);
    let ordered = access.ordered("tokens", MAX_ORDER, token_answers::change);
    let listed = access.told("tokens", |service| token_answers::told(service.gate.bindings()));
    let defaults = access.told("license-defaults", |service| LicenseDefaults::from(service));
    let reports = Arc::new(ReportAnswers::new(access));
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
        .and(service.clone())
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
    let stored = reported
        .or(refused)
        .unify()
        .or(defaults)
        .unify()
        .or(listed)
        .unify()
        .or(ordered)
        .unify()
        .or(stepped)
        .unify()
        .or(imported)
        .unify()
        .or(erased)
        .unify();
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
        // All tools may have one address. If the table is full, it closes idle connections for new ones; this limit would not.
        connections_per_address: usize::MAX,
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
