//! The whole HTTP surface on one page.
//!
//! | method | path | answered by |
//! |---|---|---|
//! | POST | `/api/v1/validate-license` | [`validate`] |
//! | GET | `/api/v1/updates/<plugin>` | [`updates`] |
//! | GET, HEAD | anything else | a file of `public/` |

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use hyper::body::Incoming;
use warp::http::{HeaderMap, Method, Request};
use warp::{Filter, Rejection, Reply};

use super::answer::{Answer, Sending, filters, problem};
use super::code::Code;
use super::metrics::Operation;
use super::problem::Problem;
use super::response::Response;
use super::{Service, updates, validate};

const VALIDATE: &str = "/api/v1/validate-license";
const UPDATES: &str = "/api/v1/updates/";

/// Everything the server answers in public. Each request is counted; the operations have a deadline, and public files are
/// bounded by how fast they are taken.
pub fn all(service: Arc<Service>) -> impl Answer {
    let counting = Arc::clone(&service);
    let files = warp::fs::dir(service.public.clone()).map(move |file: warp::fs::File| {
        counting.metrics.requests.of(Operation::Public).outcomes.add(Code::Ok);
        file.into_response()
    });
    let refusing = Arc::clone(&service);
    let refuse = move |rejection: Rejection| {
        let response = refusing.metrics.requests.refuse(Operation::Public, problem(&rejection)).into_response();
        async { Ok::<_, Infallible>(response) }
    };
    Routes { service, public: filters(files.recover(refuse).unify()) }
}

/// The two operations are found here and not by warp's filters: those cost as much as the whole decision.
struct Routes<P> {
    service: Arc<Service>,
    public: P,
}

impl<P: Answer> Answer for Routes<P> {
    fn at_once(&self, client: IpAddr, head: &Request<Incoming>) -> Option<Response> {
        let service = &*self.service;
        let requests = &service.metrics.requests;
        let uri = head.uri();
        if let Some(slug) = uri.path().strip_prefix(UPDATES).filter(|slug| !slug.is_empty() && !slug.contains('/')) {
            if head.method() != Method::GET {
                return Some(requests.refuse(Operation::Updates, Problem::MethodNotAllowed("GET")));
            }
            let started = Instant::now();
            let ended = updates::reply(service, client, slug, head.headers(), uri.query().unwrap_or_default());
            Some(requests.answer(Operation::Updates, started, ended))
        } else if uri.path() == VALIDATE && head.method() != Method::POST {
            Some(requests.refuse(Operation::Validate, Problem::MethodNotAllowed("POST")))
        } else {
            None
        }
    }

    async fn later(&self, client: IpAddr, request: Request<Incoming>) -> Sending {
        if request.uri().path() != VALIDATE {
            return self.public.later(client, request).await;
        }
        let service = &*self.service;
        let requests = &service.metrics.requests;
        let started = Instant::now();
        let unanswered = requests.expect_answer();
        let reply = validate::reply(service, client, request);
        let ended = tokio::time::timeout(service.request_timeout, reply).await;
        unanswered.answered();
        let ended = ended.unwrap_or(Err(Problem::RequestTimeout));
        requests.answer(Operation::Validate, started, ended).into_http(HeaderMap::new())
    }
}
