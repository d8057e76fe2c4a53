//! The name of a mail: the same for the same event, so that a mail that is sent twice is recognized.

use std::fmt;
use std::str::FromStr;

use countersign_model::issued_license::{Hex128, NotHex128};

/// What is hashed in front of the event's id, so that no other digest of it is the same.
const LABEL: &str = "countersign mail\n";

/// 16 bytes of a SHA-256 of the event's id; written as 32 lower-case hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct MailId(Hex128);

impl MailId {
    /// The mail of an event.
    pub fn of_event(event: &str) -> Self {
        Self(Hex128::of_words(LABEL, format_args!("{event}")))
    }

    /// Its Message-ID (RFC 5322, section 3.6.4); `domain` is the sender's.
    pub(super) fn message_id(self, domain: &str) -> String {
        format!("<{self}@{domain}>")
    }
}

impl FromStr for MailId {
    type Err = NotHex128;

    fn from_str(text: &str) -> Result<Self, NotHex128> {
        text.parse().map(Self)
    }
}

impl fmt::Display for MailId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_one_mail_and_another_event_another() {
        let id = MailId::of_event("evt_1");
        assert_eq!(id, MailId::of_event("evt_1"));
        assert_ne!(id, MailId::of_event("evt_2"));
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(
            id.message_id("acme.example"),
            "<".to_owned() + &id.to_string() + "@acme.example>"
        );
    }
}
