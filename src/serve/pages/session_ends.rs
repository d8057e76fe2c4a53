//! Sessions that ended early: lines of the ledger, which every node obeys.

use chrono::{DateTime, Utc};

use crate::serve::pages::label::PageLabel;
use crate::serve::pages::session::PageSession;
use countersign_ledger::{Ledger, SessionEnd, SessionMark, StoreError};
use countersign_model::issued_license::Hex128;
use countersign_model::issuing_key::ReferenceKey;

/// The sessions of pages that ended early.
#[derive(Clone, Copy)]
pub(in crate::serve) struct SessionEnds<'a> {
    pub(in crate::serve) label: PageLabel,
    pub(in crate::serve) key: &'a ReferenceKey,
    pub(in crate::serve) ledger: &'a Ledger,
}

impl SessionEnds<'_> {
    /// Whether a session ended: by itself, or with all of its owner that began before.
    pub(in crate::serve) fn has(&self, session: &PageSession) -> bool {
        let owner = session.owner.number(self.label, self.key);
        let with_all = self.ledger.sessions_ended(owner);
        self.ledger.has_ended(SessionMark::Session(session.id)) || with_all.is_some_and(|ended| session.issued <= ended)
    }

    /// Ends a session on every node.
    pub(in crate::serve) async fn end(&self, session: &PageSession, now: DateTime<Utc>) -> Result<(), StoreError> {
        let end = SessionEnd {
            mark: SessionMark::Session(session.id),
            until: session.ends(self.label),
            now,
        };
        self.ledger.end_session(end).await.map(|_| ())
    }

    /// Ends all sessions of an owner that began until now, on every node.
    pub(in crate::serve) async fn end_all(&self, owner: Hex128, now: DateTime<Utc>) -> Result<(), StoreError> {
        let end = SessionEnd {
            mark: SessionMark::Owner(owner),
            until: now + self.label.lasts(),
            now,
        };
        self.ledger.end_session(end).await.map(|_| ())
    }
}
