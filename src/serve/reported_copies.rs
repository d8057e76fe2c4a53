//! Counts what sites say of the copies they run: whether the build id of a validation is the site's own.
//!
//! `review` names the sites; a counter has no label that a client can choose. Only validations are counted: beside their
//! signature, reading a build id costs nothing, and each site validates daily.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::serve::gate::{Gate, LicenseRequest, Snapshot};
use crate::serve::metrics::{Counters, ReportedCopy};
use countersign_model::build_id::BuildId;
use countersign_model::download_key::DownloadKey;
use countersign_model::license_key::LicenseId;
use countersign_model::site_host::SiteHost;

/// How many licenses that replaced each other are followed.
const MOST_REPLACED: usize = 16;

/// Counts the build id of a license's site. One that is in packages as they are kept counts as none.
pub(super) fn count(
    counts: &Counters<ReportedCopy>,
    gate: &Gate,
    snapshot: &Snapshot,
    license_request: &LicenseRequest<'_>,
) {
    let is_known = license_request.license.is_some();
    let build_id = license_request.check_in.build_id;
    if let Some(build_id) = build_id.filter(|id| is_known && !id.is_nil()) {
        counts[reported(gate, snapshot, license_request, build_id)].inc();
    }
}

fn reported(gate: &Gate, snapshot: &Snapshot, license_request: &LicenseRequest<'_>, build_id: Uuid) -> ReportedCopy {
    let Some((key, copy)) = decrypted(snapshot, build_id) else {
        return ReportedCopy::Unknown;
    };
    let LicenseRequest { id, host, check_in, .. } = license_request;
    match is_copy_of(gate, snapshot, (key, &copy), id, host, check_in.time) {
        true => ReportedCopy::Own,
        false => ReportedCopy::Moved,
    }
}

/// Whether a site's build id is its own.
pub(super) fn is_own(
    gate: &Gate,
    snapshot: &Snapshot,
    license: &LicenseId,
    host: &SiteHost,
    build_id: Uuid,
    now: DateTime<Utc>,
) -> bool {
    decrypted(snapshot, build_id)
        .is_some_and(|(key, copy)| is_copy_of(gate, snapshot, (key, &copy), license, host, now))
}

fn decrypted(snapshot: &Snapshot, build_id: Uuid) -> Option<(&DownloadKey, BuildId)> {
    let mut keys = snapshot.secrets.downloads.iter().flat_map(|keys| keys.all());
    keys.find_map(|key| Some((key, BuildId::decrypt(key, build_id)?)))
}

fn is_copy_of(
    gate: &Gate,
    snapshot: &Snapshot,
    (key, copy): (&DownloadKey, &BuildId),
    license: &LicenseId,
    host: &SiteHost,
    now: DateTime<Utc>,
) -> bool {
    // A day to come is forged, whatever else fits. A first copy was given to no site: it is every site's of the license.
    let is_of_site = copy.is_first_copy(key) || copy.is_of_host(key, host);
    copy.day() <= now.date_naive() && is_of_site && is_of_license(gate, snapshot, copy, license)
}

/// Whether the copy was given to this license, or to one that it replaced: a site keeps its copy when its key is
/// replaced.
fn is_of_license(gate: &Gate, snapshot: &Snapshot, copy: &BuildId, license: &LicenseId) -> bool {
    let replaced = |id: &LicenseId| gate.license(snapshot, id)?.details.replaces;
    std::iter::successors(Some(*license), replaced)
        .take(MOST_REPLACED)
        .any(|id| copy.is_of_license(&id))
}
