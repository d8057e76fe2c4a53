//! The line of a session or code of pages that ended early, in the order of RFC 8785.
//!
//! [`record`](crate::log::record) calls this.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use countersign_model::digest::Digest;
use countersign_model::issued_license::Hex128;

use crate::log::event::{EventLine, LedgerEvent};
use crate::log::{Position, SessionEntry, SessionMark};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SessionLine {
    event: SessionTag,
    id: Hex128,
    kind: MarkKind,
    previous: Digest,
    sequence: u64,
    synced: u64,
    time: DateTime<Utc>,
    until: DateTime<Utc>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SessionTag {
    Session,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum MarkKind {
    Code,
    Session,
    Owner,
}

impl SessionLine {
    /// The line of this entry after `previous`.
    pub(super) fn new(entry: &SessionEntry, previous: Position, synced: u64) -> Self {
        let (kind, id) = match entry.mark {
            SessionMark::Code(id) => (MarkKind::Code, id),
            SessionMark::Session(id) => (MarkKind::Session, id),
            SessionMark::Owner(id) => (MarkKind::Owner, id),
        };
        Self {
            event: SessionTag::Session,
            id,
            kind,
            previous: previous.digest,
            sequence: previous.sequence + 1,
            synced,
            time: entry.time,
            until: entry.until,
        }
    }
}

impl EventLine for SessionLine {
    fn place(&self) -> (u64, Digest, u64) {
        (self.sequence, self.previous, self.synced)
    }

    fn event(self) -> serde_json::Result<LedgerEvent> {
        let mark = match self.kind {
            MarkKind::Code => SessionMark::Code(self.id),
            MarkKind::Session => SessionMark::Session(self.id),
            MarkKind::Owner => SessionMark::Owner(self.id),
        };
        Ok(LedgerEvent::Session(SessionEntry {
            mark,
            until: self.until,
            time: self.time,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::record::LedgerRecord;

    #[test]
    fn a_line_is_canonical_json_and_is_read_back() {
        let id = Hex128([7; 16]);
        for mark in [SessionMark::Code(id), SessionMark::Session(id), SessionMark::Owner(id)] {
            let entry = SessionEntry {
                mark,
                until: DateTime::UNIX_EPOCH,
                time: DateTime::UNIX_EPOCH,
            };
            let record = LedgerRecord {
                previous: Position::genesis(),
                synced: 0,
                change: LedgerEvent::Session(entry),
            };
            let mut line = Vec::new();
            record.write(&mut line).unwrap();
            assert!(line.starts_with(b"{\"event\":\"session\""));
            let value: serde_json::Value = serde_json::from_slice(&line).unwrap();
            let canonical = serde_json_canonicalizer::to_string(&value).unwrap() + "\n";
            assert_eq!(String::from_utf8(line.clone()).unwrap(), canonical);
            assert_eq!(LedgerRecord::read(&line).unwrap(), record);
        }
    }
}
