//! Licenses that a person vouched for: their many sites, moves or copies are fine until a day, so no list of findings has them.
//!
//! Why somebody vouched is a text beside the ledger.

use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};

use countersign_model::issued_license::ChangeScope;
use countersign_model::license_key::LicenseId;
use countersign_model::remarks::Author;

use crate::command::{CommitTurn, LedgerCommand};
use crate::draft::CommitDraft;
use crate::error::StoreError;
use crate::ledger::Ledger;
use crate::ledger_tables::VouchTable;
use crate::log::VouchEntry;
use crate::log::record::LedgerEvent;
use crate::source::StoreReader;

/// Somebody vouches for a license, or takes that back.
#[derive(Clone, Debug)]
pub struct VouchChange {
    entry: VouchEntry,
    author: Author,
}

impl VouchChange {
    /// The license is fine through the day `until`; `None` takes that back. A shared ledger uses its own clock.
    pub fn new(
        license: LicenseId,
        until: Option<NaiveDate>,
        scope: Arc<ChangeScope>,
        author: Author,
        now: DateTime<Utc>,
    ) -> Self {
        let entry = VouchEntry {
            license,
            until,
            scope,
            reason: author.reason_name(),
            who: author.number(),
            time: now,
        };
        Self { entry, author }
    }
}

impl LedgerCommand for VouchChange {
    /// Whether anything changed.
    type Outcome = bool;
    const TURN: CommitTurn = CommitTurn::Token;
    const MOST_LINES: usize = 1;

    fn decide(&self, draft: &mut CommitDraft<'_>) -> bool {
        let license = &self.entry.license;
        let ahead = draft.events.vouches.of(license);
        let before = ahead.or_else(|| draft.memory.events().vouches.of(license));
        let now = draft.now(self.entry.time);
        let in_force = before.as_ref().filter(|before| before.is_in_force(now.date_naive()));
        let until = in_force.and_then(|before| before.until);
        let has_news = self.entry.until.is_some() && self.entry.reason.is_some();
        if until == self.entry.until && !has_news {
            return false;
        }
        draft.texts.keep_author(&self.author);
        let entry = VouchEntry {
            // Never before the line before, whatever happens to the clock.
            time: before.map_or(now, |before| now.max(before.time)),
            ..self.entry.clone()
        };
        draft.append(LedgerEvent::Vouched(entry.into()));
        true
    }
}

impl Ledger {
    /// Vouches for a license, or takes that back, and returns whether anything changed. The change is durable then, and other nodes
    /// read it soon.
    ///
    /// # Errors
    /// As [`Self::bind`]; then it may have been written.
    pub async fn vouch(&self, change: VouchChange) -> Result<bool, StoreError> {
        self.group_commit.ask(change).await
    }

    /// What somebody said of a license last, if it is in force on this day.
    pub fn vouch_of(&self, license: &LicenseId, today: NaiveDate) -> Option<Arc<VouchEntry>> {
        let entry = self.memory.events().vouches.of(license);
        entry.filter(|entry| entry.is_in_force(today))
    }

    /// The licenses that somebody vouched for on this day, the latest first.
    pub fn vouches(&self, today: NaiveDate) -> Vec<Arc<VouchEntry>> {
        self.memory.events().vouches.in_force(today)
    }
}

impl StoreReader {
    /// Checks the ledger, and gives the licenses that somebody vouched for on this day, the latest first.
    ///
    /// # Errors
    /// The ledger cannot be read, or is damaged.
    pub fn vouches(self, today: NaiveDate) -> Result<Vec<Arc<VouchEntry>>, StoreError> {
        let mut table = VouchTable::default();
        self.current(|event| {
            if let LedgerEvent::Vouched(entry) = event {
                table.take(&entry);
            }
        })?;
        Ok(table.in_force(today))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger_tables::EventTables;
    use crate::source::StoreSource;
    use crate::{maintenance, open, read_only};
    use countersign_model::remarks::NamedText;

    fn day(day: u32) -> NaiveDate {
        NaiveDate::from_ymd_opt(2027, 11, day).unwrap()
    }

    fn at(day: u32, second: u32) -> DateTime<Utc> {
        let time = NaiveDate::from_ymd_opt(2026, 11, day)
            .unwrap()
            .and_hms_opt(0, 0, second);
        time.unwrap().and_utc()
    }

    fn license(number: u8) -> LicenseId {
        LicenseId::from_bytes([number; 32])
    }

    fn vouch(number: u8, until: Option<NaiveDate>, reason: Option<u8>, now: DateTime<Utc>) -> VouchChange {
        let text = |number: u8| NamedText::random([number; 16], "an agency");
        let author = Author {
            who: Some(text(200)),
            reason: reason.map(text),
        };
        let scope = Arc::new(ChangeScope::desk());
        VouchChange::new(license(number), until, scope, author, now)
    }

    #[tokio::test]
    async fn a_license_is_fine_through_its_last_day_and_what_is_so_already_is_not_written() {
        let folder = tempfile::TempDir::new().unwrap();
        let store = open(folder.path()).unwrap();
        let ledger = || std::fs::read_to_string(folder.path().join("ledger.jsonl")).unwrap();
        for (change, is_news) in [
            (vouch(1, None, None, at(28, 1)), false),
            (vouch(1, Some(day(28)), Some(1), at(28, 2)), true),
            (vouch(1, Some(day(28)), None, at(28, 3)), false),
            (vouch(1, Some(day(28)), Some(2), at(28, 4)), true),
            (vouch(1, Some(day(29)), None, at(28, 5)), true),
            (vouch(2, Some(day(28)), None, at(28, 6)), true),
            // A clock that was set back.
            (vouch(2, None, Some(3), at(27, 0)), true),
            (vouch(2, None, Some(4), at(28, 7)), false),
            (vouch(3, Some(day(1)), None, at(28, 8)), true),
        ] {
            assert_eq!(store.vouch(change.clone()).await.unwrap(), is_news, "{change:?}");
        }
        let of = |number| store.vouch_of(&license(number), day(29));
        assert_eq!(of(1).unwrap().until, Some(day(29)));
        assert_eq!((of(2), of(3)), (None, None));
        let fine: Vec<_> = store.vouches(day(1)).iter().map(|entry| entry.license).collect();
        assert_eq!(fine, [license(3), license(1)]);
        assert_eq!(store.vouches(day(30)), []);
        let line = ledger().lines().nth(4).unwrap().to_owned();
        assert!(line.contains("\"time\":\"2026-11-28T00:00:06Z\""), "{line}");
        assert_eq!(ledger().lines().count(), 6);
        assert!(!ledger().contains("agency"));
        store.close().unwrap();
        drop(store);
        let store = open(folder.path()).unwrap();
        assert_eq!(store.vouches(day(1)).len(), 2);
        store.close().unwrap();
        drop(store);
        let read = || read_only(StoreSource::Folder(folder.path())).unwrap();
        assert_eq!(read().vouches(day(1)).unwrap().len(), 2);
        // A compaction keeps what is in force, and what was.
        maintenance::compact(folder.path(), at(28, 9)).unwrap();
        assert_eq!(ledger().lines().count(), 7);
        let store = open(folder.path()).unwrap();
        assert_eq!(store.vouches(day(1)).len(), 2);
    }

    #[test]
    fn of_what_several_nodes_kept_the_newest_counts_in_any_order() {
        let older = LedgerEvent::Vouched(vouch(1, Some(day(28)), Some(1), at(28, 2)).entry.into());
        let newer = LedgerEvent::Vouched(vouch(1, None, None, at(28, 3)).entry.into());
        let other = LedgerEvent::Vouched(vouch(2, Some(day(28)), None, at(28, 1)).entry.into());
        let tables = |events: &[&LedgerEvent]| {
            let mut tables = EventTables::default();
            events.iter().for_each(|event| tables.take(event));
            tables
        };
        for order in [[&older, &newer, &other], [&newer, &other, &older]] {
            let kept = tables(&order);
            assert_eq!(kept.events(at(29, 0)), [newer.clone(), other.clone()]);
            assert_eq!(kept.lost(&tables(&[&other])), std::slice::from_ref(&newer));
            assert_eq!(kept.lost(&tables(&[&older])), [newer.clone(), other.clone()]);
            assert_eq!(tables(&[&older]).lost(&kept), []);
        }
    }
}
