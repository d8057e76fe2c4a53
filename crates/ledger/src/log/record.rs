//! The lines of the ledger: members in the order of RFC 8785, ASCII texts without escapes, so the bytes are canonical.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use countersign_model::binding::Binding;
use countersign_model::digest::Digest;
use countersign_model::license_key::LicenseId;
use countersign_model::site_host::SiteHost;
use countersign_model::site_release::ReleaseHash;

use crate::log::event::EventLine;
pub use crate::log::event::{EventTexts, LedgerEvent};

use crate::log::claim_line::ClaimLine;
use crate::log::erasure_line::ErasureLine;
use crate::log::handed_line::HandedLine;
use crate::log::license_line::LicenseLine;
use crate::log::line_members::{self, LineMembers};
use crate::log::release_line::ReleaseLine;
use crate::log::reminder_line::ReminderLine;
use crate::log::rollout_line::RolloutLine;
use crate::log::sale_line::{EarlierSaleLine, SaleLine};
use crate::log::session_line::SessionLine;
use crate::log::token_line::TokenLine;
use crate::log::vouch_line::VouchLine;
use crate::log::{Compaction, LedgerEntry, Position};

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

/// A kind of line.
struct LineKind {
    /// The value of `event`.
    name: &'static str,
    /// Parses such a line.
    read: fn(&[u8]) -> serde_json::Result<LedgerRecord>,
    /// The members that such a line may have.
    members: fn() -> LineMembers,
}

impl LineKind {
    const fn of<L: EventLine>(name: &'static str) -> Self {
        Self {
            name,
            read: read_line::<L>,
            members: line_members::of::<L>,
        }
    }
}

/// The kinds of lines that this version knows, the most frequent first.
const KINDS: [LineKind; 14] = [
    LineKind::of::<BoundLine>("bound"),
    LineKind::of::<LicenseLine>("license"),
    LineKind::of::<ReleaseLine>("released"),
    LineKind::of::<SaleLine>("sold"),
    LineKind::of::<TokenLine>("token"),
    LineKind::of::<ClaimLine>("claimed"),
    LineKind::of::<ErasureLine>("erased"),
    LineKind::of::<ReminderLine>("reminded"),
    LineKind::of::<SessionLine>("session"),
    LineKind::of::<RolloutLine>("rollout"),
    LineKind::of::<VouchLine>("vouched"),
    LineKind::of::<HandedLine>("handed"),
    LineKind::of::<CompactedLine>("compacted"),
    LineKind::of::<EarlierSaleLine>("sale"),
];

/// The longest name of a kind or of a member, in bytes.
const LONGEST_NAME: usize = 40;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BoundLine {
    event: BoundEvent,
    host: SiteHost,
    license: LicenseId,
    previous: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    release_hash: Option<ReleaseHash>,
    sequence: u64,
    synced: u64,
    time: DateTime<Utc>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CompactedLine {
    event: CompactedEvent,
    kept: u64,
    previous: Digest,
    sequence: u64,
    time: DateTime<Utc>,
}

/// What a line of any kind has.
#[derive(Deserialize)]
struct AnyRecord {
    event: String,
    previous: Digest,
    sequence: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum BoundEvent {
    Bound,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum CompactedEvent {
    Compacted,
}

impl LedgerRecord {
    /// Appends a line to `bytes` and returns its position.
    pub fn write(&self, bytes: &mut Vec<u8>) -> serde_json::Result<Position> {
        let start = bytes.len();
        let Self { previous, synced, .. } = *self;
        match &self.change {
            LedgerEvent::Bound(entry) => append(bytes, &BoundLine::new(entry, previous, synced)),
            LedgerEvent::Released(entry) => append(bytes, &ReleaseLine::new(entry, previous, synced)),
            LedgerEvent::License(issued) => append(bytes, &LicenseLine::new(issued, previous, synced)),
            LedgerEvent::Sale(entry) => append(bytes, &SaleLine::new(entry, previous, synced)),
            LedgerEvent::Token(token) => append(bytes, &TokenLine::new(token, previous, synced)),
            LedgerEvent::Claimed(entry) => append(bytes, &ClaimLine::new(entry, previous, synced)),
            LedgerEvent::Erased(entry) => append(bytes, &ErasureLine::new(entry, previous, synced)),
            LedgerEvent::Reminded(entry) => append(bytes, &ReminderLine::new(entry, previous, synced)),
            LedgerEvent::Session(entry) => append(bytes, &SessionLine::new(entry, previous, synced)),
            LedgerEvent::Rollout(entry) => append(bytes, &RolloutLine::new(entry, previous, synced)),
            LedgerEvent::Vouched(entry) => append(bytes, &VouchLine::new(entry, previous, synced)),
            LedgerEvent::Handed(entry) => append(bytes, &HandedLine::new(entry, previous, synced)),
            LedgerEvent::Compacted(compaction) => append(bytes, &CompactedLine::new(*compaction, previous)),
        }?;
        Ok(previous.after(&bytes[start..]))
    }

    /// Parses a line with its line feed.
    pub fn read(bytes: &[u8]) -> Result<Self, LineError> {
        // Looking at how a canonical line begins is three times as fast as letting serde try each kind.
        let has_kind = |kind: &&LineKind| is_of_kind(bytes, kind.name);
        let kind = KINDS.iter().find(has_kind).unwrap_or(&KINDS[0]);
        (kind.read)(bytes).map_err(|error| match NewerLine::read(bytes) {
            Some(newer) => LineError::Newer(newer),
            None => LineError::Damaged(error),
        })
    }
}

fn append(bytes: &mut Vec<u8>, line: &impl Serialize) -> serde_json::Result<()> {
    serde_json::to_writer(&mut *bytes, line)?;
    bytes.push(b'\n');
    Ok(())
}

fn read_line<L: EventLine>(bytes: &[u8]) -> serde_json::Result<LedgerRecord> {
    let line: L = serde_json::from_slice(bytes)?;
    let (sequence, previous, synced) = line.place();
    let change = line.event()?;
    Ok(LedgerRecord {
        previous: continued(sequence, previous).ok_or_else(|| serde::de::Error::custom("a line numbered 0"))?,
        synced,
        change,
    })
}

impl BoundLine {
    fn new(LedgerEntry { license, binding }: &LedgerEntry, previous: Position, synced: u64) -> Self {
        Self {
            event: BoundEvent::Bound,
            host: binding.host.clone(),
            license: *license,
            previous: previous.digest,
            release_hash: binding.release_hash(),
            sequence: previous.sequence + 1,
            synced,
            time: binding.bound_at,
        }
    }
}

impl EventLine for BoundLine {
    fn place(&self) -> (u64, Digest, u64) {
        (self.sequence, self.previous, self.synced)
    }

    fn event(self) -> serde_json::Result<LedgerEvent> {
        let binding = Binding::new(self.host, self.time).guarded(self.release_hash);
        let license = self.license;
        Ok(LedgerEvent::Bound(LedgerEntry { license, binding }))
    }
}

impl CompactedLine {
    fn new(Compaction { kept, time }: Compaction, previous: Position) -> Self {
        Self {
            event: CompactedEvent::Compacted,
            kept,
            previous: previous.digest,
            sequence: previous.sequence + 1,
            time,
        }
    }
}

impl EventLine for CompactedLine {
    fn place(&self) -> (u64, Digest, u64) {
        (self.sequence, self.previous, self.sequence)
    }

    fn event(self) -> serde_json::Result<LedgerEvent> {
        let Self { kept, time, .. } = self;
        Ok(LedgerEvent::Compacted(Compaction { kept, time }))
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
        (self.read)(&known).is_ok().then_some(unknown)
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
    use super::*;

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
