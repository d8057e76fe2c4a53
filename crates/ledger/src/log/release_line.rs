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

use crate::log::line_event::{ChangesBy, EventLine, LineActor, LineEvent, append};
use crate::log::position::Position;

/// A client released a site of a license, or moved it to another host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseEntry {
    /// The license.
    pub license: LicenseId,
    /// The site, when, and how.
    pub release: SiteRelease,
    /// The binding of the new host, if the site moved and this binding was not superseded.
    pub successor: Option<Binding>,
}

impl ReleaseEntry {
    /// The release of a site. Where it moved, the line binds the new host, without a hash unless `successor` has one.
    pub fn new(license: LicenseId, release: SiteRelease) -> Self {
        Self {
            license,
            release,
            successor: None,
        }
    }
}

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
    type Event = ReleaseEntry;

    fn place(&self) -> (u64, Digest, u64) {
        (self.sequence, self.previous, self.synced)
    }

    fn event(self) -> serde_json::Result<Self::Event> {
        let is_plain = self.release_hash.is_none() && self.returns.is_none();
        if self.to.is_none() && !is_plain {
            return Err(serde::de::Error::custom("a hash of a move without its host"));
        }
        let mut entry = ReleaseEntry::new(self.license, SiteRelease::new(self.host, self.time, self.how));
        if let Some(to) = self.to {
            entry.successor = Some(Binding::new(to.clone(), self.time).guarded(self.release_hash));
            entry.release.moved = Some(Box::new(SiteMove { to, hash: self.returns }));
        }
        Ok(entry)
    }
}

impl LineEvent for ReleaseEntry {
    fn write(&self, bytes: &mut Vec<u8>, previous: Position, synced: u64) -> serde_json::Result<()> {
        append(bytes, &ReleaseLine::new(self, previous, synced))
    }

    fn time(&self) -> DateTime<Utc> {
        self.release.time
    }

    fn license(&self) -> Option<&LicenseId> {
        Some(&self.license)
    }

    fn actor(&self) -> LineActor {
        match self.release.by {
            ReleasedBy::Customer => LineActor::Customer,
            ReleasedBy::Secret | ReleasedBy::Key | ReleasedBy::Taken => LineActor::Site,
        }
    }

    fn words(&self) -> (&'static str, Vec<String>) {
        let release = &self.release;
        let (word, what) = match (&release.moved, release.by) {
            (Some(moved), ReleasedBy::Customer) => {
                ("moved", format!("the customer moved {} to {}", release.host, moved.to))
            }
            (Some(moved), _) => ("moved", format!("{} moved to {}", release.host, moved.to)),
            (None, ReleasedBy::Customer) => ("released", format!("the customer freed {}", release.host)),
            (None, ReleasedBy::Secret | ReleasedBy::Key) => {
                ("released", format!("{} gave its seat back", release.host))
            }
            (None, ReleasedBy::Taken) => ("released", format!("{} lost its seat", release.host)),
        };
        (word, vec![what])
    }

    fn change(&self) -> Option<ChangesBy> {
        Some(ChangesBy::Anyone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::record::{LedgerEvent, LedgerRecord};
    use crate::testing::written;

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
            let text = written(LedgerEvent::Released(entry));
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(value["how"], how);
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
            let text = written(LedgerEvent::Released(entry));
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert!(text.starts_with("{\"event\":\"released\",") && value["to"] == "b.com");
            if hash.is_some() {
                let without = text.replace(",\"to\":\"b.com\"", "");
                assert!(LedgerRecord::read(without.as_bytes()).is_err(), "{without}");
            }
        }
    }
}
