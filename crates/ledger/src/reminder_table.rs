//! The claims of reminders and the switch, in memory: those of the last weeks.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};

use countersign_model::issued_license::Hex128;
use countersign_model::license_key::LicenseId;
use countersign_model::reminder::ReminderKind;

use crate::log::line_event::LineEvent as _;
use crate::log::{ReminderEntry, SentReminder};

/// How long a claim is known. A reminder is at most two days late, so nobody asks after that; the rest is for clocks that differ.
pub(crate) const KEPT: TimeDelta = TimeDelta::days(60);

/// Claims are dropped when there are this many, and then when there are twice as many as stayed.
const FEW: usize = 4_096;

/// The claims of the last weeks, and the switch.
#[derive(Debug, Default)]
pub(crate) struct ReminderTable {
    /// Whether reminders are sent, and since when.
    switch: Option<(bool, DateTime<Utc>)>,
    claims: HashMap<LicenseId, Vec<Arc<ReminderEntry>>>,
    /// The claims, each license counted.
    count: usize,
    /// So many stayed when claims were dropped last.
    stayed: usize,
    newest: DateTime<Utc>,
}

impl ReminderTable {
    /// Takes the entry of the next line.
    pub(crate) fn take(&mut self, entry: &Arc<ReminderEntry>) {
        let sent = match &**entry {
            ReminderEntry::Switched { on, time } => {
                self.switch = Some((*on, *time));
                return;
            }
            ReminderEntry::Sent(sent) => sent,
        };
        self.newest = self.newest.max(sent.time);
        for license in &sent.licenses {
            self.claims.entry(*license).or_default().push(Arc::clone(entry));
        }
        self.count += sent.licenses.len();
        if self.count >= FEW.max(2 * self.stayed) {
            self.drop_old();
        }
    }

    fn drop_old(&mut self) {
        let newest = self.newest;
        let is_kept = |entry: &Arc<ReminderEntry>| entry.sent().is_some_and(|sent| newest - sent.time < KEPT);
        self.claims.retain(|_, claims| {
            claims.retain(is_kept);
            !claims.is_empty()
        });
        self.count = self.claims.values().map(Vec::len).sum();
        self.stayed = self.count;
    }

    /// The mail that reminds of this end of a license.
    pub(crate) fn mail_of(&self, license: &LicenseId, expires: NaiveDate, kind: ReminderKind) -> Option<Hex128> {
        let claims = self.claims.get(license)?.iter().filter_map(|entry| entry.sent());
        let mut found = claims.filter(|sent| sent.expires == expires && sent.kind == kind);
        Some(found.next()?.mail)
    }

    /// Since when reminders are sent; `None` if they are not.
    pub(crate) fn since(&self) -> Option<DateTime<Utc>> {
        self.switch.filter(|(on, _)| *on).map(|(_, time)| time)
    }

    /// Whether they are sent, if a line says so.
    pub(crate) fn switched(&self) -> Option<bool> {
        self.switch.map(|(on, _)| on)
    }

    /// Whether they are sent.
    pub(crate) fn is_on(&self) -> bool {
        self.since().is_some()
    }

    /// Every entry: the switch, and each claim once.
    pub(crate) fn entries(&self) -> Vec<Arc<ReminderEntry>> {
        let switch = self
            .switch
            .map(|(on, time)| Arc::new(ReminderEntry::Switched { on, time }));
        let mut claims: Vec<_> = self.claims.values().flatten().cloned().collect();
        claims.sort_unstable_by_key(|entry| (entry.time(), Arc::as_ptr(entry)));
        claims.dedup_by(|one, other| Arc::ptr_eq(one, other));
        switch.into_iter().chain(claims).collect()
    }

    /// The claims that `other` lacks.
    pub(crate) fn lost(&self, other: &Self) -> Vec<SentReminder> {
        let entries = self.entries();
        let sent = entries.iter().filter_map(|entry| entry.sent());
        let lost = sent.filter_map(|sent| {
            let is_lost = |license: &&LicenseId| other.mail_of(license, sent.expires, sent.kind).is_none();
            let licenses: Vec<_> = sent.licenses.iter().filter(is_lost).copied().collect();
            (!licenses.is_empty()).then(|| SentReminder {
                licenses,
                ..sent.clone()
            })
        });
        lost.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(license: u16, mail: u8, days: i64) -> Arc<ReminderEntry> {
        let mut id = [0; 32];
        id[..2].copy_from_slice(&license.to_be_bytes());
        let entry = ReminderEntry::Sent(SentReminder {
            expires: "2027-01-31".parse().unwrap(),
            kind: ReminderKind::Before(7),
            licenses: vec![LicenseId::from_bytes(id)],
            mail: Hex128([mail; 16]),
            time: DateTime::UNIX_EPOCH + TimeDelta::days(days),
        });
        Arc::new(entry)
    }

    #[test]
    fn the_table_knows_the_claims_of_the_last_weeks_and_does_not_grow() {
        let mut table = ReminderTable::default();
        for license in 0..20_000_u16 {
            table.take(&sent(license, 1, i64::from(license) / 10));
        }
        assert!(table.count < 2 * FEW, "{}", table.count);
        let found = |license: u16| {
            let entry = sent(license, 1, 0);
            let sent = entry.sent().unwrap();
            table.mail_of(&sent.licenses[0], sent.expires, sent.kind)
        };
        assert_eq!((found(0), found(19_999)), (None, Some(Hex128([1; 16]))));
        assert!(found(19_999 - 590).is_some());
    }

    #[test]
    fn what_another_log_lacks_is_claimed_again_by_the_same_mail() {
        let mut kept = ReminderTable::default();
        for entry in [sent(1, 1, 0), sent(2, 2, 0)] {
            kept.take(&entry);
        }
        let mut log = ReminderTable::default();
        log.take(&sent(2, 9, 1));
        let lost = kept.lost(&log);
        assert_eq!(lost.len(), 1);
        assert_eq!(lost[0].mail, Hex128([1; 16]));
        assert_eq!(kept.entries().len(), 2);
        assert_eq!(kept.since(), None);
    }
}
