//! The admin listener: health, readiness and metrics, for the operator and their tools; and, for commands, what sites
//! reported, and changes of the ledger.

mod admin_replies;
pub mod admin_token;
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
use crate::serve::ops::import_answers::{ImportAnswers, MAX_IMPORT};
use crate::serve::ops::license_answers::LicenseAnswers;
use crate::serve::ops::reference_answers::ReferenceAnswers;
use crate::serve::ops::reports::{PageQuery, ReportAnswers};
use crate::serve::ops::token_answers::TokenAnswers;
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
    let token = token.map(Arc::new);
    let tokens = Arc::new(TokenAnswers::new(Arc::clone(&service), token.clone()));
    let tokens = warp::path!("tokens").map(move || Arc::clone(&tokens));
    let licenses = Arc::new(LicenseAnswers::new(Arc::clone(&service), token.clone()));
    let stepped = warp::path!("licenses")
        .map(move || Arc::clone(&licenses))
        .and(warp::post())
        .and(warp::header::optional::<String>("authorization"))
        .and(warp::body::content_length_limit(MAX_ORDER))
        .and(warp::body::stream())
        .then(
            |licenses: Arc<LicenseAnswers>, authorization: Option<String>, body| async move {
                licenses.change(authorization.as_deref(), body).await
            },
        );
    let imports = Arc::new(ImportAnswers::new(Arc::clone(&service), token.clone()));
    let imported = warp::path!("imports")
        .map(move || Arc::clone(&imports))
        .and(warp::post())
        .and(warp::header::optional::<String>("authorization"))
        .and(warp::body::content_length_limit(MAX_IMPORT))
        .and(warp::body::stream())
        .then(
            |imports: Arc<ImportAnswers>, authorization: Option<String>, body| async move {
                imports.import(authorization.as_deref(), body).await
            },
        );
    let references = Arc::new(ReferenceAnswers::new(Arc::clone(&service), token.clone()));
    let erased = warp::path!("references")
        .map(move || Arc::clone(&references))
        .and(warp::post())
        .and(warp::header::optional::<String>("authorization"))
        .and(warp::body::content_length_limit(MAX_ORDER))
        .and(warp::body::stream())
        .then(
            |references: Arc<ReferenceAnswers>, authorization: Option<String>, body| async move {
                references.erase(authorization.as_deref(), body).await
            },
        );
    let reports = Arc::new(ReportAnswers::new(Arc::clone(&service), token.clone()));
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
    let defaults = warp::path!("license-defaults")
        .and(warp::get())
        .and(service)
        .and(warp::header::optional::<String>("authorization"))
        .map(move |service: Arc<Service>, authorization: Option<String>| {
            license_defaults::reply(&service, token.as_deref(), authorization.as_deref())
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
    let listed = tokens
        .clone()
        .and(warp::get())
        .and(warp::header::optional::<String>("authorization"))
        .map(|tokens: Arc<TokenAnswers>, authorization: Option<String>| tokens.list(authorization.as_deref()));
    let ordered = tokens
        .and(warp::post())
        .and(warp::header::optional::<String>("authorization"))
        .and(warp::body::content_length_limit(MAX_ORDER))
        .and(warp::body::stream())
        .then(
            |tokens: Arc<TokenAnswers>, authorization: Option<String>, body| async move {
                tokens.change(authorization.as_deref(), body).await
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
