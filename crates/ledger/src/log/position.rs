//! Where the chain of lines is.

use countersign_model::digest::Digest;

/// What the very first line continues. Another line format needs another text.
const GENESIS: &[u8] = b"countersign ledger 1\n";

/// A position in the chain, which identifies everything up to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Position {
    /// From 1 through all compactions. In messages, `line` is a line of the file.
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

    /// The position of the next line.
    pub(crate) fn after(self, line: &[u8]) -> Self {
        Self {
            sequence: self.sequence + 1,
            digest: Digest::of(line),
        }
    }
}
