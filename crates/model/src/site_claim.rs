//! Claims of sites that were installed again: their secret is lost, and the license key alone takes the binding over, slowly.
//!
//! A claim begins when a bound host validates with another release hash than that of its binding. It is carried out after
//! [`CLAIM_PERIOD`] in which that host validated with no other hash, or at once where the customer confirms it by the link of a
//! [mail](crate::site_claim_token). Any other hash ends it, also a third one: anybody can name any host.

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::site_host::SiteHost;
use crate::site_release::{MOVE_PERIOD, RETURN_PERIOD, ReleaseHash};

/// How long the old hash must not be seen. A quiet site validates late: WP-Cron needs visitors.
pub const CLAIM_PERIOD: TimeDelta = TimeDelta::days(14);

/// The most claims of a license that begin in [`MOVE_PERIOD`]. It bounds the ledger.
pub const MOST_CLAIMS: usize = 5;

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum ClaimStep {
    /// It waits.
    Begun,
    /// Another hash was seen.
    Ended,
    /// The binding has the new hash, because nobody had another one for so long.
    Taken,
    /// The binding has the new hash, because the customer said so.
    Confirmed,
    /// The binding has its old hash again.
    Returned,
}

/// The claim of a site, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteClaim {
    /// The site.
    pub host: SiteHost,
    /// The new hash.
    pub hash: ReleaseHash,
    /// The hash of the binding when the claim began.
    pub replaces: ReleaseHash,
    /// What became of it.
    pub step: ClaimStep,
    /// When.
    pub time: DateTime<Utc>,
}

impl SiteClaim {
    /// Whether it waits for the binding that has `bound` as its hash.
    pub fn is_pending(&self, bound: ReleaseHash) -> bool {
        self.step == ClaimStep::Begun && self.replaces == bound
    }

    /// Whether the customer may still confirm it at `now`.
    pub fn may_be_confirmed(&self, bound: ReleaseHash, now: DateTime<Utc>) -> bool {
        self.is_pending(bound) && now.signed_duration_since(self.time) < CLAIM_PERIOD
    }

    /// Whether the binding had the new hash by it.
    pub fn is_carried_out(&self) -> bool {
        matches!(self.step, ClaimStep::Taken | ClaimStep::Confirmed)
    }

    /// Whether its time counts at `now`.
    pub fn is_recent(&self, now: DateTime<Utc>) -> bool {
        now.signed_duration_since(self.time) < MOVE_PERIOD
    }
}

/// What follows from a validation of a bound host with the hash `seen`, where the binding has `bound`, and `claim` is the last one of
/// the host; `None` if nothing does. `may_begin` says whether the license may have one more claim. Only an active license begins or
/// carries out a claim; any ends one.
pub fn next_step(
    claim: Option<&SiteClaim>,
    [bound, seen]: [ReleaseHash; 2],
    (is_active, may_begin): (bool, bool),
    now: DateTime<Utc>,
) -> Option<ClaimStep> {
    let age = |claim: &SiteClaim| now.signed_duration_since(claim.time);
    match claim {
        Some(claim) if claim.is_pending(bound) => match claim.hash == seen {
            true => (is_active && age(claim) >= CLAIM_PERIOD).then_some(ClaimStep::Taken),
            false => Some(ClaimStep::Ended),
        },
        Some(claim)
            if claim.is_carried_out()
                && claim.hash == bound
                && claim.replaces == seen
                && age(claim) < RETURN_PERIOD =>
        {
            Some(ClaimStep::Returned)
        }
        claim => {
            let is_free = claim.is_none_or(|claim| !claim.is_recent(now));
            (seen != bound && is_active && may_begin && is_free).then_some(ClaimStep::Begun)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(secret: &str) -> ReleaseHash {
        ReleaseHash::of(secret)
    }

    fn at(hours: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::hours(hours)
    }

    fn claim(step: ClaimStep) -> SiteClaim {
        SiteClaim {
            host: "a.com".parse().unwrap(),
            hash: hash("new"),
            replaces: hash("old"),
            step,
            time: at(0),
        }
    }

    fn next(claim: Option<&SiteClaim>, bound: &str, seen: &str, hours: i64) -> Option<ClaimStep> {
        next_step(claim, [hash(bound), hash(seen)], (true, true), at(hours))
    }

    #[test]
    fn a_claim_waits_14_days_and_every_other_hash_ends_it() {
        const DAYS: i64 = 24;
        let pending = claim(ClaimStep::Begun);
        for (seen, hours, expected) in [
            ("new", 1, None),
            ("new", 14 * DAYS - 1, None),
            ("new", 14 * DAYS, Some(ClaimStep::Taken)),
            ("new", 400 * DAYS, Some(ClaimStep::Taken)),
            ("old", 1, Some(ClaimStep::Ended)),
            ("old", 400 * DAYS, Some(ClaimStep::Ended)),
            ("third", 1, Some(ClaimStep::Ended)),
        ] {
            assert_eq!(next(Some(&pending), "old", seen, hours), expected, "{seen} {hours}");
        }
        // A clock that went back makes no claim older.
        assert_eq!(next(Some(&pending), "old", "new", -400 * DAYS), None);
        // A license that is not active takes nothing over, and hears the old hash all the same.
        for (seen, expected) in [("new", None), ("old", Some(ClaimStep::Ended))] {
            let hashes = [hash("old"), hash(seen)];
            let found = next_step(Some(&pending), hashes, (false, true), at(400 * DAYS));
            assert_eq!(found, expected, "{seen}");
        }
        // The host was released and bound again since.
        assert_eq!(next(Some(&pending), "fresh", "new", 20 * DAYS), None);
        assert_eq!(next(Some(&pending), "fresh", "new", 30 * DAYS), Some(ClaimStep::Begun));
    }

    #[test]
    fn a_claim_begins_once_in_30_days_and_never_for_the_hash_that_is_bound() {
        assert_eq!(next(None, "old", "new", 0), Some(ClaimStep::Begun));
        assert_eq!(next(None, "old", "old", 0), None);
        for refused in [(false, true), (true, false)] {
            assert_eq!(next_step(None, [hash("old"), hash("new")], refused, at(0)), None);
        }
        for step in [ClaimStep::Ended, ClaimStep::Returned] {
            let over = claim(step);
            let found = [719, 720].map(|hours| next(Some(&over), "old", "new", hours));
            assert_eq!(found, [None, Some(ClaimStep::Begun)], "{step:?}");
        }
    }

    #[test]
    fn the_old_hash_takes_the_binding_back_for_72_hours() {
        for step in [ClaimStep::Taken, ClaimStep::Confirmed] {
            let taken = claim(step);
            for (seen, hours, expected) in [
                ("old", 71, Some(ClaimStep::Returned)),
                ("old", 72, None),
                ("third", 1, None),
                ("new", 1, None),
            ] {
                assert_eq!(next(Some(&taken), "new", seen, hours), expected, "{seen} {hours}");
            }
        }
    }
}
