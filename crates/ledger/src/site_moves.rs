//! Releases of sites: who may release a site, and who may take a seat back. Decided by the committing thread.
//!
//! A binding with a release hash needs its secret. Another one is released by the key alone, and then the old host may
//! take its seat back for 72 hours. A site that moves gives its seat to its new host in one line, and the old host may take it
//! back with the old secret, once. The vendor needs neither, and may give the seat to another site in the same commit.
//! The lines are added to the [`draft`](crate::draft) of the commit.

use chrono::{DateTime, Utc};

use countersign_model::binding::{Binding, Stored};
use countersign_model::license::License;
use countersign_model::seat::Seat;
use countersign_model::site_host::SiteHost;
use countersign_model::site_release::{self, MOST_RELEASES, ReleaseHash, ReleasedBy, SiteMove, SiteRelease};
use countersign_model::staging_hosts::StagingRule;

use crate::bindings::BoundSites;
use crate::command::{CommitTurn, LedgerCommand};
use crate::draft::CommitDraft;
use crate::log::record::LedgerEvent;
use crate::log::{LedgerEntry, ReleaseEntry};

/// A request to release a site.
#[derive(Clone, Debug)]
pub struct ReleaseRequest {
    /// The license. One of the ledger may have changed when the thread decides; it decides by what the license is then.
    pub license: License,
    /// The site.
    pub host: SiteHost,
    /// Who asks.
    pub by: Releaser,
    /// The time of the request. A shared ledger uses its own clock.
    pub now: DateTime<Utc>,
}

/// Who asks to release a site.
#[derive(Clone, Debug)]
pub enum Releaser {
    /// The site's client.
    Site {
        /// The hash of the secret that came with the request.
        proof: Option<ReleaseHash>,
        /// How many moves the license has in 30 days.
        most_moves: u32,
        /// The host that the site moves to, which gets the seat in the same line.
        successor: Option<Successor>,
    },
    /// The customer, who was signed in. The site's own secret is not needed: a site that is gone cannot send it.
    Customer {
        /// How many moves the license has in 30 days.
        most_moves: u32,
        /// The host that the site moves to, which gets the seat in the same line.
        successor: Option<Successor>,
    },
    /// The vendor.
    Vendor {
        /// The site that gets the seat.
        successor: Option<SiteHost>,
        /// The server's setting about staging copies.
        staging: StagingRule,
    },
}

/// The host that a site moves to.
#[derive(Clone, Debug)]
pub struct Successor {
    /// The host.
    pub host: SiteHost,
    /// The hash of the secret that shall release it.
    pub release_hash: Option<ReleaseHash>,
    /// The server's setting about staging copies.
    pub staging: StagingRule,
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
    /// Other sites hold all seats, so that the successor gets none.
    NoSeat,
}

/// Why somebody may release a site without the vendor.
#[derive(Clone, Copy, Debug)]
enum MoveProof {
    /// The hash of the secret that came with the request, if one came.
    OfSite(Option<ReleaseHash>),
    /// The customer was signed in.
    OfCustomer,
}

/// What a release changes.
#[derive(Debug)]
struct DecidedRelease {
    /// The site that leaves.
    release: SiteRelease,
    /// The binding of its successor, unless that site is bound already. It is part of the release's line if the site moved.
    successor: Option<Binding>,
}

impl DecidedRelease {
    fn of_one(release: SiteRelease) -> Self {
        Self {
            release,
            successor: None,
        }
    }
}

impl LedgerCommand for ReleaseRequest {
    type Outcome = SiteReleaseOutcome;
    const TURN: CommitTurn = CommitTurn::Release;
    /// The seat may go to another site.
    const MOST_LINES: usize = 2;

    fn decide(&self, draft: &mut CommitDraft<'_>) -> SiteReleaseOutcome {
        let license = self.license.id;
        let current = draft.current(&self.license);
        // Not in the head of the `match`: what `stored` shares would live to its end, and each change below would copy all
        // bindings of the license.
        let decided = release(self, &current, &draft.stored(&license), draft.now(self.now));
        match decided {
            Err(refusal) => SiteReleaseOutcome::Refused(refusal),
            Ok(None) => SiteReleaseOutcome::AlreadyReleased,
            Ok(Some(DecidedRelease { release, successor })) => {
                let mut entry = ReleaseEntry::new(license, release);
                if entry.release.moved.is_some() {
                    entry.successor = successor;
                    draft.append(LedgerEvent::Released(entry));
                    return SiteReleaseOutcome::Released;
                }
                draft.append(LedgerEvent::Released(entry));
                if let Some(binding) = successor {
                    draft.append(LedgerEvent::Bound(LedgerEntry { license, binding }));
                }
                SiteReleaseOutcome::Released
            }
        }
    }
}

/// What releases the site; `None` if it was released before.
///
/// `license` is the license as it is now.
fn release(
    request: &ReleaseRequest,
    license: &License,
    stored: &BoundSites<'_>,
    now: DateTime<Utc>,
) -> Result<Option<DecidedRelease>, ReleaseRefusal> {
    if license.details.hosts.contains(&request.host) {
        return Err(ReleaseRefusal::BoundByVendor);
    }
    let (proof, most_moves, successor) = match &request.by {
        Releaser::Site {
            proof,
            most_moves,
            successor,
        } => (MoveProof::OfSite(*proof), *most_moves, successor),
        Releaser::Customer { most_moves, successor } => (MoveProof::OfCustomer, *most_moves, successor),
        Releaser::Vendor { successor, staging } => {
            return by_vendor(&request.host, successor.as_ref(), staging, license, stored, now);
        }
    };
    let release = counted(&request.host, proof, most_moves, license, stored, now)?;
    match (successor, release) {
        (None, release) => Ok(release.map(DecidedRelease::of_one)),
        // The answer to the first request may have been lost.
        (Some(Successor { host, staging, .. }), None) => {
            let is_done = license.seat(stored, staging, host) == Seat::Held;
            is_done.then_some(None).ok_or(ReleaseRefusal::NotBound)
        }
        (Some(successor), Some(release)) => moved(release, successor, license, stored, now).map(Some),
    }
}

/// The move of a site whose release is allowed, to a host that has a seat then.
fn moved(
    mut release: SiteRelease,
    successor: &Successor,
    license: &License,
    stored: &BoundSites<'_>,
    now: DateTime<Utc>,
) -> Result<DecidedRelease, ReleaseRefusal> {
    let Successor {
        host,
        release_hash,
        staging,
    } = successor;
    match seat_after(&release, host, staging, license, stored, now)? {
        None => Ok(DecidedRelease::of_one(release)),
        Some(time) => {
            // A line has one time, and the old host takes back what was bound since.
            release.time = time;
            release.moved = Some(Box::new(SiteMove {
                to: host.clone(),
                hash: stored.find(&release.host).and_then(Binding::release_hash),
            }));
            Ok(DecidedRelease {
                release,
                successor: Some(Binding::new(host.clone(), time).guarded(*release_hash)),
            })
        }
    }
}

/// The time of the successor's binding after the release; `None` if it is bound already.
fn seat_after(
    release: &SiteRelease,
    successor: &SiteHost,
    staging: &StagingRule,
    license: &License,
    stored: &BoundSites<'_>,
    now: DateTime<Utc>,
) -> Result<Option<DateTime<Utc>>, ReleaseRefusal> {
    let mut after = stored.to_changed().ok_or(ReleaseRefusal::NotBound)?;
    after.release(release.clone());
    let after = BoundSites::changed(after);
    match license.seat(&after, staging, successor) {
        Seat::Held => Ok(None),
        Seat::Free => Ok(Some(bound_at(license, &after, successor, now))),
        Seat::Taken { .. } => Err(ReleaseRefusal::NoSeat),
    }
}

/// The time of a new binding of `host`: `now`, or the time of the license's last known release if a clock puts that later.
pub(crate) fn bound_at(
    license: &License,
    stored: &BoundSites<'_>,
    host: &SiteHost,
    now: DateTime<Utc>,
) -> DateTime<Utc> {
    let by_vendor = license.details.released.time_of(host);
    let in_ledger = stored.moves().last().map(|release| release.time);
    by_vendor.max(in_ledger).map_or(now, |release| release.max(now))
}

/// The release of a site by the vendor, who may give its seat to another site.
fn by_vendor(
    host: &SiteHost,
    successor: Option<&SiteHost>,
    staging: &StagingRule,
    license: &License,
    stored: &BoundSites<'_>,
    now: DateTime<Utc>,
) -> Result<Option<DecidedRelease>, ReleaseRefusal> {
    let Some(binding) = stored.find(host).filter(|binding| !license.is_void(binding)) else {
        let is_done = match successor {
            Some(successor) => license.seat(stored, staging, successor) == Seat::Held,
            None => license.knows_site(host, stored.all()),
        };
        return is_done.then_some(None).ok_or(ReleaseRefusal::NotBound);
    };
    let release = SiteRelease::new(host.clone(), now.max(binding.bound_at), ReleasedBy::Taken);
    let Some(successor) = successor else {
        // Without a copy of all sites: the vendor may release one after the other.
        return Ok(Some(DecidedRelease::of_one(release)));
    };
    let time = seat_after(&release, successor, staging, license, stored, now)?;
    let successor = time.map(|time| Binding::new(successor.clone(), time));
    Ok(Some(DecidedRelease { release, successor }))
}

/// The release of a site by its client or the customer, of which a license has so many; `None` if it was released before.
fn counted(
    host: &SiteHost,
    proof: MoveProof,
    most_moves: u32,
    license: &License,
    stored: &BoundSites<'_>,
    now: DateTime<Utc>,
) -> Result<Option<SiteRelease>, ReleaseRefusal> {
    let held = |binding: &&Binding| !license.is_void(binding);
    let Some(binding) = stored.find(host).filter(held) else {
        // The answer to the first request may have been lost.
        let was_released = stored.moves().iter().any(|release| release.host == *host);
        return was_released.then_some(None).ok_or(ReleaseRefusal::NotBound);
    };
    let by = match (proof, binding.release_hash()) {
        (MoveProof::OfCustomer, _) => ReleasedBy::Customer,
        (MoveProof::OfSite(_), None) => ReleasedBy::Key,
        (MoveProof::OfSite(proof), hash) if hash == proof => ReleasedBy::Secret,
        (MoveProof::OfSite(_), Some(_)) => return Err(ReleaseRefusal::WrongSecret),
    };
    let is_held = |host: &SiteHost| stored.find(host).is_some_and(|binding| held(&binding));
    let moves = site_release::moves(stored.moves(), is_held, now).count();
    let is_by_client = |release: &&SiteRelease| release.by != ReleasedBy::Taken && release.is_recent(now);
    let releases = stored.moves().iter().filter(is_by_client);
    if moves >= most_moves as usize || releases.count() >= MOST_RELEASES.max(most_moves as usize) {
        return Err(ReleaseRefusal::TooManyMoves);
    }
    // Never before the binding, whatever happens to the clock.
    let time = now.max(binding.bound_at);
    Ok(Some(SiteRelease::new(host.clone(), time, by)))
}

/// The release that `host` may take back within 72 hours: one by the key alone, or a move if `proof` is the old secret's. It is
/// the last one of the host, so each is taken back once. The vendor's own release ends that.
pub(crate) fn may_return<'s>(
    license: &License,
    stored: &'s BoundSites<'_>,
    host: &SiteHost,
    proof: Option<ReleaseHash>,
    now: DateTime<Utc>,
) -> Option<&'s SiteRelease> {
    let latest = stored.moves().iter().rfind(|release| release.host == *host)?;
    let binding = stored.find(host).filter(|binding| binding.is_released())?;
    (latest.may_return_at(proof, now) && !license.details.released.voids(binding)).then_some(latest)
}

/// What ends so that `host` gets back the seat that it may take back; `None` if nothing helps. The host that it moved to, or else
/// the first site that was bound since, and, as far as they hold the seat with it, its staging copies and sites that it is a copy of, if they were bound since, too.
pub(crate) fn leaving(
    license: &License,
    stored: &BoundSites<'_>,
    staging: &StagingRule,
    returning: (&SiteHost, Option<ReleaseHash>),
    now: DateTime<Utc>,
) -> Option<Vec<SiteRelease>> {
    let (host, proof) = returning;
    let taken_back = may_return(license, stored, host, proof, now)?;
    let came_later =
        |binding: &&Binding| binding.bound_at >= taken_back.time && !license.details.hosts.contains(&binding.host);
    let valid = || stored.iter().filter(|binding| !license.is_void(binding));
    let moved_to = taken_back.moved.as_deref().map(|moved| &moved.to);
    let is_moved_to = |binding: &&Binding| came_later(binding) && Some(&binding.host) == moved_to;
    let first = valid().find(is_moved_to).or_else(|| valid().find(came_later))?;
    let is_copy = |host: &SiteHost, site: &SiteHost| staging.hosts.is_copy_beside(host, site);
    let is_with_first = |binding: &&Binding| {
        binding.host == first.host || is_copy(&binding.host, &first.host) || is_copy(&first.host, &binding.host)
    };
    let mut after = stored.to_changed()?;
    let mut leaving = Vec::new();
    for binding in valid().filter(came_later).filter(is_with_first) {
        let release = SiteRelease::new(binding.host.clone(), now.max(binding.bound_at), ReleasedBy::Taken);
        leaving.push(release.clone());
        after.release(release);
        if license.seat(&BoundSites::changed(after.clone()), staging, host) == Seat::Free {
            return Some(leaving);
        }
    }
    // After the vendor lowered `sites`, one site less does not help.
    None
}
