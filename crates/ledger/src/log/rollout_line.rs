//! The line of a step of a rollout: a release that became the newest, was paused, went on, or reached everybody, in the order of
//! RFC 8785.
//!
//! [`record`](crate::log::record) calls this.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use countersign_model::digest::Digest;
use countersign_model::issued_license::Hex128;
use countersign_model::rollout::{RolloutMark, RolloutStep};
use countersign_model::slug::Slug;
use countersign_model::version::Version;

use crate::log::event::{EventLine, LedgerEvent};
use crate::log::{Position, RolloutEntry};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RolloutLine {
    event: RolloutTag,
    previous: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason_ref: Option<Hex128>,
    sequence: u64,
    slug: Slug,
    step: RolloutStep,
    synced: u64,
    time: DateTime<Utc>,
    version: Version,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    who: Option<Hex128>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RolloutTag {
    Rollout,
}

impl RolloutLine {
    /// The line of this entry after `previous`.
    pub(super) fn new(entry: &RolloutEntry, previous: Position, synced: u64) -> Self {
        Self {
            event: RolloutTag::Rollout,
            previous: previous.digest,
            reason_ref: entry.mark.reason,
            sequence: previous.sequence + 1,
            slug: entry.slug.clone(),
            step: entry.mark.step,
            synced,
            time: entry.mark.time,
            version: entry.version.clone(),
            who: entry.mark.who,
        }
    }
}

impl EventLine for RolloutLine {
    fn place(&self) -> (u64, Digest, u64) {
        (self.sequence, self.previous, self.synced)
    }

    fn event(self) -> serde_json::Result<LedgerEvent> {
        Ok(LedgerEvent::Rollout(RolloutEntry {
            slug: self.slug,
            version: self.version,
            mark: RolloutMark {
                step: self.step,
                time: self.time,
                who: self.who,
                reason: self.reason_ref,
            },
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::record::LedgerRecord;

    #[test]
    fn a_line_is_canonical_json_and_is_read_back() {
        let steps = [
            (RolloutStep::Started, None, "\"step\":\"started\""),
            (RolloutStep::Paused, Some(Hex128([7; 16])), "\"step\":\"paused\""),
            (RolloutStep::Resumed, None, "\"step\":\"resumed\""),
            (RolloutStep::Finished, None, "\"step\":\"finished\""),
            (RolloutStep::Withheld, None, "\"step\":\"withheld\""),
            (RolloutStep::Restarted, None, "\"step\":\"restarted\""),
            (RolloutStep::Alarmed, None, "\"step\":\"alarmed\""),
        ];
        for (step, who, shown) in steps {
            let entry = RolloutEntry {
                slug: "acme-forms".parse().unwrap(),
                version: "2.0.0-beta.1".parse().unwrap(),
                mark: RolloutMark {
                    step,
                    time: DateTime::UNIX_EPOCH,
                    who,
                    reason: who,
                },
            };
            let record = LedgerRecord {
                previous: Position::genesis(),
                synced: 0,
                change: LedgerEvent::Rollout(entry),
            };
            let mut line = Vec::new();
            record.write(&mut line).unwrap();
            let text = String::from_utf8(line.clone()).unwrap();
            assert!(
                text.starts_with("{\"event\":\"rollout\"") && text.contains(shown),
                "{text}"
            );
            let value: serde_json::Value = serde_json::from_slice(&line).unwrap();
            assert_eq!(serde_json_canonicalizer::to_string(&value).unwrap() + "\n", text);
            assert_eq!(LedgerRecord::read(&line).unwrap(), record);
        }
    }
}
