//! The line of a session or code of pages that ended early, in the order of RFC 8785.
//!
//! [`event`](crate::log::event) lists the kinds of lines.

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use countersign_model::digest::Digest;
use countersign_model::issued_license::Hex128;

use crate::log::line_event::{ChangesBy, EventLine, LineEvent, append};
use crate::log::position::Position;

/// How much longer than its end a line about a session is known, for clocks that differ.
pub(crate) const SESSION_SLACK: TimeDelta = TimeDelta::hours(1);

/// Something that pages gave to a browser, and that ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SessionMark {
    /// A code or link that signs in once.
    Code(Hex128),
    /// A session.
    Session(Hex128),
    /// All sessions of somebody that began before.
    Owner(Hex128),
}

/// A line about the end of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionEntry {
    /// What ended.
    pub mark: SessionMark,
    /// When it would have ended anyway.
    pub until: DateTime<Utc>,
    /// When it ended.
    pub time: DateTime<Utc>,
}

impl SessionEntry {
    /// Whether somebody may still ask for it.
    pub(crate) fn matters_at(&self, now: DateTime<Utc>) -> bool {
        now.signed_duration_since(self.until) < SESSION_SLACK
    }
}

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
    type Event = SessionEntry;

    fn place(&self) -> (u64, Digest, u64) {
        (self.sequence, self.previous, self.synced)
    }

    fn event(self) -> serde_json::Result<Self::Event> {
        let mark = match self.kind {
            MarkKind::Code => SessionMark::Code(self.id),
            MarkKind::Session => SessionMark::Session(self.id),
            MarkKind::Owner => SessionMark::Owner(self.id),
        };
        Ok(SessionEntry {
            mark,
            until: self.until,
            time: self.time,
        })
    }
}

impl LineEvent for SessionEntry {
    fn write(&self, bytes: &mut Vec<u8>, previous: Position, synced: u64) -> serde_json::Result<()> {
        append(bytes, &SessionLine::new(self, previous, synced))
    }

    fn time(&self) -> DateTime<Utc> {
        self.time
    }

    fn words(&self) -> (&'static str, Vec<String>) {
        let what = match self.mark {
            SessionMark::Code(_) => "somebody signed in",
            SessionMark::Session(_) => "somebody signed out",
            SessionMark::Owner(_) => "a person was signed out everywhere",
        };
        ("session", vec![what.to_owned()])
    }

    fn change(&self) -> Option<ChangesBy> {
        matches!(self.mark, SessionMark::Owner(_)).then_some(ChangesBy::People)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::record::LedgerEvent;
    use crate::testing::written;

    #[test]
    fn a_line_is_canonical_json_and_is_read_back() {
        let id = Hex128([7; 16]);
        for mark in [SessionMark::Code(id), SessionMark::Session(id), SessionMark::Owner(id)] {
            let entry = SessionEntry {
                mark,
                until: DateTime::UNIX_EPOCH,
                time: DateTime::UNIX_EPOCH,
            };
            assert!(written(LedgerEvent::Session(entry)).starts_with("{\"event\":\"session\""));
        }
    }
}
