//! What answers the requests of a listener: code of our own, or warp's filters.
//!
//! `connection` asks it, once a request's head is found fit; the panic of an answer ends there.

use std::convert::Infallible;
use std::net::IpAddr;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either, Ready, ready};
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use warp::http::Request;
use warp::reject::MethodNotAllowed;
use warp::reply::Response;
use warp::{Filter, Rejection, Reply};

use super::problem::Problem;

/// Answers requests.
pub trait Answer: Send + Sync + 'static {
    /// Answers a request of the client at this address.
    fn answer(&self, client: IpAddr, request: Request<Incoming>) -> Answering<'_>;
}

/// An answer that is there, or one that has to be waited for: in a box, because a future is moved with every request and
/// these have 2 kB.
pub type Answering<'a> = Either<Ready<Response>, BoxFuture<'a, Response>>;

/// An answer that is there.
pub fn at_once<'a>(response: Response) -> Answering<'a> {
    Either::Left(ready(response))
}

/// An answer that has to be waited for.
pub fn later<'a>(answer: impl Future<Output = Response> + Send + 'a) -> Answering<'a> {
    Either::Right(answer.boxed())
}

/// Lets filters answer, whoever the client is.
pub fn filters<F>(filter: F) -> impl Answer
where
    F: Filter<Error = Infallible> + Clone + Send + Sync + 'static,
    F::Extract: Reply + Send,
    F::Future: Send,
{
    Filters(TowerToHyperService::new(warp::service(filter)))
}

struct Filters<S>(S);

impl<S> Answer for Filters<S>
where
    S: Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send> + Send + Sync + 'static,
{
    fn answer(&self, _client: IpAddr, request: Request<Incoming>) -> Answering<'_> {
        later(self.0.call(request).map(|Ok(response)| response))
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
