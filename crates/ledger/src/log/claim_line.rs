//! The line of a claim of a site that was installed again, in the order of RFC 8785: which hash shall replace which, and what became
//! of that.
//!
//! [`record`](crate::log::record) calls this.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use countersign_model::digest::Digest;
use countersign_model::license_key::LicenseId;
use countersign_model::site_claim::{ClaimStep, SiteClaim};
use countersign_model::site_host::SiteHost;
use countersign_model::site_release::ReleaseHash;

use crate::log::event::{EventLine, LedgerEvent};
use crate::log::{ClaimEntry, Position};

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
    fn place(&self) -> (u64, Digest, u64) {
        (self.sequence, self.previous, self.synced)
    }

    fn event(self) -> serde_json::Result<LedgerEvent> {
        Ok(LedgerEvent::Claimed(ClaimEntry {
            license: self.license,
            claim: SiteClaim {
                host: self.host,
                hash: self.release_hash,
                replaces: self.replaces,
                step: self.step,
                time: self.time,
            },
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::record::LedgerRecord;

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
            let record = LedgerRecord {
                previous: Position::genesis(),
                synced: 0,
                change: LedgerEvent::Claimed(ClaimEntry {
                    license: LicenseId::from_bytes([1; 32]),
                    claim,
                }),
            };
            let mut line = Vec::new();
            record.write(&mut line).unwrap();
            assert!(line.starts_with(b"{\"event\":\"claimed\""));
            let value: serde_json::Value = serde_json::from_slice(&line).unwrap();
            let canonical = serde_json_canonicalizer::to_string(&value).unwrap() + "\n";
            assert_eq!(String::from_utf8(line.clone()).unwrap(), canonical);
            assert_eq!(LedgerRecord::read(&line).unwrap(), record);
        }
    }
}
