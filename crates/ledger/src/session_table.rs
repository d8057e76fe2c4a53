//! The sessions and codes of pages that ended early, in memory, as long as they would last.

use std::collections::HashMap;

use chrono::{DateTime, Utc};

use countersign_model::issued_license::Hex128;

use crate::log::{SessionEntry, SessionMark};

/// Entries are dropped when there are this many, and then when there are twice as many as stayed.
const FEW: usize = 1_024;

/// What ended, and when.
#[derive(Debug, Default)]
pub(crate) struct SessionTable {
    entries: HashMap<SessionMark, SessionEntry>,
    /// So many stayed when entries were dropped last.
    stayed: usize,
    newest: DateTime<Utc>,
}

impl SessionTable {
    /// Takes the entry of the next line.
    pub(crate) fn take(&mut self, entry: SessionEntry) {
        self.newest = self.newest.max(entry.time);
        self.entries.insert(entry.mark, entry);
        if self.entries.len() >= FEW.max(2 * self.stayed) {
            let newest = self.newest;
            self.entries.retain(|_, entry| entry.matters_at(newest));
            self.stayed = self.entries.len();
        }
    }

    /// Whether this ended early.
    pub(crate) fn has(&self, mark: SessionMark) -> bool {
        self.entries.contains_key(&mark)
    }

    /// When all sessions of an owner ended last.
    pub(crate) fn owner_ended(&self, owner: Hex128) -> Option<DateTime<Utc>> {
        self.entries.get(&SessionMark::Owner(owner)).map(|entry| entry.time)
    }

    /// Every entry, the oldest first.
    pub(crate) fn entries(&self) -> Vec<SessionEntry> {
        let mut entries: Vec<_> = self.entries.values().copied().collect();
        entries.sort_unstable_by_key(|entry| (entry.time, entry.mark));
        entries
    }

    /// Whether this ended early, then or later.
    pub(crate) fn has_since(&self, entry: &SessionEntry) -> bool {
        let known = self.entries.get(&entry.mark);
        known.is_some_and(|known| known.time >= entry.time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeDelta;

    #[test]
    fn the_table_knows_what_may_still_be_asked_for_and_does_not_grow() {
        let mut table = SessionTable::default();
        let entry = |number: u16| {
            let mut id = [0; 16];
            id[..2].copy_from_slice(&number.to_be_bytes());
            let time = DateTime::UNIX_EPOCH + TimeDelta::minutes(i64::from(number));
            SessionEntry {
                mark: SessionMark::Code(Hex128(id)),
                until: time + TimeDelta::minutes(15),
                time,
            }
        };
        for number in 0..20_000 {
            table.take(entry(number));
        }
        assert!(table.entries.len() < 2 * FEW, "{}", table.entries.len());
        assert!(table.has(entry(19_999).mark) && table.has(entry(19_930).mark) && !table.has(entry(0).mark));
        let mut log = SessionTable::default();
        for entry in table.entries().into_iter().skip(3) {
            log.take(entry);
        }
        let lost = |entry: &SessionEntry| !log.has_since(entry);
        assert_eq!(
            table.entries().into_iter().filter(lost).collect::<Vec<_>>(),
            table.entries()[..3]
        );
    }
}
