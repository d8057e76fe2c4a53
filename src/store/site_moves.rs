//! Releases by clients: who may release a site, and who may take a seat back. Decided by the committing thread.
//!
//! A binding with a release hash needs its secret. Another one is released by the key alone, and then the old host may
//! take its seat back for 72 hours. [`binding_batch`](crate::store::binding_batch) has the lines appended.

use chrono::{DateTime, Utc};

use crate::model::binding::{Binding, Stored};
use crate::model::license::License;
use crate::model::seat::Seat;
use crate::model::site_host::SiteHost;
use crate::model::site_release::{self, MOST_RELEASES, ReleaseHash, ReleasedBy, SiteRelease};

use crate::store::bindings::BoundSites;

/// A client's request to release its site.
#[derive(Clone, Debug)]
pub struct ReleaseRequest {
    /// The license. One of the ledger may have changed when the thread decides; it decides by what the license is then.
    pub license: License,
    /// The site.
    pub host: SiteHost,
    /// The hash of the secret that came with the request.
    pub proof: Option<ReleaseHash>,
    /// How many moves the license has in 30 days.
    pub most_moves: u32,
    /// The time of the request. A shared ledger uses its own clock.
    pub now: DateTime<Utc>,
}

/// The result of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteReleaseOutcome {
    /// The site holds no seat any more, durably.
    Released,
    /// It was released before: the answer to the first request may have been lost.
    AlreadyReleased,
    /// Nothing was changed.
    Refused(ReleaseRefusal),
}

/// Why a site was not released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseRefusal {
    /// The license is not bound to this site.
    NotBound,
    /// The vendor bound the site in a license file.
    BoundByVendor,
    /// The binding has a hash, and the request has another secret, or none.
    WrongSecret,
    /// The license has moved too often.
    TooManyMoves,
}

/// The line that releases the site; `None` if it was released before.
///
/// `license` is the license as it is now.
pub(crate) fn release(
    request: &ReleaseRequest,
    license: &License,
    stored: &BoundSites<'_>,
    clock: Option<DateTime<Utc>>,
) -> Result<Option<SiteRelease>, ReleaseRefusal> {
    let host = &request.host;
    let now = clock.unwrap_or(request.now);
    if license.details.hosts.contains(host) {
        return Err(ReleaseRefusal::BoundByVendor);
    }
    let held = |binding: &&Binding| !license.is_void(binding);
    let Some(binding) = stored.find(host).filter(held) else {
        // The answer to the first request may have been lost.
        let was_released = stored.moves().iter().any(|release| release.host == *host);
        return was_released.then_some(None).ok_or(ReleaseRefusal::NotBound);
    };
    let by = match binding.release_hash() {
        None => ReleasedBy::Key,
        hash if hash == request.proof => ReleasedBy::Secret,
        Some(_) => return Err(ReleaseRefusal::WrongSecret),
    };
    let is_held = |host: &SiteHost| stored.find(host).is_some_and(|binding| held(&binding));
    let moves = site_release::moves(stored.moves(), is_held, now).count();
    let releases = stored.moves().iter().filter(|release| release.is_recent(now));
    if moves >= request.most_moves as usize || releases.count() >= MOST_RELEASES.max(request.most_moves as usize) {
        return Err(ReleaseRefusal::TooManyMoves);
    }
    Ok(Some(SiteRelease {
        host: host.clone(),
        // Never before the binding, whatever happens to the clock.
        time: now.max(binding.bound_at),
        by,
    }))
}

/// The release that `host` may take back: by the key alone, within 72 hours. The vendor's own release ends that.
pub(crate) fn may_return<'s>(
    license: &License,
    stored: &'s BoundSites<'_>,
    host: &SiteHost,
    now: DateTime<Utc>,
) -> Option<&'s SiteRelease> {
    let latest = stored.moves().iter().rfind(|release| release.host == *host)?;
    let binding = stored.find(host).filter(|binding| binding.is_released())?;
    (latest.may_return_at(now) && !license.details.released.voids(binding)).then_some(latest)
}

/// What ends so that `host` gets back the seat that it may take back; `None` if nothing helps. The first site that was bound
/// since, and, as far as they hold the seat with it, sites under it or above it that were bound since, too.
pub(crate) fn leaving(
    license: &License,
    stored: &BoundSites<'_>,
    staging_sites: u32,
    host: &SiteHost,
    now: DateTime<Utc>,
) -> Option<Vec<SiteRelease>> {
    let taken_back = may_return(license, stored, host, now)?;
    let came_later =
        |binding: &&Binding| binding.bound_at >= taken_back.time && !license.details.hosts.contains(&binding.host);
    let valid = || stored.iter().filter(|binding| !license.is_void(binding));
    let first = valid().find(came_later)?;
    let is_under = |host: &SiteHost, other: &SiteHost| host.parents().any(|parent| parent == other.as_str());
    let is_with_first = |binding: &&Binding| {
        binding.host == first.host || is_under(&binding.host, &first.host) || is_under(&first.host, &binding.host)
    };
    let mut after = stored.to_changed()?;
    let mut leaving = Vec::new();
    for binding in valid().filter(came_later).filter(is_with_first) {
        let release = SiteRelease {
            host: binding.host.clone(),
            time: now.max(binding.bound_at),
            by: ReleasedBy::Return,
        };
        leaving.push(release.clone());
        after.release(release);
        if license.seat(&BoundSites::changed(after.clone()), staging_sites, host) == Seat::Free {
            return Some(leaving);
        }
    }
    // After the vendor lowered `sites`, one site less does not help.
    None
}
