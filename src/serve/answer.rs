//! What answers the requests of a listener: code of our own, or warp's filters.
//!
//! `connection` asks it, once a request's head is found fit; the panic of an answer ends there.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::OnceLock;

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

/// What answers of our own hold. Nobody on the way may keep them for others (RFC 9111 section 5.2.2.5).
#[derive(Debug)]
pub struct ContentType {
    name: &'static str,
    /// Made once: an answer took 820 instructions to make, and takes 500 to copy them.
    headers: OnceLock<HeaderMap>,
}

/// JSON (RFC 8259).
pub static JSON: ContentType = ContentType::new("application/json");

impl ContentType {
    /// The content type of this name.
    pub const fn new(name: &'static str) -> Self {
        Self { name, headers: OnceLock::new() }
    }

    /// An answer of this type, 200.
    pub fn answer(&'static self, body: impl Into<Bytes>) -> Response {
        let headers = self.headers.get_or_init(|| {
            let content_type = (header::CONTENT_TYPE, HeaderValue::from_static(self.name));
            HeaderMap::from_iter([content_type, (header::CACHE_CONTROL, HeaderValue::from_static("no-store"))])
        });
        let mut response = Response::new(body.into());
        *response.headers_mut() = headers.clone();
        response
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_answer_says_besides_does_not_stand_in_the_next() {
        let mut first = JSON.answer("{}");
        first.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(1));
        let second = JSON.answer("{}");
        let names: Vec<_> =
            second.headers().iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(names, [("content-type", "application/json"), ("cache-control", "no-store")]);
    }
}
