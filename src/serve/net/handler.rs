//! What answers the requests of a listener: code of our own, or warp's filters.
//!
//! `connection` asks it, once a request's head is found fit; the panic of an answer ends there.

use std::convert::Infallible;
use std::net::IpAddr;

use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use warp::http::{self, Request};
use warp::reject::MethodNotAllowed;
use warp::{Filter, Rejection, Reply, reply};

use crate::serve::reply::body::ReplyBody;
use crate::serve::reply::outcome::Code;
use crate::serve::reply::problem::Problem;
use crate::serve::reply::response::Response;

/// Answers requests.
pub trait Handler: Send + Sync + 'static {
    /// The answer to a client that asks too often. Everything that arrives comes here first.
    fn refusal(&self, _client: IpAddr, _head: &Request<Incoming>) -> Option<Response> {
        None
    }

    /// Takes note of what a client sent that got no further: its request was refused with this code before it was looked at.
    fn failed(&self, _client: IpAddr, _code: Code) {}

    /// The answer to the client at this address.
    fn answer(&self, client: IpAddr, request: Request<Incoming>) -> impl Future<Output = Sending> + Send;
}

/// An answer on its way.
pub type Sending = http::Response<ReplyBody>;

/// Lets filters answer, whoever the client is.
pub fn filters<F>(filter: F) -> impl Handler
where
    F: Filter<Error = Infallible> + Clone + Send + Sync + 'static,
    F::Extract: Reply + Send,
    F::Future: Send,
{
    Filters(TowerToHyperService::new(warp::service(filter)))
}

struct Filters<S>(S);

impl<S> Handler for Filters<S>
where
    S: Service<Request<Incoming>, Response = reply::Response, Error = Infallible, Future: Send> + Send + Sync + 'static,
{
    async fn answer(&self, _client: IpAddr, request: Request<Incoming>) -> Sending {
        let Ok(response) = self.0.call(request).await;
        response.map(ReplyBody::read_while_sent)
    }
}

/// No filter took a request: nothing is there, or not for its method. Filters take GET and HEAD and nothing else.
pub fn problem(rejection: &Rejection) -> Problem {
    match rejection.find::<MethodNotAllowed>() {
        Some(_) => Problem::MethodNotAllowed("GET, HEAD"),
        // Also a name no file can have, or a file that cannot be read.
        None => Problem::NotFound,
    }
}
