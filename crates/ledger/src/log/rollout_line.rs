//! The line of a step of a rollout: a release that became the newest, was paused, went on, or reached everybody, in the order of
//! RFC 8785.
//!
//! [`event`](crate::log::event) lists the kinds of lines.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use countersign_model::digest::Digest;
use countersign_model::issued_license::Hex128;
use countersign_model::rollout::{RolloutMark, RolloutStep};
use countersign_model::slug::Slug;
use countersign_model::version::Version;

use crate::log::line_event::{ChangesBy, EventLine, EventTexts, LineActor, LineEvent, append};
use crate::log::position::Position;

/// A line about a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutEntry {
    /// The plugin.
    pub slug: Slug,
    /// The release.
    pub version: Version,
    /// What happened, when, and who did it.
    pub mark: RolloutMark,
}

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
    type Event = RolloutEntry;

    fn place(&self) -> (u64, Digest, u64) {
        (self.sequence, self.previous, self.synced)
    }

    fn event(self) -> serde_json::Result<Self::Event> {
        Ok(RolloutEntry {
            slug: self.slug,
            version: self.version,
            mark: RolloutMark {
                step: self.step,
                time: self.time,
                who: self.who,
                reason: self.reason_ref,
            },
        })
    }
}

impl LineEvent for RolloutEntry {
    fn write(&self, bytes: &mut Vec<u8>, previous: Position, synced: u64) -> serde_json::Result<()> {
        append(bytes, &RolloutLine::new(self, previous, synced))
    }

    fn time(&self) -> DateTime<Utc> {
        self.mark.time
    }

    fn texts(&self) -> EventTexts {
        EventTexts::of_change(self.mark.reason, self.mark.who)
    }

    fn actor(&self) -> LineActor {
        LineActor::Server
    }

    fn words(&self) -> (&'static str, Vec<String>) {
        let Self { slug, version, mark } = self;
        let what = match mark.step {
            RolloutStep::Alarmed => format!("many sites do not run {slug} {version}"),
            step => format!("rollout of {slug} {version} {}", step.as_str()),
        };
        ("rollout", vec![what])
    }

    fn change(&self) -> Option<ChangesBy> {
        Some(
            match self.mark.who.is_some() || self.mark.step == RolloutStep::Alarmed {
                true => ChangesBy::People,
                false => ChangesBy::Anyone,
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::record::LedgerEvent;
    use crate::testing::written;

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
            let text = written(LedgerEvent::Rollout(entry));
            assert!(
                text.starts_with("{\"event\":\"rollout\"") && text.contains(shown),
                "{text}"
            );
        }
    }
}
