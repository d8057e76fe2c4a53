//! The log: every change to a binding, in a ledger whose lines prove each other. It is the truth, an audit trail and a backup.
//!
//! **A line** is one JSON object in the form of RFC 8785, with a line feed, at most [`record::MAX`] bytes ([`record`]):
//!
//! ```text
//! {"event":"bound","host":"shop.example","license":"<64 hex>","previous":"<64 hex>","sequence":8,"synced":6,"time":"…Z"}
//! ```
//!
//! `license` is the license's id, never its key. `sequence` counts the lines from 1 and goes on through compactions.
//! `synced` is the last line that was on disk when this one was written.
//!
//! **The chain.** `previous` is the SHA-256 of the line before, with its line feed: `sed -n 7p ledger.jsonl | sha256sum` is
//! line 8's `previous`. The first line of all continues a fixed text ([`Position::genesis`]). A [`Position`] is a sequence
//! and the digest of its line, so it stands for everything up to there. Whoever keeps the last one can tell whether anything
//! before it was changed.
//!
//! **Group commit.** A binding is in force once its line is on disk, and nobody is told before. One thread
//! (`store::group_commit`) takes all bindings that wait, at most [`record::BATCH`]; `writer` appends their lines with one
//! write and one fdatasync, and then everybody who waited is told. A site alone waits for one sync, a thousand sites share
//! it. Where the write or the sync fails, the file is cut back to its last durable line before anything else is written, and
//! everybody in the batch is told that it failed. `file` checks before and after each batch that the open file still is
//! what its path leads to.
//!
//! **Recovery.** A start reads the whole ledger and proves the chain ([`reader`]). A loss of power can tear only what was
//! never acknowledged: the last batch. What cannot be read at the end is therefore cut, if all of this holds:
//!
//! - The last line has no line feed, or the rest has zeros where the file system had not written yet.
//! - The rest is no longer than a batch can be.
//! - None of its lines says in `synced` that more was on disk than the chain has.
//! - It does not reach into the lines that a compaction kept, which were on disk before the file got its name.
//!
//! Everything else is damage, and the store does not open. `store::recovery` then compares the ledger with the index: an
//! index behind it is brought up to it or made anew, an index ahead of it means that the ledger has lost something.
//!
//! **Compaction** begins a new file without the lines that a later one supersedes. Its first line says `"compacted"`, how
//! many lines were kept, and in `previous` the digest of the old file's last line: old and new are one chain. The new file
//! is synced before it is renamed into place, the old one stays beside it.
//!
//! **Another backend** implements the trait `Backend` of `store::backend`, which is all that the group commit knows:
//! `append` returns when a batch is durable, or leaves nothing of it; `probe` and `look` tell whether it can; `catch_up`,
//! `write_reports` and `sync_index` keep the index. `store::open` makes it together with all bindings, as
//! `StoreDisk::open` does for files. The parts below fit under it:
//!
//! - [`record::LedgerRecord`] writes and reads a line, [`reader::read`] proves the chain of anything that is `Read`. Neither knows
//!   a file. A backend that keeps these lines, in whatever table, keeps the audit trail and the export.
//! - `writer` needs a `Medium` of five operations. That is for a backend that holds bytes at offsets, as `file` does.
//! - `compaction` and `store::recovery` read a `File` so far: for another backend they have to take a reader.

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
pub struct LedgerEntry {
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
        Self {
            sequence: 0,
            digest: Digest::of(GENESIS),
        }
    }

    fn after(self, line: &[u8]) -> Self {
        Self {
            sequence: self.sequence + 1,
            digest: Digest::of(line),
        }
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
