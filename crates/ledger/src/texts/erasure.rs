//! What is kept of texts, and the result of erasing some.

use chrono::{DateTime, Utc};

use countersign_model::issued_license::Hex128;
use countersign_model::stored_text::StoredText;

/// What is kept of some texts.
pub type FoundTexts = Vec<(Hex128, StoredText)>;

/// Texts to erase.
#[derive(Clone, Debug)]
pub struct TextErasure {
    /// Every name of the text, or the names of several texts.
    pub names: Vec<Hex128>,
    /// Whether all names are of one text: then it was erased when the first of them was.
    pub is_one: bool,
    /// Whether lines name them. Otherwise they are erased only if something is kept of them.
    pub is_named: bool,
    /// When. A shared ledger uses its own clock.
    pub now: DateTime<Utc>,
}

/// Texts that are erased, durably.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErasedText {
    /// When. Of one text, for the first time.
    pub time: DateTime<Utc>,
    /// How many texts there were until now.
    pub had_texts: usize,
}

impl ErasedText {
    /// The result of an erasure, by what was kept before; `None` if they are unknown.
    pub(crate) fn after(before: &FoundTexts, erasure: &TextErasure, now: DateTime<Utc>) -> Option<Self> {
        let first = before.iter().filter_map(|(_, stored)| stored.erased_at()).min();
        let first = first.filter(|_| erasure.is_one);
        let is_known = erasure.is_named || !before.is_empty();
        is_known.then(|| Self {
            time: first.unwrap_or(now),
            had_texts: before.iter().filter(|(_, stored)| stored.text().is_some()).count(),
        })
    }
}
