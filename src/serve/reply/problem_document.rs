//! The body of a problem: what RFC 9457 says of it, and members of our own. [`problem`](crate::serve::reply::problem) fills it.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Serialize;
use uuid::Uuid;

use crate::model::manifest::LatestRelease;

/// Most documents are not longer, in bytes.
const USUAL_LENGTH: usize = 256;

/// RFC 9457 section 3.1, with our own members behind.
#[derive(Serialize)]
pub(super) struct ProblemDocument<'a> {
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub title: &'static str,
    pub status: u16,
    pub detail: Cow<'a, str>,
    pub code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest: Option<&'a LatestRelease>,
}

impl ProblemDocument<'_> {
    /// The document as JSON.
    pub fn to_bytes(&self) -> Bytes {
        let mut body = Vec::with_capacity(USUAL_LENGTH);
        // Strings and a number: nothing in it can fail to serialize.
        let _ = serde_json::to_writer(&mut body, self);
        Bytes::from(body)
    }
}
