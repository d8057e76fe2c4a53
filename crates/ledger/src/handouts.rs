//! What customers got by their page: a license key that was mailed again, or a package. Each is a line, so that webhooks and the history
//! of the license have it.

use std::sync::Arc;

use countersign_model::license_key::LicenseId;

use crate::command::{CommitTurn, LedgerCommand};
use crate::draft::CommitDraft;
use crate::error::StoreError;
use crate::ledger::Ledger;
use crate::log::HandedEntry;
use crate::log::record::LedgerEvent;

/// A customer got something.
struct Handout(HandedEntry);

impl LedgerCommand for Handout {
    type Outcome = ();
    const TURN: CommitTurn = CommitTurn::Token;
    const MOST_LINES: usize = 1;

    fn decide(&self, draft: &mut CommitDraft<'_>) {
        let Self(entry) = self;
        let is_known = draft.events.handouts.has(&entry.license, entry.id)
            || draft.memory.events().handouts.has(&entry.license, entry.id);
        if !is_known {
            let time = draft.now(entry.time);
            draft.append(LedgerEvent::Handed(HandedEntry { time, ..entry.clone() }.into()));
        }
    }
}

impl Ledger {
    /// Notes what a customer got. One with the id of another of the latest of its license is noted already. A shared ledger uses its own
    /// clock.
    ///
    /// # Errors
    /// As [`Self::bind`]; then it may have been written.
    pub async fn note_handout(&self, entry: HandedEntry) -> Result<(), StoreError> {
        self.group_commit.ask(Handout(entry)).await
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
    use chrono::{DateTime, TimeDelta, Utc};
    use countersign_model::issued_license::{ChangeScope, Hex128};

    fn entry(license: u8, id: u8, time: DateTime<Utc>) -> HandedEntry {
        HandedEntry {
            id: Hex128([id; 16]),
            license: LicenseId::from_bytes([license; 32]),
            package: None,
            scope: Arc::new(ChangeScope::account()),
            time,
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
            store.note_handout(entry(license, id, now)).await.unwrap();
        }
        assert_eq!(lines(), 2);
        for id in 2..=12 {
            store.note_handout(entry(1, id, now)).await.unwrap();
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
