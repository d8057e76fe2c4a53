//! Releases by the sites themselves: what a site must prove, and how often a license may move.
//!
//! A client sends the SHA-256 of a secret with its first validation, and the secret with its release. `store` decides.

use std::str::FromStr;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::digest::{Digest, NotADigest};
use crate::site_host::SiteHost;

/// Releases of this long count as moves of a license.
pub const MOVE_PERIOD: TimeDelta = TimeDelta::days(30);

/// A license whose sites gave a seat back so often in [`MOVE_PERIOD`] is worth a look. Fewer are a move, and a staging copy.
pub const MANY_MOVES: usize = 3;

/// The most releases of a license in [`MOVE_PERIOD`], those that are no moves included. It bounds the ledger.
pub const MOST_RELEASES: usize = 100;

/// How long a host may take its seat back that was released by the key alone, or that another site moved away from.
pub const RETURN_PERIOD: TimeDelta = TimeDelta::hours(72);

/// The SHA-256 of a release secret. It is no secret.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReleaseHash(Digest);

impl ReleaseHash {
    /// The hash of the secret that a client sent, of its bytes in UTF-8.
    pub fn of(secret: &str) -> Self {
        Self(Digest::of(secret.as_bytes()))
    }

    /// For a MAC of it.
    pub(crate) fn digest(self) -> Digest {
        self.0
    }
}

/// SECURITY: compared in constant time, so that the answer's time does not tell how much of a guess is right.
impl PartialEq for ReleaseHash {
    fn eq(&self, other: &Self) -> bool {
        verify_slices_are_equal(self.0.as_bytes(), other.0.as_bytes()).is_ok()
    }
}

impl Eq for ReleaseHash {}

impl FromStr for ReleaseHash {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Self, NotADigest> {
        text.parse().map(Self)
    }
}

/// How a binding ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum ReleasedBy {
    /// With the secret whose hash the binding has.
    Secret,
    /// With the license key alone; the binding has no hash.
    Key,
    /// By the customer, who was signed in on the customer's page.
    Customer,
    /// The seat was taken from the site: by a host that was released by the key alone and came back, or by the vendor.
    #[serde(rename = "return")]
    #[strum(serialize = "return")]
    Taken,
}

/// A site that was released by its client or the vendor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteRelease {
    /// The site.
    pub host: SiteHost,
    /// When.
    pub time: DateTime<Utc>,
    /// How.
    pub by: ReleasedBy,
    /// Where the site moved, if the same event bound the new host. In a box, because most releases have none.
    pub moved: Option<Box<SiteMove>>,
}

/// The new host of a site that moved, and what takes the seat back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteMove {
    /// The host that got the seat.
    pub to: SiteHost,
    /// The hash that the old binding had: its secret takes the seat back. `None`: the key alone does.
    pub hash: Option<ReleaseHash>,
}

/// The releases that count as moves of their license at `now`. `releases` are all that are known, in the order of the ledger,
/// and `is_held` says whether a host holds a seat.
///
/// A site that left with its secret and came back before any other site left did not move: a plugin that is deleted and
/// installed again costs nothing.
pub fn moves<'r>(
    releases: &'r [SiteRelease],
    is_held: impl Fn(&SiteHost) -> bool + 'r,
    now: DateTime<Utc>,
) -> impl Iterator<Item = &'r SiteRelease> {
    let nexts = releases.iter().skip(1).map(Some).chain([None]);
    let moves = releases.iter().zip(nexts).filter(move |(release, next)| {
        // Only a host that came back can leave again.
        let came_back = || next.map_or_else(|| is_held(&release.host), |next| next.host == release.host);
        let is_move = match release.by {
            // SECURITY: a person with a copy of the secret could otherwise move the site as often as it comes back.
            ReleasedBy::Secret => release.moved.is_some() || !came_back(),
            // SECURITY: a person with the key alone could otherwise release the site as often as it comes back.
            ReleasedBy::Key | ReleasedBy::Customer => true,
            ReleasedBy::Taken => false,
        };
        is_move && release.is_recent(now)
    });
    moves.map(|(release, _)| release)
}

impl SiteRelease {
    /// Whether it happened less than [`MOVE_PERIOD`] ago.
    pub fn is_recent(&self, now: DateTime<Utc>) -> bool {
        now.signed_duration_since(self.time) < MOVE_PERIOD
    }

    /// A release that is no move to another host.
    pub fn new(host: SiteHost, time: DateTime<Utc>, by: ReleasedBy) -> Self {
        Self {
            host,
            time,
            by,
            moved: None,
        }
    }

    /// Whether the host may take its seat back at `now`. `proof` is the hash of the secret that came with the request.
    pub fn may_return_at(&self, proof: Option<ReleaseHash>, now: DateTime<Utc>) -> bool {
        let is_proved = match self.moved.as_deref().and_then(|moved| moved.hash) {
            // A site that still runs on the old host asks by itself, so that needs what only a person's click sends.
            Some(hash) => proof == Some(hash),
            None => self.by == ReleasedBy::Key,
        };
        is_proved && now.signed_duration_since(self.time) < RETURN_PERIOD
    }
}

/// What a binding says of its release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReleaseState {
    /// It is released with the secret that has this hash.
    Guarded(ReleaseHash),
    /// It was released: it is void.
    Released {
        /// When.
        time: DateTime<Utc>,
        /// How.
        by: ReleasedBy,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn released(by: ReleasedBy) -> SiteRelease {
        left("a.com", by)
    }

    fn left(host: &str, by: ReleasedBy) -> SiteRelease {
        SiteRelease::new(host.parse().unwrap(), DateTime::UNIX_EPOCH, by)
    }

    #[test]
    fn a_hash_is_that_of_the_secrets_text() {
        // printf abc | sha256sum
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(known.parse(), Ok(ReleaseHash::of("abc")));
        assert_ne!(known.parse(), Ok(ReleaseHash::of("abd")));
        for bad in ["", "abc", &known.to_uppercase(), &known[1..]] {
            assert_eq!(bad.parse::<ReleaseHash>(), Err(NotADigest), "{bad}");
        }
    }

    #[test]
    fn a_release_counts_for_30_days_and_only_one_by_the_key_may_be_taken_back_for_72_hours() {
        let after = |hours| DateTime::UNIX_EPOCH + TimeDelta::hours(hours);
        let key = released(ReleasedBy::Key);
        assert_eq!(
            [71, 72].map(|hours| key.may_return_at(None, after(hours))),
            [true, false]
        );
        let is_move =
            |release: &SiteRelease, hours| moves(std::slice::from_ref(release), |_| false, after(hours)).count() == 1;
        assert_eq!([719, 720].map(|hours| is_move(&key, hours)), [true, false]);
        let secret = released(ReleasedBy::Secret);
        assert!(is_move(&secret, 1) && !secret.may_return_at(None, after(1)));
        let customer = released(ReleasedBy::Customer);
        assert!(is_move(&customer, 1) && !customer.may_return_at(None, after(1)));
        let taken_back = released(ReleasedBy::Taken);
        assert!(!is_move(&taken_back, 1) && !taken_back.may_return_at(None, after(1)));
    }

    #[test]
    fn a_site_that_moved_counts_once_and_its_old_secret_takes_the_seat_back_for_72_hours() {
        let after = |hours| DateTime::UNIX_EPOCH + TimeDelta::hours(hours);
        let right = Some(ReleaseHash::of("right"));
        let mut moved = left("old.com", ReleasedBy::Secret);
        moved.moved = Some(Box::new(SiteMove {
            to: "new.com".parse().unwrap(),
            hash: right,
        }));
        assert_eq!(
            [71, 72].map(|hours| moved.may_return_at(right, after(hours))),
            [true, false]
        );
        for wrong in [None, Some(ReleaseHash::of("wrong"))] {
            assert!(!moved.may_return_at(wrong, after(1)));
        }
        // Also where the old host has its seat again, in whatever way.
        let count = |held: &str| moves(std::slice::from_ref(&moved), |host| host.as_str() == held, after(1)).count();
        assert_eq!([count("new.com"), count("old.com")], [1, 1]);
        // A binding without a hash moved by the key alone.
        let by_key = |moved: &SiteRelease| SiteRelease {
            by: ReleasedBy::Key,
            moved: Some(Box::new(SiteMove {
                to: "new.com".parse().unwrap(),
                hash: None,
            })),
            ..moved.clone()
        };
        let by_key = by_key(&moved);
        assert!(by_key.may_return_at(None, after(71)) && !by_key.may_return_at(None, after(72)));
    }

    #[test]
    fn a_site_that_came_back_before_another_left_did_not_move() {
        let count = |hosts: &str, held: &str, by: ReleasedBy| {
            let releases: Vec<_> = hosts.split(' ').map(|host| left(host, by)).collect();
            let is_held = |host: &SiteHost| held.split(' ').any(|held| host.as_str() == held);
            moves(&releases, is_held, DateTime::UNIX_EPOCH).count()
        };
        for (hosts, held, expected) in [
            ("a.com", "", 1),
            ("a.com", "a.com", 0),
            ("a.com a.com a.com", "", 1),
            ("a.com a.com a.com", "a.com", 0),
            ("a.com b.com", "a.com", 2),
            ("a.com b.com a.com", "a.com", 2),
            ("a.com b.com b.com", "a.com b.com", 1),
        ] {
            assert_eq!(count(hosts, held, ReleasedBy::Secret), expected, "{hosts}, now {held}");
            assert_eq!(
                count(hosts, held, ReleasedBy::Key),
                hosts.split(' ').count(),
                "{hosts}, now {held}"
            );
        }
    }
}
