//! The line of a reminder that a node sends, or of the switch of all reminders, in the order of RFC 8785.
//!
//! [`event`](crate::log::event) lists the kinds of lines.

use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};
use serde::{Deserialize, Serialize};

use countersign_model::digest::Digest;
use countersign_model::issued_license::Hex128;
use countersign_model::license_key::LicenseId;
use countersign_model::reminder::ReminderKind;

use crate::log::line_event::{ChangesBy, EventLine, LineActor, LineEvent, append};
use crate::log::position::Position;

/// A line about reminders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReminderEntry {
    /// A mail reminds of licenses. The line is there before the mail.
    Sent(SentReminder),
    /// All reminders are sent from now on, or none.
    Switched {
        /// Whether they are.
        on: bool,
        /// When.
        time: DateTime<Utc>,
    },
}

impl ReminderEntry {
    /// The mail, if it is about one.
    pub fn sent(&self) -> Option<&SentReminder> {
        match self {
            Self::Sent(sent) => Some(sent),
            Self::Switched { .. } => None,
        }
    }
}

/// A mail that reminds of licenses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentReminder {
    /// The last day of the licenses.
    pub expires: NaiveDate,
    /// Which reminder.
    pub kind: ReminderKind,
    /// The licenses.
    pub licenses: Vec<LicenseId>,
    /// The mail's number.
    pub mail: Hex128,
    /// When it was claimed.
    pub time: DateTime<Utc>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReminderLine {
    event: ReminderTag,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires: Option<NaiveDate>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kind: Option<ReminderKind>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    licenses: Vec<LicenseId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mail: Option<Hex128>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    on: Option<bool>,
    previous: Digest,
    sequence: u64,
    synced: u64,
    time: DateTime<Utc>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ReminderTag {
    Reminded,
}

impl ReminderLine {
    /// The line of this entry after `previous`.
    pub(super) fn new(entry: &ReminderEntry, previous: Position, synced: u64) -> Self {
        let (sent, on, time) = match entry {
            ReminderEntry::Sent(sent) => (Some(sent), None, sent.time),
            ReminderEntry::Switched { on, time } => (None, Some(*on), *time),
        };
        Self {
            event: ReminderTag::Reminded,
            expires: sent.map(|sent| sent.expires),
            kind: sent.map(|sent| sent.kind),
            licenses: sent.map_or_else(Vec::new, |sent| sent.licenses.clone()),
            mail: sent.map(|sent| sent.mail),
            on,
            previous: previous.digest,
            sequence: previous.sequence + 1,
            synced,
            time,
        }
    }
}

impl EventLine for ReminderLine {
    type Event = Arc<ReminderEntry>;

    fn place(&self) -> (u64, Digest, u64) {
        (self.sequence, self.previous, self.synced)
    }

    fn event(self) -> serde_json::Result<Self::Event> {
        let entry = match (self.on, self.expires, self.kind, self.mail) {
            (Some(on), None, None, None) if self.licenses.is_empty() => ReminderEntry::Switched { on, time: self.time },
            (None, Some(expires), Some(kind), Some(mail)) if !self.licenses.is_empty() => {
                ReminderEntry::Sent(SentReminder {
                    expires,
                    kind,
                    licenses: self.licenses,
                    mail,
                    time: self.time,
                })
            }
            _ => return Err(serde::de::Error::custom("a reminder of nothing")),
        };
        Ok(Arc::new(entry))
    }
}

impl LineEvent for ReminderEntry {
    fn write(&self, bytes: &mut Vec<u8>, previous: Position, synced: u64) -> serde_json::Result<()> {
        append(bytes, &ReminderLine::new(self, previous, synced))
    }

    fn time(&self) -> DateTime<Utc> {
        match self {
            Self::Sent(sent) => sent.time,
            Self::Switched { time, .. } => *time,
        }
    }

    fn actor(&self) -> LineActor {
        LineActor::Server
    }

    fn words(&self) -> (&'static str, Vec<String>) {
        match self {
            Self::Sent(sent) => {
                let licenses = match sent.licenses.len() {
                    1 => "1 license".to_owned(),
                    count => format!("{count} licenses"),
                };
                ("reminded", vec![format!("reminder of {licenses} to {}", sent.expires)])
            }
            Self::Switched { on: true, .. } => ("reminders on", vec!["reminders are sent from now on".to_owned()]),
            Self::Switched { on: false, .. } => ("reminders off", vec!["reminders are no longer sent".to_owned()]),
        }
    }

    fn change(&self) -> Option<ChangesBy> {
        Some(match self {
            Self::Sent(_) => ChangesBy::Anyone,
            Self::Switched { .. } => ChangesBy::People,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::record::{LedgerEvent, LedgerRecord, MAX};
    use crate::reminder_claims::MOST_LICENSES;
    use crate::testing::written;

    #[test]
    fn a_line_is_canonical_json_is_read_back_and_has_room_for_a_whole_mail() {
        let sent = SentReminder {
            expires: "2027-01-31".parse().unwrap(),
            kind: ReminderKind::Before(30),
            licenses: vec![LicenseId::from_bytes([7; 32]); MOST_LICENSES],
            mail: Hex128([1; 16]),
            time: DateTime::UNIX_EPOCH,
        };
        let time = DateTime::UNIX_EPOCH;
        for entry in [ReminderEntry::Sent(sent), ReminderEntry::Switched { on: true, time }] {
            let line = written(LedgerEvent::Reminded(entry.into()));
            assert!(line.starts_with("{\"event\":\"reminded\"") && line.len() < MAX);
            let both = line.replace("\"previous\"", "\"on\":false,\"previous\"");
            assert!(LedgerRecord::read(both.as_bytes()).is_err());
        }
    }
}
