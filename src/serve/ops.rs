//! What the operator asks: health, readiness and metrics on the admin listener, and commands on the admin socket.

pub mod admin_socket;
pub mod attach_answers;
pub mod command_user;
pub mod commands;
pub mod customer_answers;
pub mod desk_answers;
pub mod issue_answers;
pub mod license_answers;
pub mod openmetrics;
pub mod regrant_answers;
pub mod reports;
pub mod rollout_answers;
pub mod text_answers;
pub mod token_answers;

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use warp::http::uri::Authority;
use warp::http::{Request, StatusCode, header};
use warp::{Filter, Rejection};

use crate::serve::net::client_ip::Proxies;
use crate::serve::net::descriptors::Descriptors;
use crate::serve::net::handler::{Handler, Sending, filters, problem};
use crate::serve::net::listener::ListenerConfig;
use crate::serve::net::timeouts::Timeouts;
use crate::serve::reply::problem::Problem;
use crate::serve::reply::response::{JSON, Response};
use crate::serve::state::Service;
use countersign_settings::config::AdminHost;

/// The connection limit: only a few tools connect.
const CONNECTIONS: usize = 64;

/// Time limits of everything that waits for a tool.
const PATIENCE: Duration = Duration::from_secs(10);

/// Time for the last responses when the server stops.
const DRAIN: Duration = Duration::from_secs(1);

/// `/healthz`, `/readyz` and `/metrics`, for clients that call this machine by an IP address, `localhost` or one of `hosts`.
pub fn routes(service: Arc<Service>, hosts: Vec<AdminHost>) -> impl Handler {
    let service = warp::any().map(move || Arc::clone(&service));
    let get = || warp::get().or(warp::head()).unify();
    let healthz = warp::path!("healthz")
        .and(get())
        .map(|| Response::text(StatusCode::OK, "alive\n"));
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
    let refuse = |rejection: Rejection| async move { Ok::<_, Infallible>(problem(&rejection).into_response()) };
    let routes = filters(healthz.or(readyz).unify().or(metrics).unify().recover(refuse).unify());
    HostGuard { hosts, routes }
}

/// Refuses requests for the names of others.
// SECURITY: a page in the operator's browser can give its own name this machine's address, and then read what it gets
// (DNS rebinding). The name is in its request.
struct HostGuard<H> {
    hosts: Vec<AdminHost>,
    routes: H,
}

impl<H: Handler> Handler for HostGuard<H> {
    fn refusal(&self, _client: IpAddr, head: &Request<Incoming>) -> Option<Response> {
        (!names_us(head, &self.hosts)).then(|| Problem::Misdirected.into_response())
    }

    async fn answer(&self, client: IpAddr, request: Request<Incoming>) -> Sending {
        self.routes.answer(client, request).await
    }
}

/// Whether the host of a request is an IP address, `localhost` or one of `hosts`. A request without a host names nobody else;
/// HTTP/1.1 refuses it elsewhere.
fn names_us<B>(request: &Request<B>, hosts: &[AdminHost]) -> bool {
    let named = request.headers().get_all(header::HOST);
    let named = named.iter().filter(|host| !host.is_empty());
    // The host of an absolute target goes before the header (RFC 9112 section 3.2.2), so both have to be ours.
    let of_target = request.uri().authority().cloned();
    named
        .map(|host| Authority::try_from(host.as_bytes()).ok())
        .chain(of_target.map(Some))
        // What is no host is refused elsewhere.
        .flatten()
        .all(|authority| is_ours(authority.host(), hosts))
}

fn is_ours(host: &str, hosts: &[AdminHost]) -> bool {
    let ip = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    let name = host.strip_suffix('.').unwrap_or(host);
    ip.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || hosts.iter().any(|AdminHost(ours)| name.eq_ignore_ascii_case(ours))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_for_a_foreign_name_is_not_ours() {
        let hosts = ["metrics.example.com".parse().unwrap()];
        let ours = |target: &str, host: Option<&str>| {
            let request = Request::get(target);
            let request = host
                .into_iter()
                .fold(request, |request, host| request.header("Host", host));
            names_us(&request.body(()).unwrap(), &hosts)
        };
        for host in [
            "127.0.0.1:8081",
            "10.0.0.7",
            "[::1]:8081",
            "[2001:db8::1]",
            "localhost",
            "LOCALHOST:8081",
            "localhost.",
            "Metrics.Example.com:443",
            "",
        ] {
            assert!(ours("/readyz", Some(host)), "{host}");
        }
        assert!(ours("/readyz", None));
        for host in [
            "evil.example",
            "evil.example:8081",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "notmetrics.example.com",
            "example.com",
        ] {
            assert!(!ours("/readyz", Some(host)), "{host}");
            assert!(!ours(&format!("http://{host}/readyz"), Some("localhost")), "{host}");
            assert!(!ours("http://localhost/readyz", Some(host)), "{host}");
        }
    }
}
