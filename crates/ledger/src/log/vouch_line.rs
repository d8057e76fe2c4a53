//! The line `vouched`: a person vouched for a license, or took that back. Its members are in the order of RFC 8785.
//!
//! [`record`](crate::log::record) calls this.

use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};
use serde::{Deserialize, Serialize};

use countersign_model::digest::Digest;
use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_model::license_key::LicenseId;

use crate::log::event::{EventLine, LedgerEvent};
use crate::log::{Position, VouchEntry};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VouchLine {
    event: VouchTag,
    license: LicenseId,
    previous: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason_ref: Option<Hex128>,
    scope: ChangeScope,
    sequence: u64,
    synced: u64,
    time: DateTime<Utc>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<NaiveDate>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    who: Option<Hex128>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum VouchTag {
    Vouched,
}

impl VouchLine {
    /// The line of this entry after `previous`.
    pub(super) fn new(entry: &VouchEntry, previous: Position, synced: u64) -> Self {
        Self {
            event: VouchTag::Vouched,
            license: entry.license,
            previous: previous.digest,
            reason_ref: entry.reason,
            scope: ChangeScope::clone(&entry.scope),
            sequence: previous.sequence + 1,
            synced,
            time: entry.time,
            until: entry.until,
            who: entry.who,
        }
    }
}

impl EventLine for VouchLine {
    fn place(&self) -> (u64, Digest, u64) {
        (self.sequence, self.previous, self.synced)
    }

    fn event(self) -> serde_json::Result<LedgerEvent> {
        let entry = VouchEntry {
            license: self.license,
            until: self.until,
            scope: Arc::new(self.scope),
            reason: self.reason_ref,
            who: self.who,
            time: self.time,
        };
        Ok(LedgerEvent::Vouched(entry.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::record::{LedgerRecord, LineError};

    #[test]
    fn a_line_is_canonical_json_and_is_read_back() {
        let day = NaiveDate::from_ymd_opt(2027, 11, 28);
        for (until, reason) in [(day, Some(Hex128([7; 16]))), (day, None), (None, None)] {
            let entry = VouchEntry {
                license: LicenseId::from_bytes([1; 32]),
                until,
                scope: Arc::new(ChangeScope::desk()),
                reason,
                who: reason,
                time: DateTime::UNIX_EPOCH,
            };
            let record = LedgerRecord {
                previous: Position::genesis(),
                synced: 0,
                change: LedgerEvent::Vouched(entry.into()),
            };
            let mut line = Vec::new();
            record.write(&mut line).unwrap();
            let text = String::from_utf8(line.clone()).unwrap();
            assert!(text.starts_with("{\"event\":\"vouched\""), "{text}");
            assert_eq!(text.contains("\"until\":\"2027-11-28\""), until.is_some(), "{text}");
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(serde_json_canonicalizer::to_string(&value).unwrap() + "\n", text);
            assert_eq!(LedgerRecord::read(&line).unwrap(), record);
            // As this version reads a line of one that knows more of it.
            let newer = text.replace("\"license\"", "\"kind\":\"moves\",\"license\"");
            assert!(matches!(LedgerRecord::read(newer.as_bytes()), Err(LineError::Newer(_))));
        }
    }
}
