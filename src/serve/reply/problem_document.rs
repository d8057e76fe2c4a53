//! The JSON members of a problem document. [`problem`](crate::serve::reply::problem) fills them.

use bytes::Bytes;
use serde::Serialize;
use uuid::Uuid;

use countersign_model::manifest::LatestRelease;

/// The usual length of a document, in bytes.
const USUAL_LENGTH: usize = 256;

/// The members of RFC 9457 section 3.1, then those of countersign.
#[derive(Serialize)]
pub(super) struct ProblemDocument<'a> {
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub title: &'static str,
    pub status: u16,
    pub detail: &'a str,
    pub code: &'static str,
    /// Which field of a body is wrong, as RFC 9457 section 3 suggests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest: Option<&'a LatestRelease>,
}

/// What is wrong with one field.
#[derive(Serialize)]
pub(super) struct FieldError<'a> {
    /// The field's place: a JSON Pointer as a URI fragment (RFC 6901 section 6).
    pub pointer: String,
    pub detail: &'a str,
}

impl ProblemDocument<'_> {
    /// The document as JSON.
    pub(super) fn to_bytes(&self) -> Bytes {
        let mut body = Vec::with_capacity(USUAL_LENGTH);
        // Strings and a number always serialize.
        let _ = serde_json::to_writer(&mut body, self);
        Bytes::from(body)
    }
}

/// Names a failure in the answer and in the log.
pub(super) fn new_request_id() -> Uuid {
    let mut bytes = [0; 16];
    // Without randomness from the system the id is nil; the answer must not fail for it.
    let _ = getrandom::fill(&mut bytes);
    uuid::Builder::from_random_bytes(bytes).into_uuid()
}
