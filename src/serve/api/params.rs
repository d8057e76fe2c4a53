//! Parses the parameters that both operations share. Code behind this file has no raw strings.

use uuid::Uuid;

use crate::config::LocalHosts;
use crate::model::license_key::{LicenseId, LicenseKey};
use crate::model::site_host::{SiteHost, SiteHostError};
use crate::serve::found_license::FoundLicense;
use crate::serve::gate::Snapshot;
use crate::serve::reply::problem::Problem;
use crate::serve::state::Service;

/// The longest version that a site may report, in bytes.
pub const MAX_VERSION: usize = 64;

/// Parses the license key and drops it. All other code has only the license's id.
pub fn license_id(license_key: Option<&str>) -> Result<LicenseId, Problem> {
    let key: LicenseKey = license_key
        .ok_or(Problem::MissingField("license_key"))?
        .parse()
        .map_err(Problem::LicenseKey)?;
    Ok(key.id())
}

/// The license with this id, if it exists and its rate limit allows the request.
pub fn find_license<'a>(
    service: &Service,
    snapshot: &'a Snapshot,
    id: &LicenseId,
) -> Result<Option<FoundLicense<'a>>, Problem> {
    let license = service.gate.license(snapshot, id);
    if license.is_some() {
        service.limits.check_license(id)?;
    }
    Ok(license)
}

/// Normalizes the site address; `local_hosts` says whether a host that only its own network can reach is accepted.
pub fn site_host(site_url: &str, local_hosts: LocalHosts) -> Result<SiteHost, Problem> {
    let malformed = |error: SiteHostError| Problem::SiteUrl {
        reason: error.code(),
        text: error.to_string(),
    };
    let host: SiteHost = site_url.parse().map_err(malformed)?;
    let refused = |reason, text: &str| {
        Err(Problem::SiteUrl {
            reason,
            text: text.to_owned(),
        })
    };
    // SECURITY: a host is stored and logged, and people paste the key into the wrong field.
    if LicenseKey::is_in(host.as_str()) {
        return refused("license_key", "it is a license key");
    }
    if local_hosts == LocalHosts::Refuse && host.is_local() {
        return refused(
            "local_host",
            "this server does not accept sites on localhost or a private network",
        );
    }
    Ok(host)
}

/// Parses a build id; an empty one counts as not sent.
pub fn build_id(text: Option<&str>) -> Result<Option<Uuid>, Problem> {
    match text {
        None | Some("") => Ok(None),
        Some(text) => Uuid::try_parse(text).map(Some).map_err(|_| Problem::BuildId),
    }
}

/// Refuses a field that is too long.
pub fn at_most(limit: usize, field: &'static str, value: Option<&str>) -> Result<(), Problem> {
    match value {
        Some(value) if value.len() > limit => Err(Problem::FieldTooLong { field, limit }),
        _ => Ok(()),
    }
}
