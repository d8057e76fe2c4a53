//! The line of a customer who was erased, in the order of RFC 8785: the number, which says nothing of the person.
//!
//! [`event`](crate::log::event) lists the kinds of lines.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use countersign_model::digest::Digest;
use countersign_model::issued_license::Hex128;

use crate::log::line_event::{ChangesBy, EventLine, EventTexts, LineEvent, append};
use crate::log::position::Position;

/// A customer was erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErasureEntry {
    /// The customer's number.
    pub number: Hex128,
    /// When.
    pub time: DateTime<Utc>,
    /// The number of the person who did it.
    pub who: Option<Hex128>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ErasureLine {
    event: ErasureTag,
    number: Hex128,
    previous: Digest,
    sequence: u64,
    synced: u64,
    time: DateTime<Utc>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    who: Option<Hex128>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ErasureTag {
    Erased,
}

impl ErasureLine {
    /// The line of this erasure after `previous`.
    pub(super) fn new(entry: &ErasureEntry, previous: Position, synced: u64) -> Self {
        Self {
            event: ErasureTag::Erased,
            number: entry.number,
            previous: previous.digest,
            sequence: previous.sequence + 1,
            synced,
            time: entry.time,
            who: entry.who,
        }
    }
}

impl EventLine for ErasureLine {
    type Event = ErasureEntry;

    fn place(&self) -> (u64, Digest, u64) {
        (self.sequence, self.previous, self.synced)
    }

    fn event(self) -> serde_json::Result<Self::Event> {
        Ok(ErasureEntry {
            number: self.number,
            time: self.time,
            who: self.who,
        })
    }
}

impl LineEvent for ErasureEntry {
    fn write(&self, bytes: &mut Vec<u8>, previous: Position, synced: u64) -> serde_json::Result<()> {
        append(bytes, &ErasureLine::new(self, previous, synced))
    }

    fn time(&self) -> DateTime<Utc> {
        self.time
    }

    fn texts(&self) -> EventTexts {
        EventTexts {
            who: self.who,
            ..EventTexts::default()
        }
    }

    fn words(&self) -> (&'static str, Vec<String>) {
        ("customer erased", vec!["a customer was erased".to_owned()])
    }

    fn change(&self) -> Option<ChangesBy> {
        Some(ChangesBy::People)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::record::LedgerEvent;
    use crate::testing::written;

    #[test]
    fn a_line_is_canonical_json_and_is_read_back() {
        for who in [None, Some(Hex128([2; 16]))] {
            let entry = ErasureEntry {
                number: Hex128([1; 16]),
                time: DateTime::UNIX_EPOCH,
                who,
            };
            assert!(written(LedgerEvent::Erased(entry)).starts_with("{\"event\":\"erased\""));
        }
    }
}
