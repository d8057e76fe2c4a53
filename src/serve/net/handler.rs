//! Handlers answer the requests of a listener: our own code, or warp's filters.
//!
//! `connection` calls the handler once it has checked a request's head, and catches its panics.

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
    /// The response to a client over its rate limit. Called first for every request.
    fn refusal(&self, _client: IpAddr, _head: &Request<Incoming>) -> Option<Response> {
        None
    }

    /// Records a request that was refused with this code before it reached the handler.
    fn failed(&self, _client: IpAddr, _code: Code) {}

    /// Answers a request from the client at this address.
    fn answer(&self, client: IpAddr, request: Request<Incoming>) -> impl Future<Output = Sending> + Send;
}

/// A future response.
pub type Sending = http::Response<ReplyBody>;

/// A handler made of filters, which does not look at the client.
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

/// For a request that no filter accepted: not found, or wrong method. Filters accept only GET and HEAD.
pub fn problem(rejection: &Rejection) -> Problem {
    match rejection.find::<MethodNotAllowed>() {
        Some(_) => Problem::MethodNotAllowed("GET, HEAD"),
        // Also a name that no file can have, or a file that cannot be read.
        None => Problem::NotFound,
    }
}
