//! The ledger: every change to a binding, one JSON object a line, each with the SHA-256 of the line before it.
//!
//! It is the truth, an audit trail and a backup. `sed -n 7p ledger.jsonl | sha256sum` is line 8's `previous`. Lines are
//! written by `writer` to a `file`, read and proved by `reader`; `compaction` begins a new file where superseded lines are many.

pub(crate) mod compaction;
pub(crate) mod file;
pub mod reader;
pub mod record;
#[cfg(test)]
mod tests;
pub(crate) mod writer;

use chrono::{DateTime, Utc};

use crate::model::binding::Binding;
use crate::model::digest::Digest;
use crate::model::license_key::LicenseId;

/// The ledger's name in the store's folder.
pub(crate) const NAME: &str = "ledger.jsonl";

/// What the first line of all continues; another format of lines begins with another one.
const GENESIS: &[u8] = b"countersign ledger 1\n";

/// A site was bound to a license; an earlier binding of the same site to it is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The license.
    pub license: LicenseId,
    /// The site, and when it was bound.
    pub binding: Binding,
}

/// A place in the chain: everything up to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Position {
    /// Counted from 1 through all compactions; in messages, `line` is a line of the file.
    pub sequence: u64,
    /// The SHA-256 of the line, with its line feed.
    pub digest: Digest,
}

impl Position {
    /// Before the first line.
    pub fn genesis() -> Self {
        Self { sequence: 0, digest: Digest::of(GENESIS) }
    }

    fn after(self, line: &[u8]) -> Self {
        Self { sequence: self.sequence + 1, digest: Digest::of(line) }
    }
}

/// What stands first in a compacted ledger, and says what it continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// How many lines behind it were kept.
    pub kept: u64,
    /// When it was made.
    pub time: DateTime<Utc>,
}
