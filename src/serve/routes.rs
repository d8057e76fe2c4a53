//! The whole HTTP surface on one page.
//!
//! | method | path | answered by |
//! |---|---|---|
//! | POST | `/api/v1/validate-license` | [`validate`] |
//! | GET | `/api/v1/updates/<plugin>` | [`updates`] |
//! | GET, HEAD | anything else | a file of `public/` |
//!
//! The admin listener's own page is [`admin`](super::admin).

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use warp::http::{HeaderMap, Method};
use warp::reject::{MethodNotAllowed, Reject};
use warp::{Filter, Rejection, Reply};

use super::client::ClientAddress;
use super::code::Code;
use super::metrics::Operation;
use super::problem::Problem;
use super::{Service, updates, validate};

/// Everything the server answers, as one filter that never rejects. Each request is counted, and has a deadline.
pub fn all(service: Arc<Service>) -> impl Filter<Extract = (impl Reply,), Error = Infallible> + Clone {
    let metrics = Arc::clone(&service.metrics);
    let refusals = Arc::clone(&service.metrics);
    let public = warp::fs::dir(service.public.clone()).map(move |file: warp::fs::File| {
        metrics.requests.of(Operation::Public).outcomes.add(Code::Ok);
        file.into_response()
    });
    let service = warp::any().map(move || Arc::clone(&service));
    let address = warp::ext::get::<ClientAddress>().map(|ClientAddress(address)| address);

    let validate = warp::path!("api" / "v1" / "validate-license")
        .and(only(&[Method::POST], "POST"))
        .and(service.clone())
        .and(address)
        .and(warp::header::headers_cloned())
        .and(warp::body::stream())
        .then(|service: Arc<Service>, address: IpAddr, headers: HeaderMap, body| {
            // In a box: a future is moved with every request, and this one has 2 kB.
            Box::pin(async move {
                let started = Instant::now();
                let reply = validate::reply(&service, address, headers, body);
                let ended = tokio::time::timeout(service.request_timeout, reply).await;
                let ended = ended.unwrap_or(Err(Problem::RequestTimeout));
                service.metrics.requests.answer(Operation::Validate, started, ended)
            })
        });
    let updates = warp::path!("api" / "v1" / "updates" / String)
        .and(only(&[Method::GET], "GET"))
        .and(service)
        .and(address)
        .and(headers_with_credentials())
        .and(query())
        .map(|slug: String, service: Arc<Service>, address: IpAddr, headers: HeaderMap, query: String| {
            let started = Instant::now();
            let ended = updates::reply(&service, address, &slug, &headers, &query);
            service.metrics.requests.answer(Operation::Updates, started, ended)
        });
    let refuse = move |rejection: Rejection| {
        let response = refusals.requests.refuse(Operation::Public, problem(&rejection));
        async { Ok::<_, Infallible>(response) }
    };

    // What is asked most comes first.
    updates.or(validate).unify().or(public.boxed()).unify().recover(refuse).unify()
}

/// The headers where there are credentials in them, else none: a copy of all costs more than the decision.
fn headers_with_credentials() -> impl Filter<Extract = (HeaderMap,), Error = Infallible> + Clone {
    let all = warp::header::value("authorization").and(warp::header::headers_cloned());
    all.map(|_, headers| headers).or(warp::any().map(HeaderMap::new)).unify()
}

/// The query as it was sent; empty where there is none.
fn query() -> impl Filter<Extract = (String,), Error = Infallible> + Clone {
    warp::query::raw().or(warp::any().map(String::new)).unify()
}

/// The path is right and the method is not: an answer of its own, which no other route takes back.
#[derive(Debug)]
struct WrongMethod {
    allowed: &'static str,
}

impl Reject for WrongMethod {}

/// Takes a request with one of `methods`; `allowed` tells them to whoever used another.
pub fn only(methods: &'static [Method], allowed: &'static str) -> impl Filter<Extract = (), Error = Rejection> + Clone {
    warp::method()
        .and_then(move |asked: Method| {
            let right = methods.contains(&asked);
            async move { if right { Ok(()) } else { Err(warp::reject::custom(WrongMethod { allowed })) } }
        })
        .untuple_one()
}

/// Routing failed: nothing is there, or not for this method.
pub fn problem(rejection: &Rejection) -> Problem {
    if let Some(WrongMethod { allowed }) = rejection.find() {
        Problem::MethodNotAllowed(allowed)
    } else if rejection.find::<MethodNotAllowed>().is_some() {
        // Only the public files use warp's own method check.
        Problem::MethodNotAllowed("GET, HEAD")
    } else {
        // Also a name no file can have, or a file that cannot be read.
        Problem::NotFound
    }
}
