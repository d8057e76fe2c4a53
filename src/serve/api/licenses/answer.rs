//! Answers of the management API.

use warp::http::{HeaderName, HeaderValue, StatusCode, header};

use crate::serve::api::licenses::document::LicenseDocument;
use crate::serve::reply::response::{JSON, Response};

/// The path of all licenses. That of one adds `/` and its id.
pub const LICENSES: &str = "/api/v1/licenses";

/// An answer, and the headers that only this API has.
#[derive(Debug)]
pub struct LicenseAnswer {
    /// The answer.
    pub response: Response,
    /// `ETag` and `Location`.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

/// The answer with one license.
pub(super) fn answer(status: StatusCode, document: &LicenseDocument<'_>) -> LicenseAnswer {
    let mut headers = Vec::new();
    if let Some(tag) = document.tag().and_then(|tag| HeaderValue::try_from(tag).ok()) {
        headers.push((header::ETAG, tag));
    }
    if status == StatusCode::CREATED
        && let Ok(location) = HeaderValue::try_from(format!("{LICENSES}/{}", document.id))
    {
        headers.push((header::LOCATION, location));
    }
    LicenseAnswer {
        response: Response {
            status,
            // Texts, numbers and times always serialize.
            ..JSON.answer(serde_json::to_vec(document).unwrap_or_default())
        },
        headers,
    }
}
