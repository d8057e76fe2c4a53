//! An event and its message: JSON with `type`, `timestamp` and `data` (Standard Webhooks, "Payload structure").

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use countersign_model::event_kind::EventKind;
use countersign_model::issued_license::{Hex128, NotHex128};
use countersign_model::license_key::LicenseId;

/// What is hashed in front of what names an event.
const LABEL: &str = "countersign event\n";

/// The id of an event: the same one on every node and after every restart, so that a receiver recognizes what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventId(Hex128);

impl EventId {
    /// The event that these words name.
    pub fn of(words: fmt::Arguments<'_>) -> Self {
        Self(Hex128::of_words(LABEL, words))
    }
}

impl FromStr for EventId {
    type Err = NotHex128;

    fn from_str(text: &str) -> Result<Self, NotHex128> {
        text.parse().map(Self)
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct WebhookEvent {
    /// Its id.
    pub id: EventId,
    /// What happened.
    pub kind: EventKind,
    /// The license that it happened to; messages of one license are sent in order.
    pub license: Option<LicenseId>,
    /// The message.
    pub body: String,
}

impl WebhookEvent {
    /// An event of a license. `data` has what else there is to tell.
    pub fn new(id: EventId, kind: EventKind, license: LicenseId, time: DateTime<Utc>, data: Value) -> Self {
        let mut members = Map::from_iter([("license".to_owned(), json!(license))]);
        if let Value::Object(data) = data {
            members.extend(data);
        }
        Self {
            id,
            kind,
            license: Some(license),
            body: body(kind, time, &Value::Object(members)),
        }
    }

    /// An event of a plugin.
    pub fn of_plugin(id: EventId, kind: EventKind, time: DateTime<Utc>, data: &Value) -> Self {
        Self {
            id,
            kind,
            license: None,
            body: body(kind, time, data),
        }
    }

    /// A message that only tries an endpoint.
    pub fn test(time: DateTime<Utc>) -> Self {
        let data = json!({ "message": "countersign can reach this endpoint" });
        Self {
            id: EventId::of(format_args!("test {time}")),
            kind: EventKind::Test,
            license: None,
            body: body(EventKind::Test, time, &data),
        }
    }
}

fn body(kind: EventKind, time: DateTime<Utc>, data: &Value) -> String {
    let timestamp = time.to_rfc3339_opts(SecondsFormat::Millis, true);
    json!({ "type": kind, "timestamp": timestamp, "data": data }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_type_time_and_data() {
        let license = LicenseId::from_bytes([7; 32]);
        let time = DateTime::from_timestamp(1, 0).unwrap();
        let id = EventId::of(format_args!("bound 7"));
        let event = WebhookEvent::new(id, EventKind::Bound, license, time, json!({ "host": "a.com" }));
        let body: Value = serde_json::from_str(&event.body).unwrap();
        let expected = json!({
            "type": "site.bound",
            "timestamp": "1970-01-01T00:00:01.000Z",
            "data": { "license": license, "host": "a.com" },
        });
        assert_eq!(body, expected);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_ne!(id, EventId::of(format_args!("bound 8")));
    }
}
