//! The explanation in a problem document, for people. [`problem`](crate::serve::reply::problem) has the codes, for
//! programs.

use std::borrow::Cow;
use std::fmt::Display;

use crate::serve::reply::problem::{Problem, RETRY_AFTER_OVERLOAD, RETRY_AFTER_PACKAGE, RETRY_AFTER_STORE};
use countersign_ledger::ReleaseRefusal;
use countersign_model::entitlement::Refusal;
use countersign_model::first_copies::{DAYS, FirstCopyLimit, MOST_NETWORKS, MOST_PACKAGES};

impl Problem {
    /// The explanation for a person.
    pub(in crate::serve) fn detail(&self) -> Cow<'_, str> {
        match self {
            Self::InBody { problem, .. } => problem.detail(),
            Self::Malformed(what) => what.into(),
            Self::MissingField(field) => format!("'{field}' is required.").into(),
            Self::Refused(refusal) => refusal_detail(*refusal).into(),
            Self::Expired(_) => refusal_detail(Refusal::LicenseExpired).into(),
            Self::LicenseKey(error) => sentence(error).into(),
            Self::SiteUrl { text, .. } => format!("'site_url' is not a site's address: {text}.").into(),
            Self::BuildId => "'build_id' must be a UUID such as 018f3b2e-7c1a-7000-8000-3f1c2d4e5f60.".into(),
            Self::ReleaseHash => "'release_hash' must be the SHA-256 of the release secret, in 64 lower-case hex digits.".into(),
            Self::NotReleased(refusal) => release_detail(*refusal).into(),
            Self::FieldTooLong { field, limit } => format!("'{field}' may be at most {limit} bytes long.").into(),
            Self::NotFound => "There is nothing at this address.".into(),
            Self::UnknownLink => "This link is not valid. Ask for updates to get one.".into(),
            Self::NotBackTo(refusal) => refusal.to_string().into(),
            Self::NoPackage => "This version is no longer offered. Ask for updates again.".into(),
            Self::LinkExpired => "This link has expired. Ask for updates to get a new one.".into(),
            Self::PackageUnavailable => {
                format!("The package cannot be sent now. Ask again in {RETRY_AFTER_PACKAGE} s.").into()
            }
            Self::MethodNotAllowed(allowed) => format!("Use {allowed} for this address.").into(),
            Self::Misdirected => "This listener does not answer for the host of the request. The setting 'admin_hosts' names more hosts.".into(),
            Self::Unauthorized => "Send a valid token: 'Authorization: Bearer cst_…'. `countersign token create` makes one.".into(),
            Self::InsufficientScope(scope) => format!("This token lacks the scope '{}'.", scope.as_str()).into(),
            Self::Conflict(what) => what.into(),
            Self::NoSuchLicense => "There is no license with this id.".into(),
            Self::LicenseRevised => {
                "The license was changed since: 'If-Match' names another revision. Read it again.".into()
            }
            Self::RequestTimeout => {
                "The request took too long.".into()
            },
            Self::PayloadTooLarge(limit) => format!("The body may be at most {limit} bytes long.").into(),
            Self::UriTooLong(limit) => format!("The path and query may be at most {limit} bytes long.").into(),
            Self::UnsupportedMediaType => "Send the body as application/json, uncompressed.".into(),
            Self::UnsupportedTransferCoding => "'chunked' is the only transfer coding this server supports.".into(),
            Self::PreconditionFailed => "The file has changed, or 'If-Match' names another one.".into(),
            Self::RangeNotSatisfiable(length) => {
                format!("The file has {length} bytes, and the range contains none of them.").into()
            }
            Self::HeadersTooLarge(limit) => {
                format!("All header fields together may be at most {limit} bytes long.").into()
            }
            Self::TooManyRequests(seconds) => format!("Try again in {seconds} seconds.").into(),
            Self::TooManyFirstCopies(limit, _) => first_copy_detail(*limit).into(),
            Self::Overloaded => format!("Try again in {RETRY_AFTER_OVERLOAD} seconds.").into(),
            Self::StoreUnavailable => format!(
                "The server cannot bind new sites now. Sites that are already bound are not affected. Try again in {RETRY_AFTER_STORE} seconds."
            )
            .into(),
            Self::WrongSignature => "The signature of this delivery is missing or wrong, or it was signed at another time.".into(),
            Self::DeliveryNotKept => format!("The delivery was not kept. Send it again in {RETRY_AFTER_STORE} seconds.").into(),
            Self::Internal(_) => "The server failed. Its log has the reason under this request id.".into(),
        }
    }
}

fn refusal_detail(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::UnknownLicense => "This license key is unknown.",
        Refusal::LicenseExpired => "This license has expired. Renew it to get updates.",
        Refusal::LicenseSuspended => "The vendor has suspended this license. Ask the vendor why.",
        Refusal::LicenseRevoked => "The vendor has revoked this license. Ask the vendor why.",
        Refusal::LicenseNotBound => "This license is not bound to this site. Validate it on this site first.",
        Refusal::TrialSite => {
            "A site on localhost or in a private network is a trial here: it takes no seat and gets no updates. The server's setting \
             'local_hosts' says so."
        }
        Refusal::BoundElsewhere => "This license is bound to another site.",
        Refusal::PluginNotCovered => "This license does not include the plugin's module.",
        Refusal::UnknownPlugin => "This plugin is unknown.",
        Refusal::SourceNotConfigured => "This server has no releases of this plugin.",
    }
}

fn first_copy_detail(limit: FirstCopyLimit) -> String {
    let reached = match limit {
        FirstCopyLimit::Packages { .. } => format!("{MOST_PACKAGES} packages in {DAYS} days"),
        FirstCopyLimit::Networks { .. } => format!("packages to {MOST_NETWORKS} networks today"),
    };
    format!(
        "This license gave {reached} without a bound site, and may not give more now. Send the 'site_url' of a site that it is bound \
         to, or ask the vendor."
    )
}

fn release_detail(refusal: ReleaseRefusal) -> &'static str {
    match refusal {
        ReleaseRefusal::NotBound => "This site does not use this license, so it has nothing to give back.",
        ReleaseRefusal::NoSeat => {
            "All sites that this license is for are in use, and the new address needs one more. Give up one of them first, or ask \
             the vendor."
        }
        ReleaseRefusal::BoundByVendor => "The vendor entered this site by hand. Only the vendor can free it.",
        ReleaseRefusal::WrongSecret => {
            "Only the site itself can give up its license, and this request does not come from it. Deactivate the license there, or ask \
             the vendor."
        }
        ReleaseRefusal::TooManyMoves => {
            "This license has moved to other sites too often in 30 days. Ask the vendor to move it."
        }
    }
}

fn sentence(error: &dyn Display) -> String {
    let text = error.to_string();
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).chain(['.']).collect()
}
