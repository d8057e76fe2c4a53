//! The erasure of a customer: a line of the ledger that says so, before the rows beside the ledger are deleted.
//!
//! Every start deletes the rows of erased customers again, so that no backup brings one back.

use chrono::{DateTime, Utc};

use countersign_model::issued_license::Hex128;
use countersign_model::remarks::Author;

use crate::command::{CommitTurn, LedgerCommand};
use crate::draft::CommitDraft;
use crate::log::ErasureEntry;
use crate::log::record::LedgerEvent;

/// A customer to erase.
#[derive(Clone, Debug)]
pub struct CustomerErasure {
    /// The customer's number.
    pub number: Hex128,
    /// Who erases.
    pub author: Author,
    /// When. A shared ledger uses its own clock.
    pub now: DateTime<Utc>,
}

impl LedgerCommand for CustomerErasure {
    type Outcome = ();
    const TURN: CommitTurn = CommitTurn::Token;
    const MOST_LINES: usize = 1;

    fn decide(&self, draft: &mut CommitDraft<'_>) {
        if draft.events.erased.has(self.number) || draft.memory.events().erased.has(self.number) {
            return;
        }
        draft.texts.keep_author(&self.author);
        draft.append(LedgerEvent::Erased(ErasureEntry {
            number: self.number,
            time: draft.now(self.now),
            who: self.author.number(),
        }));
    }
}
