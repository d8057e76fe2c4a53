//! Reminders of the end of licenses: a thread looks for those that are due, and has each mailed once over all nodes.
//!
//! The mail is on disk first, then a line of the ledger claims it, and only then it is sent: a server that is killed in between sends it
//! after its start, or not at all if another node claimed it meanwhile. The sending thread asks again whether it is still due.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use chrono::{DateTime, NaiveDate, Utc};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use crate::serve::background;
use crate::serve::state::Service;
use countersign_ledger::{
    FoundTexts, KnownFacts, Ledger, LedgerLicense, MOST_REMINDED, ReminderClaim, ReminderSwitch, StoreError,
};
use countersign_mail::address::MailAddress;
use countersign_mail::queue::MailQueue;
use countersign_mail::queued_mail::{MailQueueError, QueuedMail, QueuedReminder};
use countersign_model::customer::{CustomerRow, LicenseMails, mails_name};
use countersign_model::issued_license::{Hex128, IssuedLicense};
use countersign_model::license::{License, LicenseStatus};
use countersign_model::license_key::LicenseId;
use countersign_model::offer::SalesMode;
use countersign_model::reminder::{ReminderKind, ReminderRule};
use countersign_registry::offers::Offers;

/// The time between two looks. A reminder is due for two days.
const LOOK_EVERY: Duration = Duration::from_secs(600);

/// The same where the store or the queue failed.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// How long a license to whose customer nothing can be sent is left alone: to look for addresses costs a store with many customers.
const LEFT_ALONE: Duration = Duration::from_secs(6 * 3_600);

/// Licenses of the ledger that are looked at at once.
const PAGE: usize = 1_000;

/// Customers whose addresses are looked for at once.
const CUSTOMERS: usize = 5_000;

/// A license whose customer is to be reminded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DueReminder {
    pub(crate) license: LicenseId,
    pub(crate) expires: NaiveDate,
    pub(crate) kind: ReminderKind,
}

/// What one mail reminds of. Licenses of one customer that end on one day are in one mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReminderGroup {
    /// The customer's number.
    pub(crate) to: Hex128,
    pub(crate) expires: NaiveDate,
    pub(crate) kind: ReminderKind,
}

/// Whether reminders of a license are sent at all: it is active, and ends as it says.
pub(crate) fn ends(license: &License) -> bool {
    license.status == LicenseStatus::Active && !license.renews()
}

/// Whether a license is one of a test mode. `sale` finds what is known of a sale.
pub(crate) fn is_test(issued: &IssuedLicense, offers: &Offers, sale: impl Fn(Hex128) -> Option<KnownFacts>) -> bool {
    let sold = issued.license.details.remarks().sold.as_deref();
    let mode = sold.and_then(|sold| {
        let facts = sale(sold.sale)?;
        offers.mode_of(&issued.origin.scope.shop()?, &facts)
    });
    mode == Some(SalesMode::Test)
}

/// The numbers of those who get the reminders: whom the texts name, or else the customers. A license without one is left out.
pub(crate) fn groups<'l>(
    due: impl IntoIterator<Item = (DueReminder, &'l License)>,
    texts: &FoundTexts,
) -> BTreeMap<ReminderGroup, Vec<LicenseId>> {
    let named: BTreeMap<Hex128, &LicenseMails> = texts
        .iter()
        .filter_map(|(name, stored)| Some((*name, stored.customer()?.mails.as_deref()?)))
        .collect();
    let mut groups: BTreeMap<ReminderGroup, Vec<LicenseId>> = BTreeMap::new();
    for (due, license) in due {
        let of_license = named.get(&mails_name(&due.license));
        let to = of_license.and_then(|mails| mails.reminders_to);
        let Some(to) = to.or(license.details.remarks().holder) else {
            continue;
        };
        let DueReminder {
            license, expires, kind, ..
        } = due;
        groups
            .entry(ReminderGroup { to, expires, kind })
            .or_default()
            .push(license);
    }
    groups
}

/// The addresses of customers who can and want to be reminded.
pub(crate) fn addresses(rows: &[CustomerRow]) -> BTreeMap<Hex128, MailAddress> {
    let mut found = BTreeMap::new();
    for row in rows {
        let address = row.address.as_deref().and_then(|address| address.parse().ok());
        if let Some(address) = address {
            found.entry(row.number).or_insert(address);
        }
    }
    for row in rows.iter().filter(|row| row.unsubscribed) {
        found.remove(&row.number);
    }
    found
}

/// The running thread. It ends when this is dropped.
pub(super) struct Reminders(#[expect(dead_code, reason = "the thread sees that it is dropped")] Sender<()>);

/// Why a look ended early.
#[derive(Debug, thiserror::Error)]
enum LookError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Queue(#[from] MailQueueError),
    #[error("the system has no random numbers")]
    Random,
}

struct ReminderThread {
    service: Arc<Service>,
    queue: Option<Arc<MailQueue>>,
    rule: ReminderRule,
    runtime: tokio::runtime::Runtime,
    stop: Receiver<()>,
    /// Nothing can be sent to the customers of these licenses.
    left_alone: HashSet<DueReminder>,
    left_since: Instant,
    /// What is wrong, once it was logged.
    logged: Option<String>,
}

impl Reminders {
    /// Starts the thread. Without days, or without a queue of mails, it notes that no reminders are sent, and ends.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(super) fn start(service: Arc<Service>, rule: ReminderRule) -> io::Result<Self> {
        let (stop, stopped) = bounded(0);
        let work = ReminderThread {
            queue: service.mail.get().cloned(),
            service,
            rule,
            runtime: tokio::runtime::Builder::new_current_thread().build()?,
            stop: stopped,
            left_alone: HashSet::new(),
            left_since: Instant::now(),
            logged: None,
        };
        thread::Builder::new()
            .name("reminders".to_owned())
            .spawn(move || work.run())?;
        Ok(Self(stop))
    }
}

impl ReminderThread {
    fn run(mut self) {
        background::lower_priority();
        let Some(queue) = self.queue.take().filter(|_| !self.rule.is_empty()) else {
            return self.switch_off();
        };
        loop {
            let looked = self.look(&queue, Utc::now());
            let wait = if looked.is_ok() { LOOK_EVERY } else { AGAIN_AFTER };
            self.log(looked.err().map(|error| error.to_string()));
            if self.is_stopped_within(wait) {
                return;
            }
        }
    }

    /// Logs what is wrong, once.
    fn log(&mut self, wrong: Option<String>) {
        if let Some(reason) = wrong.as_ref().filter(|_| self.logged != wrong) {
            tracing::warn!(reason, "no reminders can be sent now");
        }
        self.logged = wrong;
    }

    fn is_stopped_within(&self, wait: Duration) -> bool {
        !matches!(self.stop.recv_timeout(wait), Err(RecvTimeoutError::Timeout))
    }

    fn bindings(&self) -> &Ledger {
        self.service.gate.bindings()
    }

    fn switch_off(&self) {
        while self.bindings().reminders_since().is_some() {
            let switch = ReminderSwitch {
                on: false,
                now: Utc::now(),
            };
            let switched = self.runtime.block_on(self.bindings().switch_reminders(switch));
            if switched.is_ok() || self.is_stopped_within(AGAIN_AFTER) {
                return;
            }
        }
    }

    /// Looks for reminders that are due, and has them mailed.
    fn look(&mut self, queue: &MailQueue, now: DateTime<Utc>) -> Result<(), LookError> {
        let snapshot = self.service.gate.snapshot();
        if self.service.unsubscribe_link(&snapshot, Hex128([0; 16])).is_none() {
            self.log(Some("there is no public_url, or no keys/downloads.key".to_owned()));
            return Ok(());
        }
        let switch = ReminderSwitch { on: true, now };
        self.runtime.block_on(self.bindings().switch_reminders(switch))?;
        let Some(since) = self.bindings().reminders_since() else {
            return Ok(());
        };
        if self.left_since.elapsed() > LEFT_ALONE {
            self.left_alone.clear();
            self.left_since = Instant::now();
        }
        let mut groups: BTreeMap<ReminderGroup, Vec<LicenseId>> = BTreeMap::new();
        let mut after = None;
        loop {
            let is_due = |license: &License| ends(license) && self.rule.due(license.expires, since, now).is_some();
            let page = self.bindings().issued_after(after.as_ref(), PAGE, &is_due);
            let sale = |sale| Some(self.bindings().sale(sale)?.1);
            let live = page
                .iter()
                .filter(|issued| !is_test(issued, snapshot.registry.offers(), sale));
            let due: Vec<_> = live
                .filter_map(|issued| Some((self.due(issued, since, now)?, &issued.license)))
                .collect();
            let names = due.iter().map(|(due, _)| mails_name(&due.license)).collect();
            let texts = match due.is_empty() {
                true => FoundTexts::new(),
                false => self.runtime.block_on(self.bindings().texts(names))?,
            };
            for (group, licenses) in self::groups(due, &texts) {
                groups.entry(group).or_default().extend(licenses);
            }
            match page.last() {
                Some(issued) if page.len() == PAGE => after = Some(issued.license.id),
                _ => break,
            }
        }
        let groups: Vec<_> = groups.into_iter().collect();
        for part in groups.chunks(CUSTOMERS) {
            self.mail(queue, part, now)?;
        }
        Ok(())
    }

    /// The reminder of a license that is due and that no mail was claimed for.
    fn due(&self, issued: &LedgerLicense, since: DateTime<Utc>, now: DateTime<Utc>) -> Option<DueReminder> {
        let License { id, expires, .. } = issued.license;
        // Who imports old licenses mails nobody.
        let kind = self.rule.due(expires, since.max(issued.origin.issued), now)?;
        let due = DueReminder {
            license: id,
            expires,
            kind,
        };
        let is_claimed = self.bindings().reminder_of(&id, expires, kind).is_some();
        (!is_claimed && !self.left_alone.contains(&due)).then_some(due)
    }

    /// Has these reminders mailed to those who have an address and want them.
    fn mail(
        &mut self,
        queue: &MailQueue,
        groups: &[(ReminderGroup, Vec<LicenseId>)],
        now: DateTime<Utc>,
    ) -> Result<(), LookError> {
        let numbers = groups.iter().map(|(group, _)| group.to).collect();
        let found = self.bindings().customers(numbers);
        let addresses = addresses(&self.runtime.block_on(found)?);
        for (group, licenses) in groups {
            match addresses
                .get(&group.to)
                .filter(|_| !self.bindings().is_erased(group.to))
            {
                Some(address) => {
                    for licenses in licenses.chunks(MOST_REMINDED) {
                        self.claim(queue, address, *group, licenses, now)?;
                    }
                }
                None => {
                    let ReminderGroup { expires, kind, .. } = *group;
                    self.left_alone.extend(licenses.iter().map(|license| DueReminder {
                        license: *license,
                        expires,
                        kind,
                    }));
                }
            }
            if self.is_stopped_within(Duration::ZERO) {
                break;
            }
        }
        Ok(())
    }

    /// Puts a mail into the queue, and claims it.
    fn claim(
        &self,
        queue: &MailQueue,
        address: &MailAddress,
        group: ReminderGroup,
        licenses: &[LicenseId],
        now: DateTime<Utc>,
    ) -> Result<(), LookError> {
        let ReminderGroup { to, expires, kind } = group;
        let mut number = [0; 16];
        getrandom::fill(&mut number).map_err(|_| LookError::Random)?;
        let number = Hex128(number);
        let reminder = QueuedReminder {
            expires,
            kind,
            number,
            to,
        };
        let mail = QueuedMail::reminder(address.clone(), licenses.to_vec(), reminder)?;
        let id = mail.id();
        queue.put(mail, now)?;
        let claim = ReminderClaim {
            expires,
            kind,
            licenses: licenses.to_vec(),
            mail: number,
            now,
        };
        // Where it fails, the mail waits, and is dropped if no line turns out to have it.
        let claimed = self.runtime.block_on(self.bindings().claim_reminder(claim))?;
        match claimed {
            // Another node was faster.
            0 => queue.forget(id),
            licenses => tracing::info!(mail = %id, licenses, kind = %kind, "will mail a reminder"),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_model::customer::NewCustomer;
    use countersign_model::issued_license::ChangeScope;
    use countersign_model::license::{Details, LicenseDetails, SiteLimit};
    use countersign_model::remarks::Remarks;
    use countersign_model::stored_text::StoredText;

    fn license(number: u8, holder: Option<u8>) -> License {
        let remarks = Remarks {
            holder: holder.map(|number| Hex128([number; 16])),
            ..Remarks::NONE
        };
        License {
            id: LicenseId::from_bytes([number; 32]),
            status: LicenseStatus::Active,
            expires: "2027-01-31".parse().unwrap(),
            modules: Arc::default(),
            sites: SiteLimit::DEFAULT,
            grace_period_hours: None,
            details: Details::from(LicenseDetails {
                remarks: remarks.held(),
                ..LicenseDetails::default()
            }),
            is_declared: false,
        }
    }

    #[test]
    fn the_licenses_of_one_recipient_that_end_on_one_day_are_in_one_mail() {
        let licenses = [
            license(1, Some(10)),
            license(2, Some(10)),
            license(3, Some(11)),
            license(4, None),
            license(5, None),
        ];
        let due = licenses.iter().map(|license| {
            let due = DueReminder {
                license: license.id,
                expires: license.expires,
                kind: ReminderKind::Before(7),
            };
            (due, license)
        });
        let texts = [3, 4].map(|number| {
            let mails = LicenseMails {
                reminders_to: Some(Hex128([10; 16])),
                ..LicenseMails::default()
            };
            let id = LicenseId::from_bytes([number; 32]);
            let new = NewCustomer::of_license(&id, None, &ChangeScope::operator(), mails);
            (new.names[0], StoredText::Customer(Box::new(new.row)))
        });
        let groups = groups(due, &texts.to_vec());
        assert_eq!(groups.len(), 1);
        let (group, of_group) = groups.first_key_value().unwrap();
        assert_eq!(group.to, Hex128([10; 16]));
        let expected: Vec<_> = (1..=4).map(|number| LicenseId::from_bytes([number; 32])).collect();
        assert_eq!(*of_group, expected);
    }

    #[test]
    fn nobody_is_reminded_who_has_no_address_or_said_no() {
        let row = |number: u8, address: Option<&str>| CustomerRow {
            address: address.map(Box::from),
            ..NewCustomer::unsubscribed(Hex128([number; 16])).row
        };
        let asked = |number: u8, address| CustomerRow {
            since: None,
            unsubscribed: false,
            ..row(number, address)
        };
        let rows = [
            asked(1, Some("anna@buyer.example")),
            asked(2, Some("bert@buyer.example")),
            row(2, None),
            asked(3, None),
            asked(4, Some("no address")),
        ];
        let found = addresses(&rows);
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), [Hex128([1; 16])]);
    }

    #[test]
    fn what_renews_or_is_suspended_has_no_end() {
        let mut renewed = license(1, Some(1));
        renewed.details.renewal_days = Some(3);
        let suspended = License {
            status: LicenseStatus::Suspended,
            ..license(2, Some(1))
        };
        assert!(ends(&license(3, None)) && !ends(&renewed) && !ends(&suspended));
    }
}
