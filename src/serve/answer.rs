//! What answers the requests of a listener: code of our own, or warp's filters.
//!
//! `connection` asks it, once a request's head is found fit; the panic of an answer ends there.

use std::convert::Infallible;
use std::net::IpAddr;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either, Ready, ready};
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use warp::http::{self, HeaderMap, HeaderValue, Request, header};
use warp::reject::MethodNotAllowed;
use warp::{Filter, Rejection, Reply, reply};

use super::content::Content;
use super::problem::Problem;

/// Answers requests.
pub trait Answer: Send + Sync + 'static {
    /// Answers a request of the client at this address.
    fn answer(&self, client: IpAddr, request: Request<Incoming>) -> Answering<'_>;
}

/// An answer of our own, whole.
pub type Response = http::Response<Bytes>;

/// An answer on its way.
pub type Sending = http::Response<Content>;

/// An answer that is there, or one that has to be waited for: in a box, because a future is moved with every request and
/// these have 2 kB.
pub type Answering<'a> = Either<Ready<Sending>, BoxFuture<'a, Sending>>;

/// An answer that nobody on the way may keep for others (RFC 9111 section 5.2.2.5).
pub fn not_to_be_stored(content_type: &'static str, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(body.into());
    let mut headers = HeaderMap::with_capacity(2);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    *response.headers_mut() = headers;
    response
}

/// An answer that is there.
pub fn at_once<'a>(response: Response) -> Answering<'a> {
    Either::Left(ready(response.map(Content::from)))
}

/// An answer that has to be waited for.
pub fn later<'a>(answer: impl Future<Output = Response> + Send + 'a) -> Answering<'a> {
    Either::Right(answer.map(|response| response.map(Content::from)).boxed())
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
    S: Service<Request<Incoming>, Response = reply::Response, Error = Infallible, Future: Send> + Send + Sync + 'static,
{
    fn answer(&self, _client: IpAddr, request: Request<Incoming>) -> Answering<'_> {
        Either::Right(self.0.call(request).map(|Ok(response)| response.map(Content::read_while_sent)).boxed())
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
