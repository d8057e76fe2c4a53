//! What the customer of a license got besides its terms: the key or the download page by mail again, a package, another address. Each is
//! a line, so that webhooks and the history of the license have it.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_model::license_key::LicenseId;
use countersign_model::remarks::Author;

use crate::command::{CommitTurn, LedgerCommand};
use crate::draft::CommitDraft;
use crate::error::StoreError;
use crate::ledger::Ledger;
use crate::log::record::LedgerEvent;
use crate::log::{HandedEntry, Handout};

/// A customer got something.
#[derive(Clone, Debug)]
pub struct NewHandout {
    /// Random, or made of the request: a form that is sent twice has one.
    pub id: Hex128,
    /// The license.
    pub license: LicenseId,
    /// What.
    pub what: Handout,
    /// The customer's page, the token, the command or the desk.
    pub scope: Arc<ChangeScope>,
    /// Who did it, and why.
    pub author: Author,
    /// When. A shared ledger uses its own clock.
    pub now: DateTime<Utc>,
}

impl LedgerCommand for NewHandout {
    type Outcome = ();
    const TURN: CommitTurn = CommitTurn::Token;
    const MOST_LINES: usize = 1;

    fn decide(&self, draft: &mut CommitDraft<'_>) {
        let is_known = draft.events.handouts.has(&self.license, self.id)
            || draft.memory.events().handouts.has(&self.license, self.id);
        if is_known {
            return;
        }
        draft.texts.keep_author(&self.author);
        let entry = HandedEntry {
            id: self.id,
            license: self.license,
            what: self.what.clone(),
            scope: Arc::clone(&self.scope),
            reason: self.author.reason_name(),
            who: self.author.number(),
            time: draft.now(self.now),
        };
        draft.append(LedgerEvent::Handed(entry.into()));
    }
}

impl Ledger {
    /// Notes what a customer got. One with the id of another of the latest of its license is noted already.
    ///
    /// # Errors
    /// As [`Self::bind`]; then it may have been written.
    pub async fn note_handout(&self, new: NewHandout) -> Result<(), StoreError> {
        self.group_commit.ask(new).await
    }

    /// What the customer of a license got lately, the newest last.
    pub fn handouts(&self, license: &LicenseId) -> Vec<Arc<HandedEntry>> {
        self.memory.events().handouts.of(license).to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{maintenance, open};
    use chrono::TimeDelta;

    fn handout(license: u8, id: u8, now: DateTime<Utc>) -> NewHandout {
        NewHandout {
            id: Hex128([id; 16]),
            license: LicenseId::from_bytes([license; 32]),
            what: Handout::Key,
            scope: Arc::new(ChangeScope::account()),
            author: Author::default(),
            now,
        }
    }

    #[tokio::test]
    async fn a_form_that_is_sent_twice_is_one_line_and_a_license_keeps_its_latest() {
        let folder = tempfile::TempDir::new().unwrap();
        let lines = || {
            std::fs::read_to_string(folder.path().join("ledger.jsonl"))
                .unwrap()
                .lines()
                .count()
        };
        let now = Utc::now();
        let store = open(folder.path()).unwrap();
        for (license, id) in [(1, 1), (1, 1), (2, 1)] {
            store.note_handout(handout(license, id, now)).await.unwrap();
        }
        assert_eq!(lines(), 2);
        for id in 2..=12 {
            store.note_handout(handout(1, id, now)).await.unwrap();
        }
        let ids = |store: &Ledger, license: u8| -> Vec<u8> {
            let entries = store.handouts(&LicenseId::from_bytes([license; 32]));
            entries.iter().map(|entry| entry.id.0[0]).collect()
        };
        assert_eq!(ids(&store, 1), (3..=12).collect::<Vec<_>>());
        store.close().unwrap();
        drop(store);
        let store = open(folder.path()).unwrap();
        assert_eq!((ids(&store, 1).len(), ids(&store, 2)), (10, vec![1]));
        store.close().unwrap();
        drop(store);
        // A compaction keeps them for as long as the history of licenses.
        maintenance::compact(folder.path(), now).unwrap();
        assert_eq!(lines(), 14);
        maintenance::compact(folder.path(), now + TimeDelta::days(4_000)).unwrap();
        assert_eq!(lines(), 1);
    }
}
