//! The line of a site that a client released, in the order of RFC 8785: what ended the binding, and when.
//!
//! With `to` the site moved: the same line binds the host `to` with `release_hash` at the same time, and `returns` is the
//! hash that the old binding had.
//!
//! Texts are ASCII without escapes, as in [`record`](crate::log::record), which calls this.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use countersign_model::binding::Binding;
use countersign_model::digest::Digest;
use countersign_model::license_key::LicenseId;
use countersign_model::site_host::SiteHost;
use countersign_model::site_release::{ReleaseHash, ReleasedBy, SiteMove, SiteRelease};

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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    release_hash: Option<ReleaseHash>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    returns: Option<ReleaseHash>,
    sequence: u64,
    synced: u64,
    time: DateTime<Utc>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    to: Option<SiteHost>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ReleasedTag {
    Released,
}

impl ReleaseLine {
    /// The line of this release after `previous`.
    pub(super) fn new(entry: &ReleaseEntry, previous: Position, synced: u64) -> Self {
        let moved = entry.release.moved.as_deref();
        Self {
            event: ReleasedTag::Released,
            host: entry.release.host.clone(),
            how: entry.release.by,
            license: entry.license,
            previous: previous.digest,
            release_hash: entry.successor.as_ref().and_then(Binding::release_hash),
            returns: moved.and_then(|moved| moved.hash),
            sequence: previous.sequence + 1,
            synced,
            time: entry.release.time,
            to: moved.map(|moved| moved.to.clone()),
        }
    }
}

impl EventLine for ReleaseLine {
    fn place(&self) -> (u64, Digest, u64) {
        (self.sequence, self.previous, self.synced)
    }

    fn event(self) -> serde_json::Result<LedgerEvent> {
        let is_plain = self.release_hash.is_none() && self.returns.is_none();
        if self.to.is_none() && !is_plain {
            return Err(serde::de::Error::custom("a hash of a move without its host"));
        }
        let mut entry = ReleaseEntry::new(self.license, SiteRelease::new(self.host, self.time, self.how));
        if let Some(to) = self.to {
            entry.successor = Some(Binding::new(to.clone(), self.time).guarded(self.release_hash));
            entry.release.moved = Some(Box::new(SiteMove { to, hash: self.returns }));
        }
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
            (ReleasedBy::Customer, "customer"),
            (ReleasedBy::Taken, "return"),
        ] {
            let release = SiteRelease::new("a.com".parse().unwrap(), DateTime::from_timestamp(1, 5).unwrap(), by);
            let entry = ReleaseEntry::new(LicenseId::from_bytes([0xAB; 32]), release);
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

    #[test]
    fn a_move_is_one_line_that_binds_the_new_host() {
        let time = DateTime::from_timestamp(1, 5).unwrap();
        let [old, new] = ["old", "new"].map(|secret| Some(ReleaseHash::of(secret)));
        for (hash, returns) in [(new, old), (None, None)] {
            let to: SiteHost = "b.com".parse().unwrap();
            let mut release = SiteRelease::new("a.com".parse().unwrap(), time, ReleasedBy::Secret);
            release.moved = Some(Box::new(SiteMove {
                to: to.clone(),
                hash: returns,
            }));
            let entry = ReleaseEntry {
                successor: Some(Binding::new(to, time).guarded(hash)),
                ..ReleaseEntry::new(LicenseId::from_bytes([0xAB; 32]), release)
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
            assert!(text.starts_with("{\"event\":\"released\",") && value["to"] == "b.com");
            assert_eq!(serde_json_canonicalizer::to_string(&value).unwrap() + "\n", text);
            assert_eq!(LedgerRecord::read(&bytes).unwrap(), line);
            if hash.is_some() {
                let without = text.replace(",\"to\":\"b.com\"", "");
                assert!(LedgerRecord::read(without.as_bytes()).is_err(), "{without}");
            }
        }
    }
}
