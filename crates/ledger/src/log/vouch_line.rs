//! The line `vouched`: a person vouched for a license, or took that back. Its members are in the order of RFC 8785.
//!
//! [`event`](crate::log::event) lists the kinds of lines.

use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};
use serde::{Deserialize, Serialize};

use countersign_model::digest::Digest;
use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_model::license_key::LicenseId;

use crate::log::line_event::{ChangesBy, EventLine, EventTexts, LineEvent, append};
use crate::log::position::Position;

/// A line about a license that somebody vouched for: what looks like sharing is fine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VouchEntry {
    /// The license.
    pub license: LicenseId,
    /// The last day that it is fine; `None` if that was taken back.
    pub until: Option<NaiveDate>,
    /// The token, the command or the desk.
    pub scope: Arc<ChangeScope>,
    /// The name of the text that says why.
    pub reason: Option<Hex128>,
    /// The number of the person.
    pub who: Option<Hex128>,
    /// When.
    pub time: DateTime<Utc>,
}

impl VouchEntry {
    /// Whether the license is fine on this day.
    pub fn is_in_force(&self, today: NaiveDate) -> bool {
        self.until.is_some_and(|until| today <= until)
    }
}

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
    type Event = Arc<VouchEntry>;

    fn place(&self) -> (u64, Digest, u64) {
        (self.sequence, self.previous, self.synced)
    }

    fn event(self) -> serde_json::Result<Self::Event> {
        let entry = VouchEntry {
            license: self.license,
            until: self.until,
            scope: Arc::new(self.scope),
            reason: self.reason_ref,
            who: self.who,
            time: self.time,
        };
        Ok(Arc::new(entry))
    }
}

impl LineEvent for VouchEntry {
    fn write(&self, bytes: &mut Vec<u8>, previous: Position, synced: u64) -> serde_json::Result<()> {
        append(bytes, &VouchLine::new(self, previous, synced))
    }

    fn time(&self) -> DateTime<Utc> {
        self.time
    }

    fn license(&self) -> Option<&LicenseId> {
        Some(&self.license)
    }

    fn texts(&self) -> EventTexts {
        EventTexts::of_change(self.reason, self.who)
    }

    fn scope(&self) -> Option<&ChangeScope> {
        Some(&self.scope)
    }

    fn words(&self) -> (&'static str, Vec<String>) {
        match self.until {
            Some(until) => ("vouched", vec![format!("vouched for until {until}")]),
            None => ("unvouched", vec!["no longer vouched for".to_owned()]),
        }
    }

    fn change(&self) -> Option<ChangesBy> {
        Some(ChangesBy::People)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::record::{LedgerEvent, LedgerRecord, LineError};
    use crate::testing::written;

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
            let text = written(LedgerEvent::Vouched(entry.into()));
            assert!(text.starts_with("{\"event\":\"vouched\""), "{text}");
            assert_eq!(text.contains("\"until\":\"2027-11-28\""), until.is_some(), "{text}");
            // As this version reads a line of one that knows more of it.
            let newer = text.replace("\"license\"", "\"kind\":\"moves\",\"license\"");
            assert!(matches!(LedgerRecord::read(newer.as_bytes()), Err(LineError::Newer(_))));
        }
    }
}
