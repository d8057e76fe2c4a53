//! The line of a site that a client released, in the order of RFC 8785: what ended the binding, and when.
//!
//! Texts are ASCII without escapes, as in [`record`](crate::log::record), which calls this.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use countersign_model::digest::Digest;
use countersign_model::license_key::LicenseId;
use countersign_model::site_host::SiteHost;
use countersign_model::site_release::{ReleasedBy, SiteRelease};

use crate::log::event::{EventLine, LedgerEvent};
use crate::log::{Position, ReleaseEntry};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReleaseLine {
    event: ReleasedTag,
    host: SiteHost,
    how: ReleasedBy,
    license: LicenseId,
    previous: Digest,
    sequence: u64,
    synced: u64,
    time: DateTime<Utc>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ReleasedTag {
    Released,
}

impl ReleaseLine {
    /// The line of this release after `previous`.
    pub(super) fn new(entry: &ReleaseEntry, previous: Position, synced: u64) -> Self {
        Self {
            event: ReleasedTag::Released,
            host: entry.release.host.clone(),
            how: entry.release.by,
            license: entry.license,
            previous: previous.digest,
            sequence: previous.sequence + 1,
            synced,
            time: entry.release.time,
        }
    }
}

impl EventLine for ReleaseLine {
    fn place(&self) -> (u64, Digest, u64) {
        (self.sequence, self.previous, self.synced)
    }

    fn event(self) -> serde_json::Result<LedgerEvent> {
        let entry = ReleaseEntry {
            license: self.license,
            release: SiteRelease {
                host: self.host,
                time: self.time,
                by: self.how,
            },
        };
        Ok(LedgerEvent::Released(entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::record::LedgerRecord;

    #[test]
    fn a_release_is_canonical_json_and_reads_as_itself() {
        for (by, how) in [
            (ReleasedBy::Secret, "secret"),
            (ReleasedBy::Key, "key"),
            (ReleasedBy::Taken, "return"),
        ] {
            let entry = ReleaseEntry {
                license: LicenseId::from_bytes([0xAB; 32]),
                release: SiteRelease {
                    host: "a.com".parse().unwrap(),
                    time: DateTime::from_timestamp(1, 5).unwrap(),
                    by,
                },
            };
            let line = LedgerRecord {
                previous: Position::genesis(),
                synced: 0,
                change: LedgerEvent::Released(entry),
            };
            let mut bytes = Vec::new();
            line.write(&mut bytes).unwrap();
            let text = String::from_utf8(bytes.clone()).unwrap();
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(value["how"], how);
            assert_eq!(serde_json_canonicalizer::to_string(&value).unwrap() + "\n", text);
            assert_eq!(LedgerRecord::read(&bytes).unwrap(), line);
            for (part, other) in [(how, "theft"), ("\"how\"", "\"by\""), ("a.com", "a b")] {
                let bad = text.replace(part, other);
                assert!(LedgerRecord::read(bad.as_bytes()).is_err(), "{bad}");
            }
        }
    }
}
