//! The ends of sessions and codes of pages: each is a line, so that every node obeys it, also after a restart.

use chrono::{DateTime, Utc};

use crate::command::{CommitTurn, LedgerCommand};
use crate::draft::CommitDraft;
use crate::log::record::LedgerEvent;
use crate::log::{SessionEntry, SessionMark};

/// Something ends that pages gave to a browser.
#[derive(Clone, Debug)]
pub struct SessionEnd {
    /// What ends.
    pub mark: SessionMark,
    /// When it would end anyway: from then on nobody asks.
    pub until: DateTime<Utc>,
    /// When. A shared ledger uses its own clock.
    pub now: DateTime<Utc>,
}

impl LedgerCommand for SessionEnd {
    /// Whether nobody ended it before.
    type Outcome = bool;
    const TURN: CommitTurn = CommitTurn::Token;
    const MOST_LINES: usize = 1;

    fn decide(&self, draft: &mut CommitDraft<'_>) -> bool {
        let is_known = {
            let memory = draft.memory.events();
            draft.events.sessions.has(self.mark) || memory.sessions.has(self.mark)
        };
        // All sessions of an owner may end again: those that began since.
        let is_first = !is_known || matches!(self.mark, SessionMark::Owner(_));
        if is_first {
            let entry = SessionEntry {
                mark: self.mark,
                until: self.until,
                time: draft.now(self.now),
            };
            draft.append(LedgerEvent::Session(entry));
        }
        is_first
    }
}
