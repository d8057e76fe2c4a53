//! The first line of a compacted ledger, in the order of RFC 8785.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use countersign_model::digest::Digest;

use crate::log::line_event::{ChangesBy, EventLine, LineActor, LineEvent, append};
use crate::log::position::Position;

/// The first line of a compacted ledger, with the position that it continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// The number of kept lines after it.
    pub kept: u64,
    /// When it was made.
    pub time: DateTime<Utc>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CompactedLine {
    event: CompactedTag,
    kept: u64,
    previous: Digest,
    sequence: u64,
    time: DateTime<Utc>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum CompactedTag {
    Compacted,
}

impl CompactedLine {
    /// The line of this compaction after `previous`.
    fn new(Compaction { kept, time }: Compaction, previous: Position) -> Self {
        Self {
            event: CompactedTag::Compacted,
            kept,
            previous: previous.digest,
            sequence: previous.sequence + 1,
            time,
        }
    }
}

impl EventLine for CompactedLine {
    type Event = Compaction;

    fn place(&self) -> (u64, Digest, u64) {
        (self.sequence, self.previous, self.sequence)
    }

    fn event(self) -> serde_json::Result<Self::Event> {
        let Self { kept, time, .. } = self;
        Ok(Compaction { kept, time })
    }
}

impl LineEvent for Compaction {
    fn write(&self, bytes: &mut Vec<u8>, previous: Position, _synced: u64) -> serde_json::Result<()> {
        append(bytes, &CompactedLine::new(*self, previous))
    }

    fn time(&self) -> DateTime<Utc> {
        self.time
    }

    fn actor(&self) -> LineActor {
        LineActor::Server
    }

    fn words(&self) -> (&'static str, Vec<String>) {
        ("compacted", vec!["the ledger was compacted".to_owned()])
    }

    fn change(&self) -> Option<ChangesBy> {
        None
    }
}
