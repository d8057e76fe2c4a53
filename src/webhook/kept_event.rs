//! A message that an endpoint did not take, or that is in no ledger: kept in a file until it is sent.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::webhook::event::{EventId, WebhookEvent};
use countersign_files::queue::QueueItem;
use countersign_model::event_kind::EventKind;
use countersign_model::license_key::LicenseId;

/// How long to wait after each attempt, in seconds: the schedule of Standard Webhooks, 75 hours in all.
const WAITS: [u64; 9] = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];

/// A message in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptEvent {
    /// Its id.
    pub id: EventId,
    /// The name of its kind.
    pub kind: String,
    /// The license that it is of.
    pub license: LicenseId,
    /// The message.
    pub body: String,
}

impl KeptEvent {
    /// A message to keep; `None` for one without a license.
    pub fn new(event: &WebhookEvent) -> Option<Self> {
        Some(Self {
            id: event.id,
            kind: event.kind.as_str().to_owned(),
            license: event.license?,
            body: event.body.clone(),
        })
    }

    /// The message; `None` if nobody knows its kind any more.
    pub fn event(&self) -> Option<WebhookEvent> {
        Some(WebhookEvent {
            id: self.id,
            kind: EventKind::from_name(&self.kind)?,
            license: Some(self.license),
            body: self.body.clone(),
        })
    }
}

/// How long a message waits that was refused so often before and now again; `None` after the last attempt.
pub fn wait(attempts: u32) -> Option<Duration> {
    WAITS.get(attempts as usize).copied().map(Duration::from_secs)
}

/// The place of a kept message: they are sent in the order of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeptName {
    /// Counts the messages of the endpoint.
    pub number: u64,
    /// The event.
    pub id: EventId,
}

impl fmt::Display for KeptName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020}-{}", self.number, self.id)
    }
}

/// Not the name of a kept message.
#[derive(Debug)]
pub struct NotAKeptName;

impl FromStr for KeptName {
    type Err = NotAKeptName;

    fn from_str(text: &str) -> Result<Self, NotAKeptName> {
        let (number, id) = text.split_once('-').ok_or(NotAKeptName)?;
        Ok(Self {
            number: number.parse().map_err(|_| NotAKeptName)?,
            id: id.parse().map_err(|_| NotAKeptName)?,
        })
    }
}

impl QueueItem for KeptEvent {
    type Name = KeptName;

    const LONGEST_WAIT: Duration = Duration::from_secs(WAITS[WAITS.len() - 1]);

    fn is_named(&self, name: KeptName, _: &[u8]) -> bool {
        self.id == name.id
    }
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, TimeDelta};

    use super::*;
    use countersign_files::queue::{QueueState, Queued};

    #[test]
    fn a_message_waits_longer_each_time_and_is_parked_after_three_days() {
        let now = DateTime::from_timestamp(1_000_000, 0).unwrap();
        let license = LicenseId::from_bytes([7; 32]);
        let id = EventId::of(format_args!("1"));
        let event = WebhookEvent::new(id, EventKind::Bound, license, now, serde_json::json!({}));
        let mut kept = Queued::new(KeptEvent::new(&event).unwrap(), now);
        assert_eq!(kept.item.event().unwrap(), event);
        assert_eq!(KeptEvent::new(&WebhookEvent::test(now)), None);
        let mut time = now;
        while kept.state == QueueState::Waiting {
            assert!(kept.is_due(time) && !kept.is_due(kept.next - TimeDelta::seconds(1)) || kept.attempts == 0);
            let next = wait(kept.attempts);
            kept = kept.refused("answered 422".into(), next, time);
            time = kept.next;
        }
        assert_eq!((kept.attempts, (time - now).num_hours()), (WAITS.len() as u32 + 1, 75));
        assert!(!kept.is_due(time) && kept.clone().retried(time).is_due(time));
        let back = DateTime::from_timestamp(0, 0).unwrap();
        assert!(kept.retried(time).is_due(back), "the clock was set back");
    }
}
