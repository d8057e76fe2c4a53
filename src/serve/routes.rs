//! The whole HTTP surface on one page. Every request is counted here, and its cost is charged to the client's address.
//!
//! | method | path | answered by |
//! |---|---|---|
//! | POST | `/api/v1/validate-license` | [`validate`] |
//! | POST | `/api/v1/release-site` | [`release`] |
//! | GET, HEAD | `/api/v1/updates/<plugin>` | [`updates`] |
//! | GET, HEAD | `/api/v1/downloads/…` | [`downloads`] |
//! | GET, HEAD, POST, PATCH | `/api/v1/licenses…` | [`licenses`] |
//! | POST | `/hooks/<name>` | [`hooks`] |
//! | GET, HEAD, POST | `/` and `/edd` with `edd_action`, if `compat` has `edd` | [`compat`] |
//! | GET, HEAD | anything else | a file of `public/` |

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use hyper::body::Incoming;
use warp::http::{HeaderMap, Method, Request};

use crate::serve::api::licenses::LicenseAnswer;
use crate::serve::api::{downloads, hooks, licenses, release, updates, validate};
use crate::serve::compat;
use crate::serve::links::DOWNLOADS;
use crate::serve::metrics::Operation;
use crate::serve::net::handler::{Handler, Sending};
use crate::serve::public_files;
use crate::serve::reply::outcome::Code;
use crate::serve::reply::problem::Problem;
use crate::serve::reply::response::Response;
use crate::serve::state::Service;

const VALIDATE: &str = "/api/v1/validate-license";
const HOOKS: &str = "/hooks/";
const RELEASE: &str = "/api/v1/release-site";
const UPDATES: &str = "/api/v1/updates/";

/// The handler of the public listener. Every request is counted. Operations have a deadline; public files are limited
/// by how fast the client reads them.
pub fn all(service: Arc<Service>) -> impl Handler {
    let proxy_is_news = AtomicBool::new(service.has_no_proxy);
    Routes { service, proxy_is_news }
}

/// Routed here and not by warp's filters, which cost as much as the whole decision.
struct Routes {
    service: Arc<Service>,
    /// Whether the warning about an unconfigured proxy is still due.
    proxy_is_news: AtomicBool,
}

impl Routes {
    /// Counts a request by its outcome, charges its client, and makes the response.
    fn finish(&self, client: IpAddr, operation: Operation, started: Instant, ended: Ended) -> Response {
        let (code, response) = match ended {
            Ok((code, response)) => {
                self.service.limits.charge(client, code.weight());
                (code, response)
            }
            Err(problem) => {
                self.service.limits.charge(client, problem.weight());
                (problem.code(), problem.into_response())
            }
        };
        self.service.metrics.requests.count(operation, started.elapsed(), code);
        response
    }

    /// The same for a request that was refused before it was timed.
    fn refuse(&self, client: IpAddr, operation: Operation, problem: Problem) -> Response {
        self.service.limits.charge(client, problem.weight());
        self.service.metrics.requests.count_refused(operation, problem.code());
        problem.into_response()
    }

    /// Warns once about an unconfigured proxy: all clients behind it share one rate limit, and one client can use it
    /// up.
    fn look_for_a_proxy(&self, headers: &HeaderMap) {
        if self.proxy_is_news.load(Ordering::Relaxed)
            && headers.contains_key("x-forwarded-for")
            && self.proxy_is_news.swap(false, Ordering::Relaxed)
        {
            tracing::warn!(
                "a request came with X-Forwarded-For, and `proxies` is empty: if a proxy is in front, all its clients share \
                 one rate limit until `proxies` names it"
            );
        }
    }
}

impl Routes {
    async fn updates(&self, client: IpAddr, slug: &str, request: &Request<Incoming>) -> Response {
        // HEAD is answered like GET; hyper omits the body.
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return self.refuse(client, Operation::Updates, Problem::MethodNotAllowed("GET, HEAD"));
        }
        let started = Instant::now();
        let query = request.uri().query().unwrap_or_default();
        let ended = updates::reply(&self.service, slug, request.headers(), query).await;
        self.finish(client, Operation::Updates, started, ended)
    }

    /// An operation with a body, which may change the store.
    async fn post(&self, client: IpAddr, operation: Operation, request: Request<Incoming>) -> Response {
        if request.method() != Method::POST && operation != Operation::Edd {
            return self.refuse(client, operation, Problem::MethodNotAllowed("POST"));
        }
        let service = &*self.service;
        let started = Instant::now();
        let unanswered = service.metrics.requests.expect_answer();
        let reply = async {
            match operation {
                Operation::Release => release::reply(service, request).await.map_err(Problem::in_body),
                Operation::Edd => compat::reply(service, client, request).await,
                _ => validate::reply(service, request).await.map_err(Problem::in_body),
            }
        };
        let ended = tokio::time::timeout(service.request_timeout, reply).await;
        unanswered.answered();
        self.finish(
            client,
            operation,
            started,
            ended.unwrap_or(Err(Problem::RequestTimeout)),
        )
    }

    /// Whether a client of EDD asks.
    fn is_edd(&self, head: &Request<Incoming>) -> bool {
        let is_post = head.method() == Method::POST;
        self.service.answers_edd && compat::is_asked(head.uri().path(), head.uri().query(), is_post)
    }

    async fn hook(&self, client: IpAddr, request: Request<Incoming>) -> Response {
        if request.method() != Method::POST {
            return self.refuse(client, Operation::Hooks, Problem::MethodNotAllowed("POST"));
        }
        let name = hook(request.uri().path()).unwrap_or_default().to_owned();
        let started = Instant::now();
        let reply = hooks::reply(&self.service, client, &name, request);
        let ended = tokio::time::timeout(self.service.request_timeout, reply).await;
        self.finish(
            client,
            Operation::Hooks,
            started,
            ended.unwrap_or(Err(Problem::RequestTimeout)),
        )
    }

    async fn licenses(&self, client: IpAddr, request: Request<Incoming>) -> Sending {
        let service = &*self.service;
        let started = Instant::now();
        let reply = tokio::time::timeout(service.request_timeout, licenses::reply(service, request)).await;
        let (ended, headers) = match reply.unwrap_or(Err(Problem::RequestTimeout)) {
            Ok(LicenseAnswer { response, headers }) => {
                // Its token has a limit of its own: one address sends the sales of a whole shop.
                service.limits.give_back(client);
                (Ok((Code::Ok, response)), headers)
            }
            Err(problem) => (Err(problem), Vec::new()),
        };
        let mut response: Sending = self.finish(client, Operation::Licenses, started, ended).into_http();
        response.headers_mut().extend(headers);
        response
    }

    async fn download(&self, client: IpAddr, path: &str, request: &Request<Incoming>) -> Sending {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let problem = Problem::MethodNotAllowed("GET, HEAD");
            return self.refuse(client, Operation::Downloads, problem).into_http();
        }
        let started = Instant::now();
        match downloads::reply(&self.service, path, request).await {
            Ok((code, response)) => {
                let requests = &self.service.metrics.requests;
                requests.count(Operation::Downloads, started.elapsed(), code);
                response
            }
            Err(problem) => self
                .finish(client, Operation::Downloads, started, Err(problem))
                .into_http(),
        }
    }

    /// The response if the path is not an operation: a public file, or not found, for every method.
    async fn public(&self, client: IpAddr, request: Request<Incoming>) -> Sending {
        let public = &self.service.public;
        let path = request.uri().path();
        let ended = if matches!(*request.method(), Method::GET | Method::HEAD) {
            public_files::reply(public, request.headers(), path).await
        } else if public_files::is_there(public, path).await {
            Err(Problem::MethodNotAllowed("GET, HEAD"))
        } else {
            Err(Problem::NotFound)
        };
        match ended {
            Ok((code, response)) => {
                self.service.metrics.requests.of(Operation::Public).outcomes[code].inc();
                response
            }
            Err(problem) => self.refuse(client, Operation::Public, problem).into_http(),
        }
    }
}

type Ended = Result<(Code, Response), Problem>;

/// The operation of this path.
fn operation(path: &str) -> Operation {
    if slug(path).is_some() {
        Operation::Updates
    } else if path == VALIDATE {
        Operation::Validate
    } else if path == RELEASE {
        Operation::Release
    } else if path.starts_with(DOWNLOADS) {
        Operation::Downloads
    } else if licenses::is_at(path) {
        Operation::Licenses
    } else if hook(path).is_some() {
        Operation::Hooks
    } else {
        Operation::Public
    }
}

/// The shop in a path of the hooks.
fn hook(path: &str) -> Option<&str> {
    path.strip_prefix(HOOKS)
        .filter(|name| !name.is_empty() && !name.contains('/'))
}

/// The plugin in a path of the update operation.
fn slug(path: &str) -> Option<&str> {
    path.strip_prefix(UPDATES)
        .filter(|slug| !slug.is_empty() && !slug.contains('/'))
}

impl Handler for Routes {
    fn refusal(&self, client: IpAddr, head: &Request<Incoming>) -> Option<Response> {
        self.look_for_a_proxy(head.headers());
        let mut problem = Problem::from(self.service.limits.check_address(client).err()?);
        let mut operation = operation(head.uri().path());
        if self.is_edd(head) {
            operation = Operation::Edd;
            problem = compat::unavailable(problem);
        }
        self.service.metrics.requests.count_refused(operation, problem.code());
        Some(problem.into_response())
    }

    fn failed(&self, client: IpAddr, code: Code) {
        self.service.limits.charge(client, code.weight());
    }

    async fn answer(&self, client: IpAddr, request: Request<Incoming>) -> Sending {
        let path = request.uri().path();
        if let Some(slug) = slug(path) {
            self.updates(client, slug, &request).await.into_http()
        } else if path == VALIDATE {
            self.post(client, Operation::Validate, request).await.into_http()
        } else if path == RELEASE {
            self.post(client, Operation::Release, request).await.into_http()
        } else if let Some(path) = path.strip_prefix(DOWNLOADS) {
            self.download(client, path, &request).await
        } else if licenses::is_at(path) {
            self.licenses(client, request).await
        } else if hook(path).is_some() {
            self.hook(client, request).await.into_http()
        } else if self.is_edd(&request) {
            self.post(client, Operation::Edd, request).await.into_http()
        } else {
            self.public(client, request).await
        }
    }
}
