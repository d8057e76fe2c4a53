//! A message that an endpoint did not take, or that is in no ledger: kept in a file until it is sent.

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use crate::webhook::event::{EventId, WebhookEvent};
use countersign_model::event_kind::EventKind;
use countersign_model::license_key::LicenseId;

/// How long to wait after each attempt, in seconds: the schedule of Standard Webhooks, 75 hours in all.
const WAITS: [i64; 9] = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];

/// Whether a message is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeptState {
    /// It will be sent.
    Waiting,
    /// A person has to decide.
    Parked,
}

/// A message in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptEvent {
    /// Its id.
    pub id: EventId,
    /// The name of its kind.
    pub kind: String,
    /// The license that it is of.
    pub license: LicenseId,
    /// The message.
    pub body: String,
    /// When it was kept.
    pub kept: DateTime<Utc>,
    /// Whether it is sent again.
    pub state: KeptState,
    /// How often the endpoint refused it.
    pub attempts: usize,
    /// When it is sent, at the earliest.
    pub next: DateTime<Utc>,
    /// Why it was refused the last time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
}

impl KeptEvent {
    /// A message to send when its turn comes; `None` for one without a license.
    pub fn new(event: &WebhookEvent, now: DateTime<Utc>) -> Option<Self> {
        Some(Self {
            id: event.id,
            kind: event.kind.as_str().to_owned(),
            license: event.license?,
            body: event.body.clone(),
            kept: now,
            state: KeptState::Waiting,
            attempts: 0,
            next: now,
            reason: None,
        })
    }

    /// Whether it is to be sent now. A clock that was set back makes none wait longer than it ever would.
    pub fn is_due(&self, now: DateTime<Utc>) -> bool {
        let longest = TimeDelta::seconds(WAITS[WAITS.len() - 1]);
        self.state == KeptState::Waiting && (self.next <= now || self.next - now > longest)
    }

    /// After the endpoint refused it: waits, or is parked after the last attempt.
    pub fn refused(self, reason: String, now: DateTime<Utc>) -> Self {
        let wait = WAITS.get(self.attempts);
        Self {
            attempts: self.attempts + 1,
            state: match wait {
                Some(_) => KeptState::Waiting,
                None => KeptState::Parked,
            },
            next: now + TimeDelta::seconds(wait.copied().unwrap_or_default()),
            reason: Some(reason),
            ..self
        }
    }

    /// After a person decided to send it again.
    pub fn retried(self, now: DateTime<Utc>) -> Self {
        Self {
            attempts: 0,
            state: KeptState::Waiting,
            next: now,
            ..self
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_waits_longer_each_time_and_is_parked_after_three_days() {
        let now = DateTime::from_timestamp(1_000_000, 0).unwrap();
        let license = LicenseId::from_bytes([7; 32]);
        let id = EventId::of(format_args!("1"));
        let event = WebhookEvent::new(id, EventKind::Bound, license, now, serde_json::json!({}));
        let mut kept = KeptEvent::new(&event, now).unwrap();
        assert_eq!(kept.event().unwrap(), event);
        assert_eq!(KeptEvent::new(&WebhookEvent::test(now), now), None);
        let mut time = now;
        while kept.state == KeptState::Waiting {
            assert!(kept.is_due(time) && !kept.is_due(kept.next - TimeDelta::seconds(1)) || kept.attempts == 0);
            kept = kept.refused("answered 422".into(), time);
            time = kept.next;
        }
        assert_eq!((kept.attempts, (time - now).num_hours()), (WAITS.len() + 1, 75));
        assert!(!kept.is_due(time) && kept.clone().retried(time).is_due(time));
        let back = DateTime::from_timestamp(0, 0).unwrap();
        assert!(kept.retried(time).is_due(back), "the clock was set back");
    }
}
