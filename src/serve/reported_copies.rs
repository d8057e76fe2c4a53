//! Counts what sites say of the copies they run: whether the build id of a validation is the site's own.
//!
//! `review` names the sites; a counter has no label that a client can choose. Only validations are counted: beside their
//! signature, reading a build id costs nothing, and each site validates daily.

use uuid::Uuid;

use crate::model::build_id::BuildId;
use crate::model::license_key::LicenseId;
use crate::serve::gate::{LicenseRequest, Snapshot};
use crate::serve::metrics::{Counters, ReportedCopy};

/// How many licenses that replaced each other are followed.
const MOST_REPLACED: usize = 16;

/// Counts the build id of a license's site. One that is in packages as they are kept counts as none.
pub(super) fn count(counts: &Counters<ReportedCopy>, snapshot: &Snapshot, license_request: &LicenseRequest<'_>) {
    let is_known = license_request.license.is_some();
    let build_id = license_request.check_in.build_id;
    if let Some(build_id) = build_id.filter(|id| is_known && !id.is_nil()) {
        counts[reported(snapshot, license_request, build_id)].inc();
    }
}

fn reported(snapshot: &Snapshot, license_request: &LicenseRequest<'_>, build_id: Uuid) -> ReportedCopy {
    let mut keys = snapshot.downloads.iter().flat_map(|keys| keys.all());
    let read = keys.find_map(|key| Some((key, BuildId::decrypt(key, build_id)?)));
    let Some((key, copy)) = read else {
        return ReportedCopy::Unknown;
    };
    // A day to come is forged, whatever else fits.
    let was_made = copy.day() <= license_request.check_in.time.date_naive();
    let is_of_site = copy.is_of_host(key, license_request.host);
    if was_made && is_of_site && is_of_license(snapshot, &copy, license_request.id) {
        ReportedCopy::Own
    } else {
        ReportedCopy::Moved
    }
}

/// Whether the copy was given to this license, or to one that it replaced: a site keeps its copy when its key is
/// replaced.
fn is_of_license(snapshot: &Snapshot, copy: &BuildId, license: &LicenseId) -> bool {
    let replaced = |id: &LicenseId| snapshot.registry.license(id)?.details.replaces;
    std::iter::successors(Some(*license), replaced)
        .take(MOST_REPLACED)
        .any(|id| copy.is_of_license(&id))
}
