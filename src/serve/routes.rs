//! The whole HTTP surface on one page.
//!
//! | method | path | answered by |
//! |---|---|---|
//! | POST | `/api/v1/validate-license` | [`validate`] |
//! | GET | `/api/v1/updates/<plugin>` | [`updates`] |
//! | GET, HEAD | `/healthz`, `/readyz` | [`health`] |
//! | GET, HEAD | anything else | a file of `public/` |

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use warp::http::{HeaderMap, Method};
use warp::reject::{MethodNotAllowed, Reject};
use warp::reply::Response;
use warp::{Filter, Rejection, Reply};

use super::client::ClientAddress;
use super::problem::Problem;
use super::{Service, health, updates, validate};

/// Everything the server answers, as one filter that never rejects.
pub fn all(service: Arc<Service>) -> impl Filter<Extract = (impl Reply,), Error = Infallible> + Clone {
    let public = warp::fs::dir(service.public.clone()).map(Reply::into_response);
    let service = warp::any().map(move || Arc::clone(&service));
    let address = warp::ext::get::<ClientAddress>().map(|ClientAddress(address)| address);

    let validate = warp::path!("api" / "v1" / "validate-license")
        .and(only(&[Method::POST], "POST"))
        .and(service.clone())
        .and(address)
        .and(warp::header::headers_cloned())
        .and(warp::body::stream())
        .then(|service: Arc<Service>, address: IpAddr, headers: HeaderMap, body| async move {
            validate::reply(&service, address, headers, body).await.unwrap_or_else(Problem::into_response)
        });
    let updates = warp::path!("api" / "v1" / "updates" / String)
        .and(only(&[Method::GET], "GET"))
        .and(service.clone())
        .and(address)
        .and(warp::header::headers_cloned())
        .and(query())
        .map(|slug: String, service: Arc<Service>, address: IpAddr, headers: HeaderMap, query: String| {
            updates::reply(&service, address, &slug, &headers, &query).unwrap_or_else(Problem::into_response)
        });
    let healthz = warp::path!("healthz").and(only(&[Method::GET, Method::HEAD], "GET, HEAD")).map(health::liveness);
    let readyz = warp::path!("readyz")
        .and(only(&[Method::GET, Method::HEAD], "GET, HEAD"))
        .and(service)
        .map(|service: Arc<Service>| service.readiness());

    validate.or(updates).unify().or(healthz).unify().or(readyz).unify().or(public).unify().recover(problem).unify()
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

fn only(methods: &'static [Method], allowed: &'static str) -> impl Filter<Extract = (), Error = Rejection> + Clone {
    warp::method()
        .and_then(move |asked: Method| {
            let right = methods.contains(&asked);
            async move { if right { Ok(()) } else { Err(warp::reject::custom(WrongMethod { allowed })) } }
        })
        .untuple_one()
}

/// Routing failed: nothing is there, or not for this method.
async fn problem(rejection: Rejection) -> Result<Response, Infallible> {
    let problem = if let Some(WrongMethod { allowed }) = rejection.find() {
        Problem::MethodNotAllowed(allowed)
    } else if rejection.find::<MethodNotAllowed>().is_some() {
        // Only the public files use warp's own method check.
        Problem::MethodNotAllowed("GET, HEAD")
    } else {
        // Also a name no file can have, or a file that cannot be read.
        Problem::NotFound
    };
    Ok(problem.into_response())
}
