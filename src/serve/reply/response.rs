//! A response in compact form: it is passed on several times, and gets its headers only when it is sent.
//!
//! Documents and statements are sent so. `public_files` and `api::downloads` make the headers of files themselves, and
//! all of them pass `net::connection`.

use bytes::Bytes;
use serde::Serialize;
use warp::http::{self, HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use warp::{Reply, reply};

use crate::serve::reply::body::Payload;

/// A response.
#[derive(Debug)]
pub struct Response {
    /// The status.
    pub status: StatusCode,
    /// The media type of the body.
    pub content_type: ContentType,
    /// A header that few responses have.
    pub extra: Option<ExtraHeader>,
    /// The body.
    pub body: Payload,
}

/// A media type (RFC 9110 section 8.3.1).
#[derive(Clone, Copy, Debug)]
pub struct ContentType(pub &'static str);

/// JSON (RFC 8259).
pub const JSON: ContentType = ContentType("application/json");

/// A header that few responses have.
#[derive(Clone, Copy, Debug)]
pub enum ExtraHeader {
    /// The methods that an address supports.
    Allow(&'static str),
    /// What to authenticate with (RFC 6750 section 3).
    Bearer,
    /// Seconds until the client should try again.
    RetryAfter(u64),
    /// This is the connection's last response.
    Close,
    /// The length of a file that has nothing in the requested range (RFC 9110 section 14.4).
    NoRange(u64),
}

impl ContentType {
    /// A response of this type, 200.
    pub fn answer(self, body: impl Into<Bytes>) -> Response {
        Response {
            status: StatusCode::OK,
            content_type: self,
            extra: None,
            body: Payload::Whole(body.into()),
        }
    }
}

impl Response {
    /// A line for a person.
    pub fn text(status: StatusCode, line: impl Into<Bytes>) -> Self {
        Self {
            status,
            ..ContentType("text/plain; charset=utf-8").answer(line)
        }
    }

    /// JSON of texts, numbers and times, which always serialize.
    pub fn json(value: &impl Serialize) -> Self {
        JSON.answer(serde_json::to_vec(value).unwrap_or_default())
    }

    /// The response for hyper. No cache on the way may store it (RFC 9111 section 5.2.2.5).
    pub fn into_http<B: From<Payload>>(self) -> http::Response<B> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type.0));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if let Some((name, value)) = self.extra.map(ExtraHeader::header) {
            headers.insert(name, value);
        }
        let mut response = http::Response::new(self.body.into());
        *response.status_mut() = self.status;
        *response.headers_mut() = headers;
        response
    }
}

impl ExtraHeader {
    /// Its name and value.
    pub(crate) fn header(self) -> (HeaderName, HeaderValue) {
        match self {
            Self::Allow(methods) => (header::ALLOW, HeaderValue::from_static(methods)),
            Self::Bearer => (header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")),
            Self::RetryAfter(seconds) => (header::RETRY_AFTER, HeaderValue::from(seconds)),
            Self::Close => (header::CONNECTION, HeaderValue::from_static("close")),
            Self::NoRange(length) => (header::CONTENT_RANGE, no_range(length)),
        }
    }
}

fn no_range(length: u64) -> HeaderValue {
    // Digits and signs are always a valid value.
    HeaderValue::try_from(format!("bytes */{length}")).unwrap_or(HeaderValue::from_static("bytes */0"))
}

impl Reply for Response {
    fn into_response(self) -> reply::Response {
        self.into_http::<Bytes>().map(Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_the_headers_of_every_answer_and_its_own() {
        let answer = Response {
            extra: Some(ExtraHeader::RetryAfter(7)),
            ..JSON.answer("{}")
        };
        let answer: http::Response<Bytes> = answer.into_http();
        let headers: Vec<_> = answer
            .headers()
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
            .collect();
        assert_eq!(
            headers,
            [
                ("content-type", "application/json"),
                ("cache-control", "no-store"),
                ("x-content-type-options", "nosniff"),
                ("retry-after", "7")
            ]
        );
        assert_eq!((answer.status(), &answer.body()[..]), (StatusCode::OK, &b"{}"[..]));
    }
}
