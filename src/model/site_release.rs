//! Releases by the sites themselves: what a site must prove, and how often a license may move.
//!
//! A client sends the SHA-256 of a secret with its first validation, and the secret with its release. `store` decides.

use std::str::FromStr;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::model::digest::{Digest, NotADigest};
use crate::model::site_host::SiteHost;

/// Releases of this long count as moves of a license.
pub const MOVE_PERIOD: TimeDelta = TimeDelta::days(30);

/// A license whose sites gave a seat back so often in [`MOVE_PERIOD`] is worth a look. Fewer are a move, and a staging copy.
pub const MANY_MOVES: usize = 3;

/// How long a host that was released by the key alone may take its seat back.
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
    /// A host that was released by the key alone took its seat back.
    Return,
}

/// A site that was released by a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteRelease {
    /// The site.
    pub host: SiteHost,
    /// When.
    pub time: DateTime<Utc>,
    /// How.
    pub by: ReleasedBy,
}

impl SiteRelease {
    /// Whether it counts as a move of the license at `now`.
    pub fn is_move_at(&self, now: DateTime<Utc>) -> bool {
        self.by != ReleasedBy::Return && now.signed_duration_since(self.time) < MOVE_PERIOD
    }

    /// Whether the host may take its seat back at `now`.
    pub fn may_return_at(&self, now: DateTime<Utc>) -> bool {
        self.by == ReleasedBy::Key && now.signed_duration_since(self.time) < RETURN_PERIOD
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
        SiteRelease {
            host: "a.com".parse().unwrap(),
            time: DateTime::UNIX_EPOCH,
            by,
        }
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
        assert_eq!([71, 72].map(|hours| key.may_return_at(after(hours))), [true, false]);
        assert_eq!([719, 720].map(|hours| key.is_move_at(after(hours))), [true, false]);
        let secret = released(ReleasedBy::Secret);
        assert!(secret.is_move_at(after(1)) && !secret.may_return_at(after(1)));
        let taken_back = released(ReleasedBy::Return);
        assert!(!taken_back.is_move_at(after(1)) && !taken_back.may_return_at(after(1)));
    }
}
