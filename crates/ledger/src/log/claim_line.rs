//! The line of a claim of a site that was installed again, in the order of RFC 8785: which hash shall replace which, and what became
//! of that.
//!
//! [`event`](crate::log::event) lists the kinds of lines.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use countersign_model::digest::Digest;
use countersign_model::license_key::LicenseId;
use countersign_model::site_claim::{ClaimStep, SiteClaim};
use countersign_model::site_host::SiteHost;
use countersign_model::site_release::ReleaseHash;

use crate::log::line_event::{ChangesBy, EventLine, LineActor, LineEvent, append};
use crate::log::position::Position;

/// The claim of a site that was installed again, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimEntry {
    /// The license.
    pub license: LicenseId,
    /// The claim as it is now.
    pub claim: SiteClaim,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClaimLine {
    event: ClaimTag,
    host: SiteHost,
    license: LicenseId,
    previous: Digest,
    release_hash: ReleaseHash,
    replaces: ReleaseHash,
    sequence: u64,
    step: ClaimStep,
    synced: u64,
    time: DateTime<Utc>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ClaimTag {
    Claimed,
}

impl ClaimLine {
    /// The line of this step after `previous`.
    pub(super) fn new(entry: &ClaimEntry, previous: Position, synced: u64) -> Self {
        let SiteClaim {
            host,
            hash,
            replaces,
            step,
            time,
        } = entry.claim.clone();
        Self {
            event: ClaimTag::Claimed,
            host,
            license: entry.license,
            previous: previous.digest,
            release_hash: hash,
            replaces,
            sequence: previous.sequence + 1,
            step,
            synced,
            time,
        }
    }
}

impl EventLine for ClaimLine {
    type Event = ClaimEntry;

    fn place(&self) -> (u64, Digest, u64) {
        (self.sequence, self.previous, self.synced)
    }

    fn event(self) -> serde_json::Result<Self::Event> {
        Ok(ClaimEntry {
            license: self.license,
            claim: SiteClaim {
                host: self.host,
                hash: self.release_hash,
                replaces: self.replaces,
                step: self.step,
                time: self.time,
            },
        })
    }
}

impl LineEvent for ClaimEntry {
    fn write(&self, bytes: &mut Vec<u8>, previous: Position, synced: u64) -> serde_json::Result<()> {
        append(bytes, &ClaimLine::new(self, previous, synced))
    }

    fn time(&self) -> DateTime<Utc> {
        self.claim.time
    }

    fn license(&self) -> Option<&LicenseId> {
        Some(&self.license)
    }

    fn actor(&self) -> LineActor {
        match self.claim.step {
            ClaimStep::Begun | ClaimStep::Ended | ClaimStep::Returned => LineActor::Site,
            ClaimStep::Taken => LineActor::Server,
            ClaimStep::Confirmed => LineActor::Customer,
        }
    }

    fn words(&self) -> (&'static str, Vec<String>) {
        let what = match self.claim.step {
            ClaimStep::Begun => "was installed again and waits for its seat",
            ClaimStep::Ended => "waits no more: another secret was seen",
            ClaimStep::Taken => "has a new secret, because the old one was not seen for 14 days",
            ClaimStep::Confirmed => "has a new secret, because the customer said that it was installed again",
            ClaimStep::Returned => "has its old secret again",
        };
        ("claimed", vec![format!("{} {what}", self.claim.host)])
    }

    fn change(&self) -> Option<ChangesBy> {
        Some(ChangesBy::Anyone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::record::LedgerEvent;
    use crate::testing::written;

    #[test]
    fn a_line_is_canonical_json_and_is_read_back() {
        for step in [
            ClaimStep::Begun,
            ClaimStep::Ended,
            ClaimStep::Taken,
            ClaimStep::Confirmed,
            ClaimStep::Returned,
        ] {
            let claim = SiteClaim {
                host: "a.com".parse().unwrap(),
                hash: ReleaseHash::of("new"),
                replaces: ReleaseHash::of("old"),
                step,
                time: DateTime::UNIX_EPOCH,
            };
            let license = LicenseId::from_bytes([1; 32]);
            let line = written(LedgerEvent::Claimed(ClaimEntry { license, claim }));
            assert!(line.starts_with("{\"event\":\"claimed\""));
        }
    }
}
