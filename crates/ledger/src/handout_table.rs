//! The latest of what customers got, in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use countersign_model::issued_license::Hex128;
use countersign_model::license_key::LicenseId;
use countersign_model::site_release::MOVE_PERIOD;

use crate::log::HandedEntry;

/// How many of a license stay in memory.
const MOST: usize = 10;

/// How long they stay, as moves do.
const KEPT: TimeDelta = MOVE_PERIOD;

/// Entries are dropped when there are this many, and then when there are twice as many as stayed.
const FEW: usize = 1_024;

/// The latest handouts of each license that has any.
#[derive(Debug, Default)]
pub(crate) struct HandoutTable {
    entries: BTreeMap<LicenseId, Vec<Arc<HandedEntry>>>,
    count: usize,
    /// So many stayed when entries were dropped last.
    stayed: usize,
    newest: DateTime<Utc>,
}

impl HandoutTable {
    /// Takes the entry of the next line.
    pub(crate) fn take(&mut self, entry: &Arc<HandedEntry>) {
        self.newest = self.newest.max(entry.time);
        let entries = self.entries.entry(entry.license).or_default();
        if entries.len() == MOST {
            entries.remove(0);
            self.count -= 1;
        }
        entries.push(Arc::clone(entry));
        self.count += 1;
        if self.count >= FEW.max(2 * self.stayed) {
            self.drop_old();
        }
    }

    fn drop_old(&mut self) {
        let newest = self.newest;
        self.entries.retain(|_, entries| {
            entries.retain(|entry| newest - entry.time < KEPT);
            !entries.is_empty()
        });
        self.count = self.entries.values().map(Vec::len).sum();
        self.stayed = self.count;
    }

    /// The latest of a license, the newest last.
    pub(crate) fn of(&self, license: &LicenseId) -> &[Arc<HandedEntry>] {
        self.entries.get(license).map_or(&[], |entries| entries)
    }

    /// Every one that is in memory.
    pub(crate) fn all(&self) -> Vec<Arc<HandedEntry>> {
        self.entries.values().flatten().cloned().collect()
    }

    /// Whether it is among the latest of a license.
    pub(crate) fn has(&self, license: &LicenseId, id: Hex128) -> bool {
        self.of(license).iter().any(|entry| entry.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Handout;
    use countersign_model::issued_license::ChangeScope;

    #[test]
    fn what_is_long_ago_leaves_memory() {
        let mut table = HandoutTable::default();
        let time = |day: u16| DateTime::UNIX_EPOCH + TimeDelta::days(i64::from(day));
        for day in 0..5_000_u16 {
            let [first, second] = day.to_be_bytes();
            let mut license = [0; 32];
            license[..2].copy_from_slice(&[first, second]);
            let license = LicenseId::from_bytes(license);
            let entry = HandedEntry {
                id: Hex128([1; 16]),
                license,
                what: Handout::Key,
                scope: Arc::new(ChangeScope::account()),
                reason: None,
                who: None,
                time: time(day),
            };
            table.take(&entry.into());
            assert_eq!(table.of(&license).len(), 1);
        }
        assert!(table.all().len() < 2 * FEW, "{}", table.all().len());
        assert_eq!(table.count, table.all().len());
    }
}
