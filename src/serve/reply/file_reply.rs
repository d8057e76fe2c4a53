//! Responses about a file: all of it, a part (RFC 9110 section 15.3.7), or "not modified" (section 15.4.5).
//!
//! [`public_files`](crate::serve::public_files) and [`downloads`](crate::serve::api::downloads) bring the headers that describe their
//! file, and the body; [`conditions`](crate::serve::reply::conditions) has chosen the range.

use headers::{AcceptRanges, ContentLength, ContentRange, HeaderMapExt};
use warp::http::{self, HeaderMap, HeaderValue, StatusCode, header};

use crate::serve::net::handler::Sending;
use crate::serve::reply::body::ReplyBody;
use crate::serve::reply::conditions::Range;
use crate::serve::reply::outcome::Code;

/// The bytes to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FilePart {
    /// Where they are.
    pub range: Range,
    /// The length of the whole file.
    pub length: u64,
    /// Whether the request was for a range.
    pub is_part: bool,
}

/// 200 with the whole file, or 206 with a part.
pub(crate) fn send(headers: HeaderMap, body: ReplyBody, part: FilePart) -> (Code, Sending) {
    let FilePart { range, length, is_part } = part;
    let mut response = of(headers, body);
    let headers = response.headers_mut();
    headers.typed_insert(AcceptRanges::bytes());
    headers.typed_insert(ContentLength(range.end - range.start));
    if !is_part {
        return (Code::Ok, response);
    }
    if let Ok(part) = ContentRange::bytes(range.start..range.end, length) {
        headers.typed_insert(part);
    }
    *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    (Code::PartialContent, response)
}

/// 304 without a body.
pub(crate) fn not_modified(headers: HeaderMap) -> (Code, Sending) {
    let mut response = of(headers, ReplyBody::default());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    (Code::NotModified, response)
}

/// No browser guesses what a file is.
fn of(mut headers: HeaderMap, body: ReplyBody) -> Sending {
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let mut response = http::Response::new(body);
    *response.headers_mut() = headers;
    response
}
