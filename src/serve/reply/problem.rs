//! Problem documents (RFC 9457): the answers to requests that are refused or fail.
//!
//! [`Problem::code`] and the HTTP status come from one table. The text for people is in
//! [`problem_detail`](crate::serve::reply::problem_detail).

use std::fmt::Display;
use std::sync::{LazyLock, OnceLock};

use bytes::Bytes;
use enum_map::EnumMap;
use serde::Serialize;
use uuid::Uuid;
use warp::http::StatusCode;

use crate::serve::rate_limit::buckets::RetryAfter;
use crate::serve::reply::outcome::{Code, Weight};
use crate::serve::reply::response::{ContentType, ExtraHeader, Response};
use crate::serve::signing::SignError;
use countersign_ledger::{ReleaseRefusal, StoreError};
use countersign_model::api_token::TokenScope;
use countersign_model::entitlement::Refusal;
use countersign_model::first_copies::FirstCopyLimit;
use countersign_model::license_key::LicenseKeyError;
use countersign_model::manifest::LatestRelease;
use countersign_model::release_rules::BackRefusal;

/// A refused or failed request. A client that gets one keeps the last statement it verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Not a JSON object, a wrong type, or a field or parameter sent twice; the text says which.
    Malformed(String),
    /// What is wrong with one field of a JSON body, and where the field is: a JSON Pointer (RFC 6901).
    InBody {
        /// The place of the field.
        pointer: String,
        /// What is wrong.
        problem: Box<Self>,
    },
    /// A required field or parameter was not sent.
    MissingField(&'static str),
    /// The update operation refused the request.
    Refused(Refusal),
    /// The license has expired. The site may learn which release is the latest.
    Expired(LatestRelease),
    /// Not a license key.
    LicenseKey(LicenseKeyError),
    /// Not the address of a site.
    SiteUrl {
        /// The reason's stable name.
        reason: &'static str,
        /// The reason as text.
        text: String,
    },
    /// `build_id` is not a UUID.
    BuildId,
    /// `release_hash` is not a SHA-256.
    ReleaseHash,
    /// A site was not released.
    NotReleased(ReleaseRefusal),
    /// A field is too long.
    FieldTooLong {
        /// The field.
        field: &'static str,
        /// Its limit in bytes.
        limit: usize,
    },
    /// Nothing is at this address.
    NotFound,
    /// A link that this server did not make, or not for this package.
    UnknownLink,
    /// No package of this version is published.
    NoPackage,
    /// The site may not go back to this version.
    NotBackTo(BackRefusal),
    /// A link that has expired, or whose key was replaced.
    LinkExpired,
    /// A package is not the published one, or cannot be read in time.
    PackageUnavailable,
    /// The address does not support this method; the methods it supports.
    MethodNotAllowed(&'static str),
    /// The request is for a host that this listener does not answer for.
    Misdirected,
    /// There is no valid token.
    Unauthorized,
    /// The token may not do this; what it lacks.
    InsufficientScope(TokenScope),
    /// The license does not allow the change, or another request has the same idempotency key; the text says which.
    Conflict(String),
    /// There is no license with this id.
    NoSuchLicense,
    /// The license has another revision than `If-Match` names.
    LicenseRevised,
    /// The request took too long to arrive or to be answered.
    RequestTimeout,
    /// The body is larger than this many bytes.
    PayloadTooLarge(usize),
    /// The request target is longer than this many bytes.
    UriTooLong(usize),
    /// The content type is not JSON.
    UnsupportedMediaType,
    /// The body has a transfer coding other than `chunked`.
    UnsupportedTransferCoding,
    /// A file does not meet the request's `If-Match` or `If-Unmodified-Since`.
    PreconditionFailed,
    /// The range asked for lies outside a file of this many bytes.
    RangeNotSatisfiable(u64),
    /// The header fields together are larger than this many bytes.
    HeadersTooLarge(usize),
    /// This client sent too many requests; seconds until it may try again.
    TooManyRequests(u64),
    /// The license gave as many first copies as it may; seconds until there may be one.
    TooManyFirstCopies(FirstCopyLimit, u64),
    /// The signing queue is full.
    Overloaded,
    /// A delivery that its shop did not sign.
    WrongSignature,
    /// A delivery cannot be kept now.
    DeliveryNotKept,
    /// The store cannot write bindings now.
    StoreUnavailable,
    /// The server failed; the log has the reason under this id.
    Internal(Uuid),
}

/// Seconds after which to try again when the server is overloaded.
pub(super) const RETRY_AFTER_OVERLOAD: u64 = 5;

/// Seconds after which to try again when the store fails. An operator needs this long to repair it.
pub(super) const RETRY_AFTER_STORE: u64 = 60;

/// Seconds after which a client that met a broken package may try again: somebody has to mend it.
pub(super) const RETRY_AFTER_PACKAGE: u64 = 300;

/// More seconds than any limit of addresses or licenses asks a client to wait: a bucket in full debt is usable after 61 to 120.
const MOST_SECONDS: usize = 128;

/// RFC 9457 section 6.1.
const PROBLEM: ContentType = ContentType("application/problem+json");

impl Problem {
    /// Logs an internal error and makes an answer that does not reveal it.
    pub fn internal(error: &dyn Display) -> Self {
        let request_id = new_request_id();
        tracing::error!(%request_id, %error, "a request failed");
        Self::Internal(request_id)
    }

    /// A malformed field of a JSON body. The pointer names no field that only the client knows.
    pub fn malformed_field(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::InBody {
            pointer: pointer.into(),
            problem: Box::new(Self::Malformed(detail.into())),
        }
    }

    /// The same problem, found in a field of a JSON body.
    pub fn in_body(self) -> Self {
        let field = match &self {
            Self::MissingField(field) | Self::FieldTooLong { field, .. } => *field,
            Self::LicenseKey(_) => "license_key",
            Self::SiteUrl { .. } => "site_url",
            Self::BuildId => "build_id",
            Self::ReleaseHash => "release_hash",
            _ => return self,
        };
        Self::InBody {
            pointer: format!("/{field}"),
            problem: Box::new(self),
        }
    }

    /// The problem itself, wherever it was found.
    fn bare(&self) -> &Self {
        match self {
            Self::InBody { problem, .. } => problem.bare(),
            other => other,
        }
    }

    /// The stable code.
    pub fn code(&self) -> Code {
        self.row().1
    }

    /// What a request that ends so weighs.
    pub fn weight(&self) -> Weight {
        match self {
            // Told as nothing that is there; guessing is what it is.
            Self::UnknownLink => Weight::WrongKey,
            // Asked with a valid token: nobody guesses.
            Self::NoSuchLicense => Weight::Request,
            _ => self.code().weight(),
        }
    }

    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        self.row().0
    }

    /// The table: HTTP status and code.
    fn row(&self) -> (StatusCode, Code) {
        use Code as C;
        use StatusCode as S;
        match self {
            Self::InBody { problem, .. } => problem.row(),
            Self::Malformed(_) => (S::BAD_REQUEST, C::MalformedRequest),
            Self::MissingField(_) => (S::BAD_REQUEST, C::MissingField),
            Self::Refused(refusal) => match refusal {
                Refusal::UnknownLicense => (S::FORBIDDEN, C::UnknownLicense),
                Refusal::LicenseExpired => (S::FORBIDDEN, C::LicenseExpired),
                Refusal::LicenseSuspended => (S::FORBIDDEN, C::LicenseSuspended),
                Refusal::LicenseRevoked => (S::FORBIDDEN, C::LicenseRevoked),
                Refusal::LicenseNotBound | Refusal::TrialSite => (S::FORBIDDEN, C::LicenseNotBound),
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
            Self::ReleaseHash => (S::UNPROCESSABLE_ENTITY, C::MalformedReleaseHash),
            Self::NotReleased(refusal) => match refusal {
                ReleaseRefusal::NotBound => (S::FORBIDDEN, C::LicenseNotBound),
                ReleaseRefusal::NoSeat => (S::FORBIDDEN, C::BoundElsewhere),
                ReleaseRefusal::BoundByVendor => (S::FORBIDDEN, C::BoundByVendor),
                ReleaseRefusal::WrongSecret => (S::FORBIDDEN, C::WrongReleaseSecret),
                ReleaseRefusal::TooManyMoves => (S::FORBIDDEN, C::TooManyMoves),
            },
            Self::FieldTooLong { .. } => (S::UNPROCESSABLE_ENTITY, C::FieldTooLong),
            Self::NotFound | Self::UnknownLink | Self::NoPackage | Self::NotBackTo(_) => (S::NOT_FOUND, C::NotFound),
            Self::LinkExpired => (S::GONE, C::LinkExpired),
            Self::PackageUnavailable => (S::SERVICE_UNAVAILABLE, C::PackageUnavailable),
            Self::MethodNotAllowed(_) => (S::METHOD_NOT_ALLOWED, C::MethodNotAllowed),
            Self::Misdirected => (S::MISDIRECTED_REQUEST, C::MisdirectedRequest),
            Self::Unauthorized => (S::UNAUTHORIZED, C::Unauthorized),
            Self::InsufficientScope(_) => (S::FORBIDDEN, C::InsufficientScope),
            Self::Conflict(_) => (S::CONFLICT, C::Conflict),
            Self::NoSuchLicense => (S::NOT_FOUND, C::NotFound),
            Self::LicenseRevised => (S::PRECONDITION_FAILED, C::PreconditionFailed),
            Self::RequestTimeout => (S::REQUEST_TIMEOUT, C::RequestTimeout),
            Self::PayloadTooLarge(_) => (S::PAYLOAD_TOO_LARGE, C::PayloadTooLarge),
            Self::UriTooLong(_) => (S::URI_TOO_LONG, C::UriTooLong),
            Self::UnsupportedMediaType => (S::UNSUPPORTED_MEDIA_TYPE, C::UnsupportedMediaType),
            Self::UnsupportedTransferCoding => (S::NOT_IMPLEMENTED, C::UnsupportedTransferCoding),
            Self::PreconditionFailed => (S::PRECONDITION_FAILED, C::PreconditionFailed),
            Self::RangeNotSatisfiable(_) => (S::RANGE_NOT_SATISFIABLE, C::RangeNotSatisfiable),
            Self::HeadersTooLarge(_) => (S::REQUEST_HEADER_FIELDS_TOO_LARGE, C::HeadersTooLarge),
            Self::TooManyRequests(_) => (S::TOO_MANY_REQUESTS, C::TooManyRequests),
            Self::TooManyFirstCopies(..) => (S::TOO_MANY_REQUESTS, C::TooManyFirstCopies),
            Self::Overloaded => (S::SERVICE_UNAVAILABLE, C::Overloaded),
            Self::WrongSignature => (S::UNAUTHORIZED, C::Unauthorized),
            Self::StoreUnavailable | Self::DeliveryNotKept => (S::SERVICE_UNAVAILABLE, C::StoreUnavailable),
            Self::Internal(_) => (S::INTERNAL_SERVER_ERROR, C::Internal),
        }
    }

    /// The header that belongs to this problem.
    pub(crate) fn extra(&self) -> Option<ExtraHeader> {
        match self {
            Self::MethodNotAllowed(allowed) => Some(ExtraHeader::Allow(allowed)),
            Self::Unauthorized => Some(ExtraHeader::Bearer),
            Self::TooManyRequests(seconds) | Self::TooManyFirstCopies(_, seconds) => {
                Some(ExtraHeader::RetryAfter(*seconds))
            }
            Self::Overloaded => Some(ExtraHeader::RetryAfter(RETRY_AFTER_OVERLOAD)),
            Self::StoreUnavailable | Self::DeliveryNotKept => Some(ExtraHeader::RetryAfter(RETRY_AFTER_STORE)),
            Self::PackageUnavailable => Some(ExtraHeader::RetryAfter(RETRY_AFTER_PACKAGE)),
            // Nobody will read the rest of such a request.
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
            // 501 means that the client sent something unsupported; the server did not fail.
            _ if status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED => {
                let request_id = new_request_id();
                // An overload refuses thousands of requests a second, so these lines are for debugging only.
                tracing::debug!(%request_id, code, "a request was refused");
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
        let bare = self.bare();
        let detail = bare.detail();
        let errors = match self {
            Self::InBody { pointer, .. } => vec![FieldError {
                pointer: format!("#{pointer}"),
                detail: &detail,
            }],
            _ => Vec::new(),
        };
        let document = ProblemDocument {
            // RFC 9457 section 4.2.1: with this type the title is the status phrase. `code` tells problems apart.
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or_default(),
            status: status.as_u16(),
            detail: &detail,
            code: code.into(),
            errors,
            field: match bare {
                Self::MissingField(field) | Self::FieldTooLong { field, .. } => Some(*field),
                _ => None,
            },
            reason: match bare {
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

/// Refusals are frequent and always the same, so each document is made once.
fn refusal_body(refusal: Refusal) -> Bytes {
    static BODIES: LazyLock<EnumMap<Refusal, Bytes>> =
        LazyLock::new(|| EnumMap::from_fn(|refusal| Problem::Refused(refusal).document(None)));
    BODIES[refusal].clone()
}

/// A flood is refused thousands of times a second, so the document for each number of seconds is made once.
fn too_many_body(seconds: u64) -> Bytes {
    static BODIES: [OnceLock<Bytes>; MOST_SECONDS] = [const { OnceLock::new() }; MOST_SECONDS];
    let document = || Problem::TooManyRequests(seconds).document(None);
    match usize::try_from(seconds).ok().and_then(|seconds| BODIES.get(seconds)) {
        Some(body) => body.get_or_init(document).clone(),
        None => document(),
    }
}

/// The usual length of a document, in bytes.
const USUAL_LENGTH: usize = 256;

/// The members of RFC 9457 section 3.1, then those of countersign.
#[derive(Serialize)]
struct ProblemDocument<'a> {
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
struct FieldError<'a> {
    /// The field's place: a JSON Pointer as a URI fragment (RFC 6901 section 6).
    pub pointer: String,
    pub detail: &'a str,
}

impl ProblemDocument<'_> {
    /// The document as JSON.
    fn to_bytes(&self) -> Bytes {
        let mut body = Vec::with_capacity(USUAL_LENGTH);
        // Strings and a number always serialize.
        let _ = serde_json::to_writer(&mut body, self);
        Bytes::from(body)
    }
}

/// Names a failure in the answer and in the log.
fn new_request_id() -> Uuid {
    let mut bytes = [0; 16];
    // Without randomness from the system the id is nil; the answer must not fail for it.
    let _ = getrandom::fill(&mut bytes);
    uuid::Builder::from_random_bytes(bytes).into_uuid()
}

impl From<RetryAfter> for Problem {
    fn from(RetryAfter(seconds): RetryAfter) -> Self {
        Self::TooManyRequests(seconds)
    }
}

impl From<StoreError> for Problem {
    /// The store has logged the failure.
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Busy => Self::Overloaded,
            _ => Self::StoreUnavailable,
        }
    }
}

impl From<SignError> for Problem {
    fn from(error: SignError) -> Self {
        match error {
            SignError::QueueFull => Self::Overloaded,
            SignError::Failed => Self::internal(&error),
        }
    }
}
