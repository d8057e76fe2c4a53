//! Bodies of requests, whole and up to a limit.

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use serde::Deserialize;
use serde_path_to_error::{Path, Segment};
use warp::http::{HeaderMap, HeaderValue, Request, header};

use crate::serve::reply::problem::Problem;

/// Reads a body of at most `limit` bytes.
///
/// # Errors
/// It has a content coding, is larger, or did not arrive.
pub(crate) async fn read(request: Request<Incoming>, limit: usize) -> Result<Bytes, Problem> {
    let (head, body) = request.into_parts();
    if !is_uncoded(&head.headers) {
        return Err(Problem::UnsupportedMediaType);
    }
    // The announced length alone can be too large.
    if body.size_hint().lower() > limit as u64 {
        return Err(Problem::PayloadTooLarge(limit));
    }
    match Limited::new(body, limit).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Problem::PayloadTooLarge(limit)),
        Err(_) => Err(Problem::Malformed(
            "The connection ended before the whole body arrived.".to_owned(),
        )),
    }
}

/// The same of JSON, or of what does not say what it is.
pub(super) async fn read_json(request: Request<Incoming>, limit: usize) -> Result<Bytes, Problem> {
    match is_json(request.headers()) {
        true => read(request, limit).await,
        false => Err(Problem::UnsupportedMediaType),
    }
}

/// The same of a form, or of what does not say what it is.
pub(crate) async fn read_form(request: Request<Incoming>, limit: usize) -> Result<Bytes, Problem> {
    let kind = request.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let kind = kind.map(|kind| kind.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii());
    match kind.is_none_or(|kind| kind.eq_ignore_ascii_case(b"application/x-www-form-urlencoded")) {
        true => read(request, limit).await,
        false => Err(Problem::UnsupportedMediaType),
    }
}

/// Whether the media type is JSON (RFC 6838 section 4.2.8 for `+json`) or absent.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(header::CONTENT_TYPE) else {
        return true;
    };
    let Ok(value) = value.to_str() else { return false };
    let media_type = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    media_type == "application/json" || media_type.starts_with("application/") && media_type.ends_with("+json")
}

/// Whether the body has no content coding, or `identity` (RFC 9110 section 12.5.3).
fn is_uncoded(headers: &HeaderMap) -> bool {
    let all = headers.get_all(header::CONTENT_ENCODING).iter();
    all.flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .all(|coding| coding.trim_ascii().is_empty() || coding.trim_ascii().eq_ignore_ascii_case(b"identity"))
}

/// Reads one JSON value. The error has the JSON Pointer (RFC 6901) of its place, which is empty where no field of `fields` is
/// known to be wrong.
pub(super) fn read_value<'a, T: Deserialize<'a>>(
    body: &'a [u8],
    fields: &[&str],
) -> Result<T, (String, serde_json::Error)> {
    let mut parser = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut parser).map_err(|error| {
        let pointer = pointer(error.path(), &error.inner().to_string(), fields);
        (pointer, error.into_inner())
    })?;
    parser.end().map_err(|error| (String::new(), error))?;
    Ok(value)
}

/// The pointer of a place in a body, up to the first name that is not one of ours: that may be anything. Of a field that is
/// missing or there twice, the parser's message has the name and its path has not.
fn pointer(path: &Path, said: &str, fields: &[&str]) -> String {
    let mut pointer = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => pointer += &format!("/{index}"),
            Segment::Map { key } if fields.contains(&key.as_str()) => pointer += &format!("/{key}"),
            _ => break,
        }
    }
    let named = ["missing field `", "duplicate field `"];
    let named = named
        .iter()
        .find_map(|start| said.strip_prefix(start)?.split('`').next());
    if let Some(field) = named.filter(|field| pointer.is_empty() && fields.contains(field)) {
        pointer = format!("/{field}");
    }
    pointer
}
