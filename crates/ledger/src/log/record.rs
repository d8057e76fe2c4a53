//! The lines of the ledger: members in the order of RFC 8785, ASCII texts without escapes, so the bytes are canonical.

use std::collections::BTreeMap;

use serde::Deserialize;

use countersign_model::digest::Digest;

pub use crate::log::event::LedgerEvent;
use crate::log::event::{KINDS, LineKind};
pub use crate::log::line_event::EventTexts;
use crate::log::position::Position;

/// The longest line with its line feed, in bytes: an order of 50 lines has 12,000. What needs more is refused.
pub const MAX: usize = 16_384;

/// The longest line of a license. A license that needs more is refused.
pub const MAX_LICENSE: usize = 4_096;

/// The most lines written with one sync. A power failure tears only these.
pub const BATCH: usize = 8_894;

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerRecord {
    /// The position that the line continues.
    pub previous: Position,
    /// Every line up to this one was on disk when the line was written.
    pub synced: u64,
    /// The event.
    pub change: LedgerEvent,
}

/// Why bytes are not a line that this version knows.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// They are not a line.
    #[error(transparent)]
    Damaged(#[from] serde_json::Error),
    /// They are a line that a newer version wrote.
    #[error(transparent)]
    Newer(NewerLine),
}

/// A line of a kind, or with a member, that this version does not know: a newer version wrote it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}, which this version does not know")]
pub struct NewerLine {
    /// What is unknown.
    what: NewerPart,
    /// The position that the line continues.
    pub previous: Position,
}

/// What of a line is unknown: a word of `a` to `z`, `0` to `9` and `_`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum NewerPart {
    #[error("is of the kind \"{0}\"")]
    Kind(String),
    #[error("has the member \"{0}\"")]
    Member(String),
}

/// The longest name of a kind or of a member, in bytes.
const LONGEST_NAME: usize = 40;

/// What a line of any kind has.
#[derive(Deserialize)]
struct AnyRecord {
    event: String,
    previous: Digest,
    sequence: u64,
}

impl LedgerRecord {
    /// Appends a line to `bytes` and returns its position.
    pub fn write(&self, bytes: &mut Vec<u8>) -> serde_json::Result<Position> {
        let start = bytes.len();
        let Self { previous, synced, .. } = *self;
        self.change.write(bytes, previous, synced)?;
        Ok(previous.after(&bytes[start..]))
    }

    /// Parses a line with its line feed.
    pub fn read(bytes: &[u8]) -> Result<Self, LineError> {
        // Looking at how a canonical line begins is three times as fast as letting serde try each kind.
        let has_kind = |kind: &&LineKind| is_of_kind(bytes, kind.name);
        let kind = KINDS.iter().find(has_kind).unwrap_or(&KINDS[0]);
        Self::of_kind(kind, bytes).map_err(|error| match NewerLine::read(bytes) {
            Some(newer) => LineError::Newer(newer),
            None => LineError::Damaged(error),
        })
    }

    fn of_kind(kind: &LineKind, bytes: &[u8]) -> serde_json::Result<Self> {
        let ((sequence, previous, synced), change) = (kind.read)(bytes)?;
        let previous = continued(sequence, previous);
        Ok(Self {
            previous: previous.ok_or_else(|| serde::de::Error::custom("a line numbered 0"))?,
            synced,
            change,
        })
    }
}

impl NewerLine {
    /// Parses a line that a newer version wrote: it is whole, but its kind or one of its members is unknown.
    fn read(bytes: &[u8]) -> Option<Self> {
        let AnyRecord {
            event,
            previous,
            sequence,
        } = serde_json::from_slice(bytes).ok()?;
        let previous = continued(sequence, previous)?;
        let what = match KINDS.iter().find(|kind| kind.name == event) {
            None => NewerPart::Kind(event),
            Some(kind) => NewerPart::Member(kind.unknown_member(bytes)?),
        };
        let (NewerPart::Kind(word) | NewerPart::Member(word)) = &what;
        let may_have = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let is_word = (1..=LONGEST_NAME).contains(&word.len()) && word.bytes().all(may_have);
        is_word.then_some(Self { what, previous })
    }
}

impl LineKind {
    /// The first member that this version does not know of a line that it could read without such members.
    fn unknown_member(&self, bytes: &[u8]) -> Option<String> {
        let mut line: BTreeMap<String, serde_json::Value> = serde_json::from_slice(bytes).ok()?;
        let is_known = |name: &String| (self.members)().contains(&name.as_str());
        let unknown = line.keys().find(|name| !is_known(name))?.clone();
        line.retain(|name, _| is_known(name));
        let known = serde_json::to_vec(&line).ok()?;
        LedgerRecord::of_kind(self, &known).is_ok().then_some(unknown)
    }
}

/// Whether a canonical line is of this kind, by how it begins.
pub(crate) fn is_of_kind(line: &[u8], kind: &str) -> bool {
    let rest = line.strip_prefix(b"{\"event\":\"");
    let rest = rest.and_then(|rest| rest.strip_prefix(kind.as_bytes()));
    rest.is_some_and(|rest| rest.starts_with(b"\""))
}

/// The position that a line of any kind continues; `None` if it is not a line.
pub(crate) fn previous_of(line: &[u8]) -> Option<Position> {
    match LedgerRecord::read(line) {
        Ok(record) => Some(record.previous),
        Err(LineError::Newer(newer)) => Some(newer.previous),
        Err(LineError::Damaged(_)) => None,
    }
}

/// The position that a line with this number continues. No line has number 0, so none can claim to continue the number
/// before it.
fn continued(sequence: u64, digest: Digest) -> Option<Position> {
    let sequence = sequence.checked_sub(1)?;
    Some(Position { sequence, digest })
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Utc};

    use countersign_model::binding::Binding;
    use countersign_model::license_key::LicenseId;
    use countersign_model::site_release::ReleaseHash;

    use super::*;
    use crate::log::LedgerEntry;

    #[test]
    fn a_line_is_canonical_json_with_the_digest_of_what_it_continues() {
        let binding = Binding::new("a.com".parse().unwrap(), DateTime::from_timestamp(1, 5).unwrap());
        let entry = LedgerEntry {
            license: LicenseId::from_bytes([0xAB; 32]),
            binding,
        };
        let line = LedgerRecord {
            previous: Position::genesis(),
            synced: 0,
            change: LedgerEvent::Bound(entry.clone()),
        };
        let mut bytes = Vec::new();
        let position = line.write(&mut bytes).unwrap();
        let text = String::from_utf8(bytes.clone()).unwrap();
        let genesis = Digest::of(b"countersign ledger 1\n");
        let license = "ab".repeat(32);
        let expected = format!(
            "{{\"event\":\"bound\",\"host\":\"a.com\",\"license\":\"{license}\",\"previous\":\"{genesis}\",\
             \"sequence\":1,\"synced\":0,\"time\":\"1970-01-01T00:00:01.000000005Z\"}}\n"
        );
        assert_eq!(text, expected);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json_canonicalizer::to_string(&value).unwrap() + "\n", text);
        assert_eq!(
            position,
            Position {
                sequence: 1,
                digest: Digest::of(&bytes)
            }
        );
        let read = LedgerRecord::read(&bytes).unwrap();
        assert!(matches!(read.change, LedgerEvent::Bound(read) if read == entry));
        assert_eq!(read.previous, Position::genesis());
    }

    #[test]
    fn the_longest_host_fits_a_line() {
        let label = "x".repeat(63);
        let host = format!("{label}.{label}.{label}.{}", &label[..61]).parse().unwrap();
        let entry = LedgerEntry {
            license: LicenseId::from_bytes([1; 32]),
            binding: Binding::new(host, DateTime::<Utc>::MAX_UTC).guarded(Some(ReleaseHash::of("secret"))),
        };
        let previous = Position {
            sequence: u64::MAX - 1,
            ..Position::genesis()
        };
        let mut bytes = Vec::new();
        LedgerRecord {
            previous,
            synced: u64::MAX,
            change: LedgerEvent::Bound(entry),
        }
        .write(&mut bytes)
        .unwrap();
        assert!(bytes.len() < MAX / 4);
    }

    #[test]
    fn a_member_that_is_unknown_is_of_a_newer_version_only_if_the_rest_is_a_whole_line() {
        let digest = Digest::of(b"");
        let line = format!(
            "{{\"event\":\"compacted\",\"kept\":1,\"previous\":\"{digest}\",\"sequence\":7,\"time\":\"2026-01-01T00:00:00Z\"}}\n"
        );
        let with = |member: &str| line.replace("\"kept\":1", &format!("\"kept\":1,{member}"));
        for (member, name) in [("\"mode\":[{\"a\":1}]", "mode"), ("\"member_2\":null", "member_2")] {
            match LedgerRecord::read(with(member).as_bytes()) {
                Err(LineError::Newer(newer)) => {
                    let expected = format!("has the member \"{name}\", which this version does not know");
                    assert_eq!((newer.to_string(), newer.previous.sequence), (expected, 6));
                }
                other => panic!("{member}: {other:?}"),
            }
        }
        for bad in [
            with("\"A b\":1"),
            with("\"\":1"),
            with("\"mode\":1").replace("2026-01-01", "2026-13-01"),
            line.replace("\"kept\"", "\"kepu\""),
            line.replace("\"sequence\"", "\"sequencf\""),
        ] {
            assert!(
                matches!(LedgerRecord::read(bad.as_bytes()), Err(LineError::Damaged(_))),
                "{bad}"
            );
        }
    }

    #[test]
    fn what_is_no_line_is_refused() {
        let digest = Digest::of(b"");
        let header = |sequence: &str| {
            format!(
                "{{\"event\":\"compacted\",\"kept\":1,\"previous\":\"{digest}\",\"sequence\":{sequence},\"time\":\"2026-01-01T00:00:00Z\"}}\n"
            )
        };
        assert!(LedgerRecord::read(header("7").as_bytes()).is_ok());
        for bad in [
            header("0"),
            header("-1"),
            header("7").replace("kept", "keep"),
            String::new(),
            "{}\n".into(),
        ] {
            assert!(LedgerRecord::read(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
