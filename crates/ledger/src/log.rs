//! The log: every event of the ledger, as a chain of lines. It is the truth, an audit trail and a backup.
//!
//! **A line** is one RFC 8785 JSON object and a line feed, at most [`record::MAX`] bytes ([`record`], which lists the kinds):
//!
//! ```text
//! {"event":"bound","host":"shop.example","license":"<64 hex>","previous":"<64 hex>","sequence":8,"synced":6,"time":"…Z"}
//! ```
//!
//! No line has a key, and no line has anything personal. `sequence` counts the lines from 1 through all compactions. `synced` is the
//! last line that was on disk when this one was written.
//!
//! **The chain.** `previous` is the SHA-256 of the line before, with its line feed: `sed -n 7p ledger.jsonl | sha256sum` is line 8's
//! `previous`. The very first line continues a fixed text ([`Position::genesis`]). A [`Position`] is a sequence and the digest of its
//! line, so it proves everything up to there.
//!
//! **A torn end.** A power failure can only tear what was never acknowledged: the last batch ([`record::BATCH`]). A start
//! ([`reader`]) removes an unreadable end if all of this holds; everything else is damage, and the store does not open:
//!
//! - The last line has no line feed, or the rest has zeros where the file system had not written yet.
//! - The rest is not longer than a batch can be.
//! - None of its lines has a `synced` beyond the end of the chain.
//! - It does not include lines kept by a compaction, which were on disk before the file got its name.
//!
//! **Compaction** begins a new file without superseded lines. Its first line has `"compacted"`, the number of kept lines, and in
//! `previous` the digest of the old file's last line, so old and new form one chain. The new file is synced and then renamed into
//! place; the old one stays beside it.
//!
//! `commit_writer` decides what a batch has, `disk` or `postgres` keeps it, and `recovery` compares the index with it.

mod bound_line;
pub(crate) mod chain;
pub(crate) mod claim_line;
mod compacted_line;
pub(crate) mod compaction;
mod erasure_line;
pub(crate) mod event;
pub(crate) mod file;
mod handed_line;
pub(crate) mod license_line;
mod license_words;
pub(crate) mod line_event;
mod position;
pub mod reader;
pub mod record;
mod release_line;
mod reminder_line;
mod rollout_line;
pub(crate) mod sale_line;
pub(crate) mod session_line;
#[cfg(test)]
mod tests;
pub(crate) mod token_line;
mod vouch_line;
pub(crate) mod writer;

pub use bound_line::LedgerEntry;
pub use claim_line::ClaimEntry;
pub use compacted_line::Compaction;
pub use erasure_line::ErasureEntry;
pub use handed_line::{HandedEntry, HandedPackage, Handout};
pub use position::Position;
pub use release_line::ReleaseEntry;
pub use reminder_line::{ReminderEntry, SentReminder};
pub use rollout_line::RolloutEntry;
pub use sale_line::{SaleEntry, SoldTerms};
pub use session_line::{SessionEntry, SessionMark};
pub use vouch_line::VouchEntry;

/// The ledger's name in the store's folder.
pub(crate) const NAME: &str = "ledger.jsonl";

/// The most names in one delivery. Shops name fewer than ten.
pub const MAX_NAMES: usize = 64;
