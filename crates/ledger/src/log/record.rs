//! The lines of the ledger: members in the order of RFC 8785, ASCII texts without escapes, so the bytes are canonical.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use countersign_model::api_token::ApiToken;
use countersign_model::binding::Binding;
use countersign_model::digest::Digest;
use countersign_model::issued_license::IssuedLicense;
use countersign_model::license_key::LicenseId;
use countersign_model::site_host::SiteHost;
use countersign_model::site_release::ReleaseHash;

use crate::log::license_line::{self, LicenseLine};
use crate::log::release_line::{self, ReleaseLine};
use crate::log::sale_line::{self, SaleEntry, SaleLine};
use crate::log::token_line::{self, TokenLine};
use crate::log::{Compaction, LedgerEntry, Position, ReleaseEntry};

/// The longest line with its line feed, in bytes: a host has at most 253. A license that needs more is refused.
pub const MAX: usize = 4096;

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
    /// They are a line of a kind that this version does not know.
    #[error(transparent)]
    Newer(NewerLine),
}

/// A line of a kind that this version does not know: a newer version wrote it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is of the kind \"{kind}\", which this version does not know")]
pub struct NewerLine {
    /// Its `event`: a word of `a` to `z` and `_`.
    pub kind: String,
    /// The position that the line continues.
    pub previous: Position,
}

/// The kinds of lines that this version knows.
const KINDS: [&str; 6] = ["bound", "compacted", "license", "released", "sale", "token"];

/// The longest name of a kind, in bytes.
const LONGEST_KIND: usize = 40;

/// The event of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerEvent {
    /// A site was bound.
    Bound(LedgerEntry),
    /// A client released a site.
    Released(ReleaseEntry),
    /// A license was issued or changed: the whole license as it is now.
    License(Arc<IssuedLicense>),
    /// A shop told something of a sale.
    Sale(Arc<SaleEntry>),
    /// A token was made, revoked, or used on a new day: the whole token as it is now.
    Token(Arc<ApiToken>),
    /// The first line of a compacted ledger.
    Compacted(Compaction),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BoundRecord {
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
struct CompactedRecord {
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

impl LedgerEvent {
    /// The binding, if it is one.
    pub fn binding(self) -> Option<LedgerEntry> {
        match self {
            Self::Bound(entry) => Some(entry),
            Self::Released(_) | Self::License(_) | Self::Sale(_) | Self::Token(_) | Self::Compacted(_) => None,
        }
    }

    /// When it happened.
    pub(crate) fn time(&self) -> DateTime<Utc> {
        match self {
            Self::Bound(entry) => entry.binding.bound_at,
            Self::Released(entry) => entry.release.time,
            Self::License(issued) => issued.time,
            Self::Sale(entry) => entry.time,
            Self::Token(token) => token.time,
            Self::Compacted(compaction) => compaction.time,
        }
    }
}

impl LedgerRecord {
    /// Appends a line to `bytes` and returns its position.
    pub fn write(&self, bytes: &mut Vec<u8>) -> serde_json::Result<Position> {
        let start = bytes.len();
        let Self {
            previous: Position {
                sequence,
                digest: previous,
            },
            synced,
            ..
        } = *self;
        let sequence = sequence + 1;
        match &self.change {
            LedgerEvent::Bound(LedgerEntry { license, binding }) => {
                let line = BoundRecord {
                    event: BoundEvent::Bound,
                    host: binding.host.clone(),
                    license: *license,
                    previous,
                    release_hash: binding.release_hash(),
                    sequence,
                    synced,
                    time: binding.bound_at,
                };
                serde_json::to_writer(&mut *bytes, &line)?;
            }
            LedgerEvent::Released(entry) => {
                serde_json::to_writer(&mut *bytes, &ReleaseLine::new(entry, self.previous, synced))?;
            }
            LedgerEvent::License(issued) => {
                serde_json::to_writer(&mut *bytes, &LicenseLine::new(issued, self.previous, synced))?;
            }
            LedgerEvent::Sale(entry) => {
                serde_json::to_writer(&mut *bytes, &SaleLine::new(entry, self.previous, synced))?;
            }
            LedgerEvent::Token(token) => {
                serde_json::to_writer(&mut *bytes, &TokenLine::new(token, self.previous, synced))?;
            }
            LedgerEvent::Compacted(Compaction { kept, time }) => {
                let line = CompactedRecord {
                    event: CompactedEvent::Compacted,
                    kept: *kept,
                    previous,
                    sequence,
                    time: *time,
                };
                serde_json::to_writer(&mut *bytes, &line)?;
            }
        }
        bytes.push(b'\n');
        Ok(self.previous.after(&bytes[start..]))
    }

    /// Parses a line with its line feed.
    pub fn read(bytes: &[u8]) -> Result<Self, LineError> {
        Self::read_known(bytes).map_err(|error| match NewerLine::read(bytes) {
            Some(newer) => LineError::Newer(newer),
            None => LineError::Damaged(error),
        })
    }

    /// Parses a line of a kind that this version knows.
    fn read_known(bytes: &[u8]) -> serde_json::Result<Self> {
        // Looking at how a canonical line begins is three times as fast as letting serde try each event.
        let (sequence, digest, synced, change) = if bytes.starts_with(b"{\"event\":\"compacted\"") {
            let CompactedRecord {
                kept,
                previous,
                sequence,
                time,
                ..
            } = serde_json::from_slice(bytes)?;
            (
                sequence,
                previous,
                sequence,
                LedgerEvent::Compacted(Compaction { kept, time }),
            )
        } else if bytes.starts_with(license_line::BEGINNING) {
            let line: LicenseLine = serde_json::from_slice(bytes)?;
            (
                line.sequence,
                line.previous,
                line.synced,
                LedgerEvent::License(Arc::new(line.license()?)),
            )
        } else if bytes.starts_with(sale_line::BEGINNING) {
            let line: SaleLine = serde_json::from_slice(bytes)?;
            let sequence = line.sequence;
            let previous = line.previous;
            let synced = line.synced;
            (sequence, previous, synced, LedgerEvent::Sale(Arc::new(line.entry())))
        } else if bytes.starts_with(token_line::BEGINNING) {
            let line: TokenLine = serde_json::from_slice(bytes)?;
            let sequence = line.sequence;
            let previous = line.previous;
            let synced = line.synced;
            (sequence, previous, synced, LedgerEvent::Token(Arc::new(line.token())))
        } else if bytes.starts_with(release_line::BEGINNING) {
            let line: ReleaseLine = serde_json::from_slice(bytes)?;
            (
                line.sequence,
                line.previous,
                line.synced,
                LedgerEvent::Released(line.entry()),
            )
        } else {
            let line: BoundRecord = serde_json::from_slice(bytes)?;
            let binding = Binding::new(line.host, line.time).guarded(line.release_hash);
            let license = line.license;
            (
                line.sequence,
                line.previous,
                line.synced,
                LedgerEvent::Bound(LedgerEntry { license, binding }),
            )
        };
        Ok(Self {
            previous: continued(sequence, digest).ok_or_else(|| serde::de::Error::custom("a line numbered 0"))?,
            synced,
            change,
        })
    }
}

impl NewerLine {
    /// Parses a line of a kind that this version does not know.
    fn read(bytes: &[u8]) -> Option<Self> {
        let AnyRecord {
            event: kind,
            previous,
            sequence,
        } = serde_json::from_slice(bytes).ok()?;
        let is_word = kind.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        let is_kind = is_word && (1..=LONGEST_KIND).contains(&kind.len());
        let previous = continued(sequence, previous)?;
        (is_kind && !KINDS.contains(&kind.as_str())).then_some(Self { kind, previous })
    }
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
