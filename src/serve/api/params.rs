//! Parses the parameters that both operations share. Code behind this file has no raw strings.

use uuid::Uuid;

use crate::serve::found_license::FoundLicense;
use crate::serve::gate::Snapshot;
use crate::serve::reply::problem::Problem;
use crate::serve::state::Service;
use countersign_model::foreign_key::ForeignKey;
use countersign_model::license_key::{LicenseId, LicenseKey};
use countersign_model::site_host::{SiteHost, SiteHostError};
use countersign_settings::config::LocalHosts;

/// The longest version that a site may report, in bytes.
pub const MAX_VERSION: usize = 64;

/// Parses the license key and drops it. All other code has only the license's id.
pub fn license_id(service: &Service, license_key: Option<&str>) -> Result<LicenseId, Problem> {
    let license_key = license_key.ok_or(Problem::MissingField("license_key"))?;
    match license_key.parse::<LicenseKey>() {
        Ok(key) => Ok(key.id()),
        Err(error) => foreign_id(service, license_key).ok_or(Problem::LicenseKey(error)),
    }
}

/// The id of the license with this key of another system. One that nobody knows is answered like a mistyped key of ours.
fn foreign_id(service: &Service, text: &str) -> Option<LicenseId> {
    if !service.foreign_keys {
        return None;
    }
    let id = ForeignKey::parse(text).ok()?.id();
    let is_known = service.gate.license(&service.gate.load(), &id).is_some();
    is_known.then_some(id)
}

/// Whether a text is the request's own key, of another system, in the wrong field.
///
/// SECURITY: it is compared, and not looked up: a look-up would answer guesses that no rate limit counts.
fn is_own_key(service: &Service, id: &LicenseId, text: &str) -> bool {
    service.foreign_keys && ForeignKey::parse(text).is_ok_and(|key| key.id() == *id)
}

/// A version as a site reports it; `None` if it is the license key in the wrong field. A key of ours is found where it would
/// be stored.
pub fn reported_version<'a>(service: &Service, id: &LicenseId, version: Option<&'a str>) -> Option<&'a str> {
    version.filter(|version| !is_own_key(service, id, version))
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

/// Normalizes the site address of a request with this license; the setting `local_hosts` says whether a host that only its own
/// network can reach is accepted.
pub fn site_host(service: &Service, id: &LicenseId, site_url: &str) -> Result<SiteHost, Problem> {
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
    let mut parts = std::iter::once(host.as_str()).chain(host.as_str().split('.'));
    if LicenseKey::is_in(host.as_str()) || parts.any(|part| is_own_key(service, id, part)) {
        return refused("license_key", "it is a license key");
    }
    if service.local_hosts == LocalHosts::Refuse && host.is_local() {
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
