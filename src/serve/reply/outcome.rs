//! How requests end: the codes of problems and of statements, and what an update is. The metrics count by them.

use crate::model::statement::Verdict;
use crate::serve::metrics::label::labels;

labels! {
    /// How a request ended.
    #[allow(missing_docs, reason = "each is its name")]
    Code {
        Ok = "ok",
        Update = "update",
        UpToDate = "up_to_date",
        UnknownLicense = "unknown_license",
        BoundElsewhere = "bound_elsewhere",
        Expired = "expired",
        Suspended = "suspended",
        Revoked = "revoked",
        MalformedRequest = "malformed_request",
        MissingField = "missing_field",
        LicenseExpired = "license_expired",
        LicenseSuspended = "license_suspended",
        LicenseRevoked = "license_revoked",
        LicenseNotBound = "license_not_bound",
        PluginNotCovered = "plugin_not_covered",
        UnknownPlugin = "unknown_plugin",
        SourceNotConfigured = "source_not_configured",
        NotFound = "not_found",
        MethodNotAllowed = "method_not_allowed",
        RequestTimeout = "request_timeout",
        PayloadTooLarge = "payload_too_large",
        UriTooLong = "uri_too_long",
        UnsupportedMediaType = "unsupported_media_type",
        UnsupportedTransferCoding = "unsupported_transfer_coding",
        NotModified = "not_modified",
        PartialContent = "partial_content",
        PreconditionFailed = "precondition_failed",
        RangeNotSatisfiable = "range_not_satisfiable",
        HeadersTooLarge = "headers_too_large",
        MalformedLicenseKey = "malformed_license_key",
        LicenseKeyChecksum = "license_key_checksum",
        MalformedSiteUrl = "malformed_site_url",
        MalformedBuildId = "malformed_build_id",
        FieldTooLong = "field_too_long",
        TooManyRequests = "too_many_requests",
        Overloaded = "overloaded",
        StoreUnavailable = "store_unavailable",
        Internal = "internal",
    }
}

/// What a request takes from its address's bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// As a well-formed request does.
    Request,
    /// More, for something no client that works sends.
    Malformed,
    /// So much that wrong keys are bounded by a setting of their own.
    WrongKey,
}

impl Code {
    /// What a request that ends so weighs.
    pub fn weight(self) -> Weight {
        match self {
            Self::UnknownLicense | Self::MalformedLicenseKey | Self::LicenseKeyChecksum => Weight::WrongKey,
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
            | Self::FieldTooLong
            | Self::UnsupportedTransferCoding => Weight::Malformed,
            // Everything that a client may meet that works: answers, refusals of a license, and what is our own fault.
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::metrics::label::Label;

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
        ] {
            assert_eq!(Code::from(verdict).name(), verdict.code());
        }
    }
}
