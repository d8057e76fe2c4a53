//! Outcomes of requests: the codes of problems and statements, and results of update requests. The metrics count them.

use enum_map::Enum;
use strum::IntoStaticStr;

use countersign_model::statement::Verdict;

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[allow(missing_docs, reason = "each is its name")]
pub enum Code {
    Ok,
    Update,
    UpToDate,
    UnknownLicense,
    BoundElsewhere,
    Expired,
    Suspended,
    Revoked,
    Released,
    MalformedRequest,
    MissingField,
    LicenseExpired,
    LicenseSuspended,
    LicenseRevoked,
    LicenseNotBound,
    PluginNotCovered,
    UnknownPlugin,
    SourceNotConfigured,
    NotFound,
    LinkExpired,
    PackageUnavailable,
    InsufficientScope,
    Conflict,
    MethodNotAllowed,
    MisdirectedRequest,
    RequestTimeout,
    PayloadTooLarge,
    UriTooLong,
    UnsupportedMediaType,
    UnsupportedTransferCoding,
    NotModified,
    PartialContent,
    PreconditionFailed,
    RangeNotSatisfiable,
    HeadersTooLarge,
    MalformedLicenseKey,
    LicenseKeyChecksum,
    MalformedSiteUrl,
    MalformedBuildId,
    MalformedReleaseHash,
    BoundByVendor,
    WrongReleaseSecret,
    TooManyMoves,
    TooManyFirstCopies,
    FieldTooLong,
    TooManyRequests,
    Overloaded,
    Unauthorized,
    StoreUnavailable,
    Internal,
}

/// What a request costs its address's bucket. [`Limits`](crate::serve::rate_limit::Limits) has the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// As much as a well-formed request.
    Request,
    /// More, for what no working client sends.
    Malformed,
    /// So much that `failures_per_minute` of them empty the bucket: wrong license keys and signatures, guessed links, tokens
    /// and release secrets.
    WrongKey,
}

impl Code {
    /// The cost of a request with this outcome.
    pub fn weight(self) -> Weight {
        match self {
            Self::UnknownLicense
            | Self::MalformedLicenseKey
            | Self::LicenseKeyChecksum
            | Self::Unauthorized
            | Self::WrongReleaseSecret => Weight::WrongKey,
            Self::MalformedRequest
            | Self::MissingField
            | Self::NotFound
            | Self::MethodNotAllowed
            | Self::RequestTimeout
            | Self::PayloadTooLarge
            | Self::UriTooLong
            | Self::UnsupportedMediaType
            | Self::HeadersTooLarge
            | Self::MalformedSiteUrl
            | Self::MalformedBuildId
            | Self::MalformedReleaseHash
            | Self::FieldTooLong
            | Self::UnsupportedTransferCoding => Weight::Malformed,
            // Outcomes that working clients meet: answers, refusals of a license, and failures of the server.
            _ => Weight::Request,
        }
    }
}

impl From<Verdict> for Code {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Ok => Self::Ok,
            Verdict::BoundElsewhere => Self::BoundElsewhere,
            Verdict::UnknownLicense => Self::UnknownLicense,
            Verdict::Expired => Self::Expired,
            Verdict::Suspended => Self::Suspended,
            Verdict::Revoked => Self::Revoked,
            Verdict::Released => Self::Released,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_counted_under_its_own_code() {
        use Verdict as V;
        for verdict in [
            V::Ok,
            V::BoundElsewhere,
            V::UnknownLicense,
            V::Expired,
            V::Suspended,
            V::Revoked,
            V::Released,
        ] {
            assert_eq!(<&str>::from(Code::from(verdict)), verdict.code());
        }
    }
}
