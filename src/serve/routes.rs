//! Routes every request of the public listener. Every request is counted here, and its cost is charged to the client's address.
//!
//! | method | path | answered by |
//! |---|---|---|
//! | POST | `/api/v1/validate-license` | [`validate`] |
//! | POST | `/api/v1/release-site` | [`release`] |
//! | GET, HEAD | `/api/v1/updates/<plugin>` | [`updates`] |
//! | GET, HEAD | `/api/v1/releases/<plugin>…` | [`releases`] |
//! | GET, HEAD | `/api/v1/security-updates/<plugin>` | [`releases`] |
//! | GET, HEAD | `/api/v1/downloads/…` | [`downloads`] |
//! | GET, HEAD | `/api/v1/packages/<plugin>…` | [`packages`] |
//! | GET, HEAD | `/composer/…`, if there is a repository for Composer | [`composer`] |
//! | GET, HEAD, POST | `/first-copy/…` | [`first_copy_page`] |
//! | GET, HEAD, POST | `/unsubscribe/…` | [`link_page`] |
//! | GET, HEAD, POST | `/site-claim/…` | [`link_page`] |
//! | GET, HEAD, POST | `/account…`, if there is a customer's page | [`account`] |
//! | GET, HEAD, POST, PATCH | `/api/v1/licenses…`, `/api/v1/reports/…`, `/api/v1/rollouts/…` | [`licenses`] |
//! | POST | `/hooks/<name>` | [`hooks`] |
//! | GET, HEAD, POST | `/` and `/edd` with `edd_action`, if `compat` has `edd` | [`compat`] |
//! | GET, HEAD | anything else | a file of `public/` |

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use hyper::body::Incoming;
use tokio::time::timeout;
use warp::http::{HeaderMap, Method, Request};

use crate::serve::account;
use crate::serve::account::setup::AccountSetup;
use crate::serve::api::licenses::LicenseAnswer;
use crate::serve::api::{downloads, hooks, licenses, packages, release, releases, updates, validate};
use crate::serve::compat;
use crate::serve::composer;
use crate::serve::first_copy_page;
use crate::serve::link_page;
use crate::serve::links::{ComposerRepository, DOWNLOADS};
use crate::serve::metrics::Operation;
use crate::serve::net::handler::{Handler, Sending};
use crate::serve::public_files;
use crate::serve::reply::outcome::Code;
use crate::serve::reply::problem::Problem;
use crate::serve::reply::response::Response;
use crate::serve::state::Service;
use countersign_model::first_copy_link;
use countersign_model::site_claim_token;
use countersign_model::unsubscribe_token;

const VALIDATE: &str = "/api/v1/validate-license";
const RELEASE: &str = "/api/v1/release-site";
const UPDATES: &str = "/api/v1/updates/";
const RELEASES: &str = "/api/v1/releases/";
const SECURITY_UPDATES: &str = "/api/v1/security-updates/";
const PACKAGES: &str = "/api/v1/packages/";
const HOOKS: &str = "/hooks/";

/// What answers a request.
#[derive(Clone, Copy)]
enum Route<'p> {
    Validate,
    Release,
    /// By the plugin's name.
    Updates(&'p str),
    /// By the rest of the path.
    Releases(&'p str),
    /// By the plugin's name.
    SecurityUpdates(&'p str),
    /// By the rest of the path.
    Download(&'p str),
    /// By the rest of the path.
    Package(&'p str),
    /// By the rest of the path.
    Composer(&'p ComposerRepository, &'p str),
    /// By the rest of the path.
    FirstCopy(&'p str),
    /// By the token.
    Unsubscribe(&'p str),
    /// By the token.
    SiteClaim(&'p str),
    Account(&'p Arc<AccountSetup>),
    Licenses,
    /// By the shop's name.
    Hook(&'p str),
    Edd,
    Public,
}

impl<'p> Route<'p> {
    fn of(head: &'p Request<Incoming>, service: &'p Service) -> Self {
        let path = head.uri().path();
        let named = |prefix| {
            path.strip_prefix(prefix)
                .filter(|name: &&str| !name.is_empty() && !name.contains('/'))
        };
        let account = service.account.get();
        let account = account.filter(|account| account.is_asked(path, head.headers()));
        let is_edd = || compat::is_asked(path, head.uri().query(), head.method() == Method::POST);
        if let Some(slug) = named(UPDATES) {
            Self::Updates(slug)
        } else if path == VALIDATE {
            Self::Validate
        } else if path == RELEASE {
            Self::Release
        } else if let Some(rest) = path.strip_prefix(RELEASES) {
            Self::Releases(rest)
        } else if let Some(slug) = named(SECURITY_UPDATES) {
            Self::SecurityUpdates(slug)
        } else if let Some(link) = path.strip_prefix(DOWNLOADS) {
            Self::Download(link)
        } else if let Some(package) = path.strip_prefix(PACKAGES) {
            Self::Package(package)
        } else if let Some(repository) = service.composer.as_ref()
            && let Some(rest) = path.strip_prefix(composer::PATH)
        {
            Self::Composer(repository, rest)
        } else if let Some(page) = path.strip_prefix(first_copy_link::PATH) {
            Self::FirstCopy(page)
        } else if let Some(token) = path.strip_prefix(unsubscribe_token::PATH) {
            Self::Unsubscribe(token)
        } else if let Some(token) = path.strip_prefix(site_claim_token::PATH) {
            Self::SiteClaim(token)
        } else if let Some(account) = account {
            Self::Account(account)
        } else if licenses::is_at(path) {
            Self::Licenses
        } else if let Some(shop) = named(HOOKS) {
            Self::Hook(shop)
        } else if service.answers_edd && is_edd() {
            Self::Edd
        } else {
            Self::Public
        }
    }

    fn operation(self) -> Operation {
        match self {
            Self::Validate => Operation::Validate,
            Self::Release => Operation::Release,
            Self::Updates(_) => Operation::Updates,
            Self::Releases(_) => Operation::Releases,
            Self::SecurityUpdates(_) => Operation::SecurityUpdates,
            Self::Download(_) => Operation::Downloads,
            Self::Package(_) => Operation::Packages,
            Self::Composer(..) => Operation::Composer,
            Self::FirstCopy(_) => Operation::FirstCopies,
            Self::Unsubscribe(_) => Operation::Unsubscribe,
            Self::SiteClaim(_) => Operation::SiteClaim,
            Self::Account(_) => Operation::Account,
            Self::Licenses => Operation::Licenses,
            Self::Hook(_) => Operation::Hooks,
            Self::Edd => Operation::Edd,
            Self::Public => Operation::Public,
        }
    }

    /// The methods it answers, for `Allow`, if this is none of them. HEAD is answered like GET; hyper omits the body.
    fn refused_method(self, method: &Method) -> Option<&'static str> {
        let (is_allowed, allowed) = match self {
            Self::Validate | Self::Release | Self::Hook(_) => (method == Method::POST, "POST"),
            Self::Updates(_)
            | Self::Releases(_)
            | Self::SecurityUpdates(_)
            | Self::Download(_)
            | Self::Package(_)
            | Self::Composer(..)
            | Self::Public => (matches!(*method, Method::GET | Method::HEAD), "GET, HEAD"),
            Self::Edd | Self::FirstCopy(_) | Self::Unsubscribe(_) | Self::SiteClaim(_) | Self::Account(_) => (
                matches!(*method, Method::GET | Method::HEAD | Method::POST),
                "GET, HEAD, POST",
            ),
            // Each of its paths has methods of its own.
            Self::Licenses => return None,
        };
        (!is_allowed).then_some(allowed)
    }
}

/// The handler of the public listener. Every request is counted. Operations with a body have a deadline; the others are
/// limited by how fast the client reads the answer.
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

type Ended = Result<(Code, Response), Problem>;

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

    /// Counts a request that is refused before it is timed, charges its client, and makes the response.
    fn refuse(&self, client: IpAddr, operation: Operation, problem: Problem) -> Response {
        self.service.limits.charge(client, problem.weight());
        self.service.metrics.requests.count_refused(operation, problem.code());
        problem.into_response()
    }

    /// The reply to a request with a body, which may change the store, within the time limit.
    fn in_time<T>(&self, reply: impl Future<Output = Result<T, Problem>>) -> impl Future<Output = Result<T, Problem>> {
        let reply = Box::pin(reply);
        async {
            let unanswered = self.service.metrics.requests.expect_answer();
            let ended = timeout(self.service.request_timeout, reply).await;
            unanswered.answered();
            ended.unwrap_or(Err(Problem::RequestTimeout))
        }
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

    async fn licenses(&self, client: IpAddr, started: Instant, request: Request<Incoming>) -> Sending {
        let service = &*self.service;
        let (ended, headers) = match self.in_time(licenses::reply(service, request)).await {
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
}

impl Handler for Routes {
    fn refusal(&self, client: IpAddr, head: &Request<Incoming>) -> Option<Response> {
        self.look_for_a_proxy(head.headers());
        let mut problem = Problem::from(self.service.limits.check_address(client).err()?);
        let route = Route::of(head, &self.service);
        if matches!(route, Route::Edd) {
            problem = compat::unavailable(problem);
        }
        self.service
            .metrics
            .requests
            .count_refused(route.operation(), problem.code());
        Some(problem.into_response())
    }

    fn failed(&self, client: IpAddr, code: Code) {
        self.service.limits.charge(client, code.weight());
    }

    /// All futures but that of an update are boxed: the future of a request is moved several times before it runs, and with
    /// the others in it, it took 9 kB.
    async fn answer(&self, client: IpAddr, request: Request<Incoming>) -> Sending {
        let service = &self.service;
        let requests = &service.metrics.requests;
        let route = Route::of(&request, service);
        let operation = route.operation();
        if let Some(allowed) = route.refused_method(request.method()) {
            let path = request.uri().path();
            let is_absent =
                operation == Operation::Public && !Box::pin(public_files::is_there(&service.public, path)).await;
            let problem = match is_absent {
                true => Problem::NotFound,
                false => Problem::MethodNotAllowed(allowed),
            };
            return self.refuse(client, operation, problem).into_http();
        }
        let started = Instant::now();
        let ended = match route {
            Route::Validate => {
                let reply = async { validate::reply(service, request).await.map_err(Problem::in_body) };
                self.in_time(reply).await
            }
            Route::Release => {
                let reply = async { release::reply(service, request).await.map_err(Problem::in_body) };
                self.in_time(reply).await
            }
            Route::Updates(slug) => {
                let query = request.uri().query().unwrap_or_default();
                updates::reply(service, slug, request.headers(), query).await
            }
            Route::Releases(path) => {
                let query = request.uri().query().unwrap_or_default();
                Box::pin(releases::earlier(service, path, request.headers(), query)).await
            }
            Route::SecurityUpdates(slug) => {
                let query = request.uri().query().unwrap_or_default();
                Box::pin(releases::security(service, slug, request.headers(), query)).await
            }
            Route::Download(link) => match Box::pin(downloads::reply(service, link, &request)).await {
                Ok((code, response)) => {
                    requests.count(operation, started.elapsed(), code);
                    return response;
                }
                Err(problem) => Err(problem),
            },
            Route::Package(path) => match Box::pin(packages::reply(service, client, path, &request)).await {
                Ok((code, response)) => {
                    requests.count(operation, started.elapsed(), code);
                    return response;
                }
                Err(problem) => Err(problem),
            },
            Route::Composer(repository, path) => {
                let answer = Box::pin(repository.answer(service, client, path, &request)).await;
                service.limits.charge(client, answer.weight);
                requests.count(operation, started.elapsed(), answer.code);
                return answer.response;
            }
            Route::FirstCopy(path) => {
                let path = path.to_owned();
                let page = Box::pin(first_copy_page::reply(service, client, &path, request)).await;
                service.limits.charge(client, page.weight);
                requests.count(operation, started.elapsed(), page.code);
                return page.response;
            }
            Route::Unsubscribe(token) => {
                let token = token.to_owned();
                let page = Box::pin(link_page::unsubscribe(service, &token, request)).await;
                service.limits.charge(client, page.weight);
                requests.count(operation, started.elapsed(), page.code);
                return page.response;
            }
            Route::SiteClaim(token) => {
                let token = token.to_owned();
                let page = Box::pin(link_page::site_claim(service, &token, request)).await;
                service.limits.charge(client, page.weight);
                requests.count(operation, started.elapsed(), page.code);
                return page.response;
            }
            Route::Account(account) => {
                let account = Arc::clone(account);
                let page = Box::pin(account::reply(service, &account, client, request)).await;
                service.limits.charge(client, page.weight);
                requests.count(operation, started.elapsed(), page.code);
                return page.response;
            }
            Route::Licenses => return Box::pin(self.licenses(client, started, request)).await,
            Route::Hook(shop) => {
                let shop = shop.to_owned();
                self.in_time(hooks::reply(service, client, &shop, request)).await
            }
            Route::Edd => self.in_time(compat::reply(service, client, request)).await,
            Route::Public => {
                let path = request.uri().path();
                return match Box::pin(public_files::reply(&service.public, request.headers(), path)).await {
                    Ok((code, response)) => {
                        requests.of(operation).outcomes[code].inc();
                        response
                    }
                    Err(problem) => self.refuse(client, operation, problem).into_http(),
                };
            }
        };
        self.finish(client, operation, started, ended).into_http()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size of the future that a method gives, in bytes.
    fn size<'a, F: Future>(_: impl FnOnce(&'a Routes, IpAddr, Request<Incoming>) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn the_future_of_an_answer_is_small() {
        let size = size(Routes::answer);
        assert!(size <= 1_024, "{size} bytes");
    }
}
