//! The result of bringing a whole ledger to another place.

use countersign_model::digest::Digest;

/// What was copied.
#[derive(Debug)]
pub struct CopyOutcome {
    /// How many lines.
    pub lines: u64,
    /// The `sequence` of the last line.
    pub sequence: u64,
    /// The SHA-256 of the last line.
    pub digest: Digest,
    /// Orders of which something is kept, and was copied.
    pub texts: usize,
    /// Whether a server used the folder, and may have added lines since.
    pub in_use: bool,
}
