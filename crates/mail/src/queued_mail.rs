//! A mail that waits: to whom, and of which licenses. Never a key.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use crate::address::MailAddress;
use crate::mail_id::MailId;
use crate::mail_queue_error::MailQueueError;
use countersign_model::license_key::LicenseId;

/// The most licenses in one mail.
pub const MAX_LICENSES: usize = 100;

/// The longest id of an event, in bytes.
const MAX_EVENT: usize = 200;

/// The longest wait before a mail is sent again.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

/// How often a mail is tried: with the default settings, for five days (RFC 5321, section 4.5.4.1).
const MAX_ATTEMPTS: u32 = 126;

/// Whether a mail is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MailState {
    /// It will be sent.
    Waiting,
    /// A person has to decide.
    Parked,
}

/// A mail of the queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueuedMail {
    /// Whom it goes to.
    pub address: MailAddress,
    /// The licenses whose keys it has, at least one.
    pub licenses: Vec<LicenseId>,
    /// What made it necessary. An event has one mail.
    pub event: String,
    /// When it was put into the queue.
    pub queued: DateTime<Utc>,
    /// Whether it is sent again.
    pub state: MailState,
    /// How often the mail server did not take it.
    pub attempts: u32,
    /// When it is sent, at the earliest.
    pub next: DateTime<Utc>,
    /// Why it was not taken the last time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
}

impl QueuedMail {
    /// A new mail, to be sent at once.
    ///
    /// # Errors
    /// [`MailQueueError::Malformed`]: no license, too many, or an event's id that is empty or too long.
    pub fn new(
        address: MailAddress,
        licenses: Vec<LicenseId>,
        event: &str,
        now: DateTime<Utc>,
    ) -> Result<Self, MailQueueError> {
        if licenses.is_empty() || licenses.len() > MAX_LICENSES || event.is_empty() || event.len() > MAX_EVENT {
            return Err(MailQueueError::Malformed);
        }
        Ok(Self {
            address,
            licenses,
            event: event.to_owned(),
            queued: now,
            state: MailState::Waiting,
            attempts: 0,
            next: now,
            reason: None,
        })
    }

    /// Its name.
    pub fn id(&self) -> MailId {
        MailId::of_event(&self.event)
    }

    /// Whether it is to be sent now. A clock that was set back makes no mail wait longer than it ever would.
    pub fn is_due(&self, now: DateTime<Utc>) -> bool {
        let longest = TimeDelta::from_std(LONGEST_WAIT).unwrap_or_default();
        self.state == MailState::Waiting && (self.next <= now || self.next - now > longest)
    }

    /// After the mail server did not take it: waits `first` the first time, then twice as long each time. Parks it where it
    /// never will be taken, or was tried too often.
    pub fn refused(self, reason: String, is_final: bool, first: Duration, now: DateTime<Utc>) -> Self {
        let attempts = self.attempts.saturating_add(1);
        let doubled = first.saturating_mul(1_u32.checked_shl(attempts - 1).unwrap_or(u32::MAX));
        let wait = TimeDelta::from_std(doubled.min(LONGEST_WAIT)).unwrap_or_default();
        Self {
            attempts,
            state: match is_final || attempts >= MAX_ATTEMPTS {
                true => MailState::Parked,
                false => MailState::Waiting,
            },
            next: now + wait,
            reason: Some(reason),
            ..self
        }
    }

    /// After a person decided to send it again.
    pub fn retried(self, now: DateTime<Utc>) -> Self {
        Self {
            attempts: 0,
            state: MailState::Waiting,
            next: now,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mail(event: &str) -> QueuedMail {
        let license = LicenseId::from_bytes([7; 32]);
        let now = DateTime::from_timestamp(1_000_000, 0).unwrap();
        QueuedMail::new("anna@example.com".parse().unwrap(), vec![license], event, now).unwrap()
    }

    #[test]
    fn a_mail_waits_longer_each_time_up_to_an_hour_and_is_parked_after_five_days() {
        let mut mail = mail("evt_1");
        let mut now = mail.queued;
        let mut waits = Vec::new();
        while mail.state == MailState::Waiting {
            assert!(mail.is_due(now));
            mail = mail.refused("451".to_owned(), false, Duration::from_secs(60), now);
            assert!(!mail.is_due(now) || mail.state == MailState::Parked);
            waits.push((mail.next - now).num_seconds());
            now = mail.next;
        }
        assert_eq!(waits[..8], [60, 120, 240, 480, 960, 1920, 3600, 3600]);
        let days = (now - mail.queued).num_hours() / 24;
        assert!((4..=5).contains(&days), "{days}");
        let again = mail.retried(now);
        assert_eq!((again.is_due(now), again.attempts), (true, 0));
    }

    #[test]
    fn a_clock_that_was_set_back_holds_no_mail_for_years() {
        let now = DateTime::from_timestamp(1_000_000, 0).unwrap();
        let mail = mail("evt_1");
        let later = mail.clone().refused(
            "451".to_owned(),
            false,
            Duration::from_secs(60),
            now + TimeDelta::days(400),
        );
        assert!(later.is_due(now));
        assert!(
            !mail
                .refused("451".to_owned(), false, Duration::from_secs(60), now)
                .is_due(now)
        );
    }

    #[test]
    fn what_is_no_order_is_refused() {
        let address: MailAddress = "anna@example.com".parse().unwrap();
        let license = LicenseId::from_bytes([7; 32]);
        let new = |count: usize, event: &str| QueuedMail::new(address.clone(), vec![license; count], event, Utc::now());
        assert!(new(1, "e").is_ok() && new(100, &"e".repeat(200)).is_ok());
        for (count, event) in [(0, "e"), (101, "e"), (1, ""), (1, &*"e".repeat(201))] {
            assert!(
                matches!(new(count, event), Err(MailQueueError::Malformed)),
                "{count} {event}"
            );
        }
    }
}
