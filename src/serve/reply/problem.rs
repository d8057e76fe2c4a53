//! Problems: every answer that is neither a statement, a manifest nor a public file, as RFC 9457 problem documents.
//!
//! The one table from refusal or error to HTTP status and code (`Problem::row`). Whatever goes wrong behind a route
//! ends here, and from here goes to the client.

use std::borrow::Cow;
use std::fmt::Display;
use std::sync::{LazyLock, OnceLock};

use bytes::Bytes;
use enum_map::EnumMap;
use uuid::Uuid;
use warp::http::StatusCode;

use crate::model::entitlement::Refusal;
use crate::model::license_key::LicenseKeyError;
use crate::model::manifest::LatestRelease;
use crate::serve::rate_limit::buckets::RetryAfter;
use crate::serve::reply::outcome::Code;
use crate::serve::reply::problem_document::ProblemDocument;
use crate::serve::reply::response::{ContentType, ExtraHeader, Response};

/// An answer that means "no answer": a client keeps what it last verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Not a JSON object, a wrong type, a field or parameter twice; what exactly.
    Malformed(String),
    /// A required field or parameter was not sent.
    MissingField(&'static str),
    /// The update operation refuses.
    Refused(Refusal),
    /// The update operation refuses because the license has expired, and the site may hear which release is the latest.
    Expired(LatestRelease),
    /// The text is no license key.
    LicenseKey(LicenseKeyError),
    /// The site address names no site; the reason's code and its text.
    SiteUrl {
        /// Stable name of the reason.
        reason: &'static str,
        /// The reason for a person.
        text: String,
    },
    /// `build_id` is no UUID.
    BuildId,
    /// A field is longer than it may be.
    FieldTooLong {
        /// The field.
        field: &'static str,
        /// Its limit in bytes.
        limit: usize,
    },
    /// Nothing is at this address.
    NotFound,
    /// The address does not take this method; those it takes.
    MethodNotAllowed(&'static str),
    /// The request did not arrive, or not get its answer, in time.
    RequestTimeout,
    /// The body is larger than this many bytes.
    PayloadTooLarge(usize),
    /// The request target is longer than this many bytes.
    UriTooLong(usize),
    /// The body is not JSON by its own account.
    UnsupportedMediaType,
    /// The body is coded for its way in a manner that is not known.
    UnsupportedTransferCoding,
    /// A public file is not as the request demands.
    PreconditionFailed,
    /// A public file, so many bytes long, has nothing in the range asked for.
    RangeNotSatisfiable(u64),
    /// The header fields are larger than this many bytes together.
    HeadersTooLarge(usize),
    /// This client asked too often; seconds until it may ask again.
    TooManyRequests(u64),
    /// No signature can be made soon.
    Overloaded,
    /// A binding cannot be made durable now.
    StoreUnavailable,
    /// Our own fault; the id stands in the log.
    Internal(Uuid),
}

impl From<RetryAfter> for Problem {
    fn from(RetryAfter(seconds): RetryAfter) -> Self {
        Self::TooManyRequests(seconds)
    }
}

/// Seconds after which a client that met an overload may try again.
const RETRY_AFTER_OVERLOAD: u64 = 5;

/// Seconds after which a client that met a failing store may try again: an operator needs a while.
const RETRY_AFTER_STORE: u64 = 60;

/// No bucket asks anybody to wait for so many seconds: an empty one that owes all it holds is usable after 61 to 120.
const MOST_SECONDS: usize = 128;

/// RFC 9457 section 6.1.
const PROBLEM: ContentType = ContentType("application/problem+json");

impl Problem {
    /// Logs what went wrong inside and makes the answer that does not tell it.
    pub fn internal(error: &dyn Display) -> Self {
        let request_id = new_request_id();
        tracing::error!(%request_id, %error, "a request failed");
        Self::Internal(request_id)
    }

    /// The code alone.
    pub fn code(&self) -> Code {
        self.row().1
    }

    /// The table: HTTP status and code.
    fn row(&self) -> (StatusCode, Code) {
        use Code as C;
        use StatusCode as S;
        match self {
            Self::Malformed(_) => (S::BAD_REQUEST, C::MalformedRequest),
            Self::MissingField(_) => (S::BAD_REQUEST, C::MissingField),
            Self::Refused(refusal) => match refusal {
                Refusal::UnknownLicense => (S::FORBIDDEN, C::UnknownLicense),
                Refusal::LicenseExpired => (S::FORBIDDEN, C::LicenseExpired),
                Refusal::LicenseSuspended => (S::FORBIDDEN, C::LicenseSuspended),
                Refusal::LicenseRevoked => (S::FORBIDDEN, C::LicenseRevoked),
                Refusal::LicenseNotBound => (S::FORBIDDEN, C::LicenseNotBound),
                Refusal::BoundElsewhere => (S::FORBIDDEN, C::BoundElsewhere),
                Refusal::PluginNotCovered => (S::FORBIDDEN, C::PluginNotCovered),
                Refusal::UnknownPlugin => (S::NOT_FOUND, C::UnknownPlugin),
                Refusal::SourceNotConfigured => (S::NOT_FOUND, C::SourceNotConfigured),
            },
            Self::Expired(_) => (S::FORBIDDEN, C::LicenseExpired),
            Self::LicenseKey(LicenseKeyError::Malformed) => (S::UNPROCESSABLE_ENTITY, C::MalformedLicenseKey),
            Self::LicenseKey(LicenseKeyError::Checksum) => (S::UNPROCESSABLE_ENTITY, C::LicenseKeyChecksum),
            Self::SiteUrl { .. } => (S::UNPROCESSABLE_ENTITY, C::MalformedSiteUrl),
            Self::BuildId => (S::UNPROCESSABLE_ENTITY, C::MalformedBuildId),
            Self::FieldTooLong { .. } => (S::UNPROCESSABLE_ENTITY, C::FieldTooLong),
            Self::NotFound => (S::NOT_FOUND, C::NotFound),
            Self::MethodNotAllowed(_) => (S::METHOD_NOT_ALLOWED, C::MethodNotAllowed),
            Self::RequestTimeout => (S::REQUEST_TIMEOUT, C::RequestTimeout),
            Self::PayloadTooLarge(_) => (S::PAYLOAD_TOO_LARGE, C::PayloadTooLarge),
            Self::UriTooLong(_) => (S::URI_TOO_LONG, C::UriTooLong),
            Self::UnsupportedMediaType => (S::UNSUPPORTED_MEDIA_TYPE, C::UnsupportedMediaType),
            Self::UnsupportedTransferCoding => (S::NOT_IMPLEMENTED, C::UnsupportedTransferCoding),
            Self::PreconditionFailed => (S::PRECONDITION_FAILED, C::PreconditionFailed),
            Self::RangeNotSatisfiable(_) => (S::RANGE_NOT_SATISFIABLE, C::RangeNotSatisfiable),
            Self::HeadersTooLarge(_) => (S::REQUEST_HEADER_FIELDS_TOO_LARGE, C::HeadersTooLarge),
            Self::TooManyRequests(_) => (S::TOO_MANY_REQUESTS, C::TooManyRequests),
            Self::Overloaded => (S::SERVICE_UNAVAILABLE, C::Overloaded),
            Self::StoreUnavailable => (S::SERVICE_UNAVAILABLE, C::StoreUnavailable),
            Self::Internal(_) => (S::INTERNAL_SERVER_ERROR, C::Internal),
        }
    }

    /// What a person should know.
    fn detail(&self) -> Cow<'_, str> {
        match self {
            Self::Malformed(what) => what.into(),
            Self::MissingField(field) => format!("'{field}' is required.").into(),
            Self::Refused(refusal) => refusal_detail(*refusal).into(),
            Self::Expired(_) => refusal_detail(Refusal::LicenseExpired).into(),
            Self::LicenseKey(error) => sentence(error).into(),
            Self::SiteUrl { text, .. } => format!("'site_url' does not name a site: {text}.").into(),
            Self::BuildId => "'build_id' must be a UUID such as 018f3b2e-7c1a-7000-8000-3f1c2d4e5f60.".into(),
            Self::FieldTooLong { field, limit } => format!("'{field}' may be at most {limit} bytes long.").into(),
            Self::NotFound => "No operation and no public file has this address.".into(),
            Self::MethodNotAllowed(allowed) => format!("This address takes {allowed}.").into(),
            Self::RequestTimeout => {
                "The request's body did not arrive, or its answer was not ready, in time.".into()
            },
            Self::PayloadTooLarge(limit) => format!("The body may be at most {limit} bytes long.").into(),
            Self::UriTooLong(limit) => format!("The path and query may be at most {limit} bytes long.").into(),
            Self::UnsupportedMediaType => "Send the body as application/json, uncompressed.".into(),
            Self::UnsupportedTransferCoding => "The only transfer coding that is understood is 'chunked'.".into(),
            Self::PreconditionFailed => "The file has changed since, or is not the one that 'If-Match' names.".into(),
            Self::RangeNotSatisfiable(length) => {
                format!("The file has {length} bytes, and none of them is in the range.").into()
            }
            Self::HeadersTooLarge(limit) => {
                format!("The header fields may be at most {limit} bytes long together.").into()
            }
            Self::TooManyRequests(seconds) => format!("Ask again in {seconds} s.").into(),
            Self::Overloaded => format!("Ask again in {RETRY_AFTER_OVERLOAD} s.").into(),
            Self::StoreUnavailable => format!(
                "New sites cannot be bound at the moment; bound ones are not affected. Ask again in {RETRY_AFTER_STORE} s."
            )
            .into(),
            Self::Internal(_) => "The operator finds the reason in the server's log under this request id.".into(),
        }
    }

    /// What the status alone does not say.
    fn extra(&self) -> Option<ExtraHeader> {
        match self {
            Self::MethodNotAllowed(allowed) => Some(ExtraHeader::Allow(allowed)),
            Self::TooManyRequests(seconds) => Some(ExtraHeader::RetryAfter(*seconds)),
            Self::Overloaded => Some(ExtraHeader::RetryAfter(RETRY_AFTER_OVERLOAD)),
            Self::StoreUnavailable => Some(ExtraHeader::RetryAfter(RETRY_AFTER_STORE)),
            // The rest of such a request is still on its way and nobody will read it.
            Self::RequestTimeout | Self::PayloadTooLarge(_) | Self::UnsupportedTransferCoding => {
                Some(ExtraHeader::Close)
            }
            Self::RangeNotSatisfiable(length) => Some(ExtraHeader::NoRange(*length)),
            _ => None,
        }
    }

    /// The answer.
    pub fn into_response(self) -> Response {
        let (status, code) = self.row();
        let code: &str = code.into();
        let request_id = match self {
            Self::Internal(id) => Some(id),
            // 501 is the client's fault, whatever its number says.
            _ if status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED => {
                let request_id = new_request_id();
                // An overload turns away thousands a second: no line each, unless somebody wants them.
                tracing::debug!(%request_id, code, "a request was turned away");
                Some(request_id)
            }
            _ => None,
        };
        let body = match self {
            Self::Refused(refusal) => refusal_body(refusal),
            Self::TooManyRequests(seconds) => too_many_body(seconds),
            _ => self.document(request_id),
        };
        Response {
            status,
            extra: self.extra(),
            ..PROBLEM.answer(body)
        }
    }

    fn document(&self, request_id: Option<Uuid>) -> Bytes {
        let (status, code) = self.row();
        let document = ProblemDocument {
            // RFC 9457 section 4.2.1: with this type the title is the status' own phrase; `code` is what tells apart.
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or_default(),
            status: status.as_u16(),
            detail: self.detail(),
            code: code.into(),
            field: match self {
                Self::MissingField(field) | Self::FieldTooLong { field, .. } => Some(*field),
                _ => None,
            },
            reason: match self {
                Self::SiteUrl { reason, .. } => Some(*reason),
                _ => None,
            },
            request_id,
            latest: match self {
                Self::Expired(latest) => Some(latest),
                _ => None,
            },
        };
        document.to_bytes()
    }
}

/// Refusals are many and always the same: their documents are made once.
fn refusal_body(refusal: Refusal) -> Bytes {
    static BODIES: LazyLock<EnumMap<Refusal, Bytes>> =
        LazyLock::new(|| EnumMap::from_fn(|refusal| Problem::Refused(refusal).document(None)));
    BODIES[refusal].clone()
}

/// Whoever floods gets this thousands of times a second: a document for each number of seconds is made once.
fn too_many_body(seconds: u64) -> Bytes {
    static BODIES: [OnceLock<Bytes>; MOST_SECONDS] = [const { OnceLock::new() }; MOST_SECONDS];
    let document = || Problem::TooManyRequests(seconds).document(None);
    match usize::try_from(seconds).ok().and_then(|seconds| BODIES.get(seconds)) {
        Some(body) => body.get_or_init(document).clone(),
        None => document(),
    }
}

fn refusal_detail(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::UnknownLicense => "No license has this key.",
        Refusal::LicenseExpired => "Renew the license to get updates.",
        Refusal::LicenseSuspended => "Ask the vendor why the license is suspended.",
        Refusal::LicenseRevoked => "Ask the vendor why the license was revoked.",
        Refusal::LicenseNotBound => "Validate the license on this site first.",
        Refusal::BoundElsewhere => "Every site of this license is another one than 'site_url'.",
        Refusal::PluginNotCovered => "The license has not the module this plugin belongs to.",
        Refusal::UnknownPlugin => "No plugin has this slug.",
        Refusal::SourceNotConfigured => "The vendor publishes no releases of this plugin here.",
    }
}

fn sentence(error: &dyn Display) -> String {
    let text = error.to_string();
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).chain(['.']).collect()
}

fn new_request_id() -> Uuid {
    let mut bytes = [0; 16];
    // Where the system has no randomness to give, the id is nil; no answer is worth failing for it.
    let _ = getrandom::fill(&mut bytes);
    uuid::Builder::from_random_bytes(bytes).into_uuid()
}
