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
use warp::http::{Method, Request};
use warp::{Filter, Rejection, Reply};

use super::answer::{Answer, Answering, at_once, filters, later, problem};
use super::code::Code;
use super::metrics::Operation;
use super::problem::Problem;
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
    fn answer(&self, client: IpAddr, request: Request<Incoming>) -> Answering<'_> {
        let service = &*self.service;
        let requests = &service.metrics.requests;
        let path = request.uri().path();
        if let Some(slug) = path.strip_prefix(UPDATES).filter(|slug| !slug.is_empty() && !slug.contains('/')) {
            if request.method() != Method::GET {
                return at_once(requests.refuse(Operation::Updates, Problem::MethodNotAllowed("GET")));
            }
            let started = Instant::now();
            let query = request.uri().query().unwrap_or_default();
            let ended = updates::reply(service, client, slug, request.headers(), query);
            at_once(requests.answer(Operation::Updates, started, ended))
        } else if path == VALIDATE {
            if request.method() != Method::POST {
                return at_once(requests.refuse(Operation::Validate, Problem::MethodNotAllowed("POST")));
            }
            later(async move {
                let started = Instant::now();
                let unanswered = requests.expect_answer();
                let reply = validate::reply(service, client, request);
                let ended = tokio::time::timeout(service.request_timeout, reply).await;
                unanswered.answered();
                requests.answer(Operation::Validate, started, ended.unwrap_or(Err(Problem::RequestTimeout)))
            })
        } else {
            self.public.answer(client, request)
        }
    }
}
