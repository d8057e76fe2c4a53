//! What the ledger knows of a sale of a shop: its state, and the names by which deliveries call it.
//!
//! A shop delivers in any order and more than once. So a delivery is not applied as it comes: it is folded into the state of
//! its sale, and licenses follow that state. Nothing here is personal: names are HMACs of the shop's ids.

use chrono::{DateTime, Utc};

use crate::issued_license::Hex128;
use crate::license::LicenseStatus;
use crate::license_key::LicenseId;

/// The state of a sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaleState {
    /// The name that it was first called by.
    pub id: Hex128,
    /// Whether licenses were issued for it.
    pub is_issued: bool,
    /// Whether the money went back: active or revoked.
    pub status: LicenseStatus,
    /// The shop's time of what set that.
    pub status_at: Option<DateTime<Utc>>,
    /// What a dispute about the money does.
    pub dispute: CauseState,
    /// What the state of the subscription does.
    pub subscription: CauseState,
    /// The shop's time of the last change of what was sold.
    pub changed_at: Option<DateTime<Utc>>,
    /// The end that the last change named, if changes of this shop name one.
    pub changed_until: Option<DateTime<Utc>>,
    /// The latest end that was paid for.
    pub paid_until: Option<DateTime<Utc>>,
    /// The license of the key that the shop made for it, where licenses have the shop's keys.
    pub key: Option<LicenseId>,
}

/// What one cause does to the licenses of a sale, and since when by the shop's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CauseState {
    /// Active if the cause is over, or never was.
    pub status: LicenseStatus,
    /// The shop's time of what set it.
    pub at: Option<DateTime<Utc>>,
}

impl CauseState {
    /// Nothing is known of this cause.
    pub const NONE: Self = Self {
        status: LicenseStatus::Active,
        at: None,
    };

    /// The newer of two.
    fn newer(self, other: Self) -> Self {
        if other.at > self.at { other } else { self }
    }
}

/// What a delivery says of its sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaleEvent {
    /// Licenses are to be issued, or are paid for again.
    Paid,
    /// The same until an end, as for a subscription, which then goes on.
    PaidUntil(DateTime<Utc>),
    /// Something else is sold now, and the subscription goes on.
    Changed,
    /// The same with an end.
    ChangedUntil(DateTime<Utc>),
    /// The money went back, or came again.
    Status(LicenseStatus),
    /// The money is disputed, or the dispute ended.
    Disputed(LicenseStatus),
    /// The subscription is not paid or paused, or goes on.
    Subscription(LicenseStatus),
    /// The shop made this license's key for it. A second key of the same sale does not count.
    Key(LicenseId),
    /// Nothing but that the names belong together.
    Named,
}

impl SaleState {
    /// A sale of which nothing is known.
    pub fn new(id: Hex128) -> Self {
        Self {
            id,
            is_issued: false,
            status: LicenseStatus::Active,
            status_at: None,
            dispute: CauseState::NONE,
            subscription: CauseState::NONE,
            changed_at: None,
            changed_until: None,
            paid_until: None,
            key: None,
        }
    }

    /// The status of its licenses: the gravest that a cause gives.
    pub fn license_status(&self) -> LicenseStatus {
        self.status.graver(self.dispute.status).graver(self.subscription.status)
    }

    /// The end that the shop named. What the shop says of a subscription itself precedes what was paid.
    pub fn until(&self) -> Option<DateTime<Utc>> {
        self.changed_until.or(self.paid_until)
    }

    /// The state after an event of the time `at` by the shop's clock, and whether the event counts: one that is older than
    /// what is known of its kind does not. A payment always counts.
    #[must_use]
    pub fn after(self, event: SaleEvent, at: Option<DateTime<Utc>>) -> (Self, bool) {
        let mut next = self;
        let counts = match event {
            SaleEvent::Named => true,
            SaleEvent::Key(license) => *next.key.get_or_insert(license) == license,
            SaleEvent::Paid => {
                next.is_issued = true;
                true
            }
            SaleEvent::PaidUntil(until) => {
                next.is_issued = true;
                next.paid_until = next.paid_until.max(Some(until));
                // Without a time, nothing says that it was paid after the suspension.
                if at.is_some() {
                    next.goes_on(LicenseStatus::Active, at);
                }
                true
            }
            SaleEvent::Changed => next.changes(None, at),
            SaleEvent::ChangedUntil(until) => next.changes(Some(until), at),
            SaleEvent::Status(status) => {
                let counts = !is_older(self.status_at, at);
                if counts {
                    next.status = status;
                    next.status_at = at.or(self.status_at);
                }
                counts
            }
            SaleEvent::Disputed(status) => set(&mut next.dispute, status, at),
            SaleEvent::Subscription(status) => next.goes_on(status, at),
        };
        (next, counts)
    }

    fn changes(&mut self, until: Option<DateTime<Utc>>, at: Option<DateTime<Utc>>) -> bool {
        let counts = !is_older(self.changed_at, at);
        if counts {
            self.changed_at = at.or(self.changed_at);
            self.changed_until = until.or(self.changed_until);
        }
        // Only a subscription that goes on changes.
        self.goes_on(LicenseStatus::Active, at);
        counts
    }

    /// Notes whether the subscription goes on. Of two deliveries of the same second, that it goes on counts: a renewal of
    /// `WooCommerce` suspends the subscription for less than a second.
    fn goes_on(&mut self, status: LicenseStatus, at: Option<DateTime<Utc>>) -> bool {
        let is_overruled = at.is_some() && at == self.subscription.at && status != LicenseStatus::Active;
        !is_overruled && set(&mut self.subscription, status, at)
    }

    /// Events that have this state as their result, in any order.
    pub fn events(self) -> Vec<(SaleEvent, Option<DateTime<Utc>>)> {
        let mut events = vec![(SaleEvent::Named, None)];
        if self.is_issued {
            events.push((SaleEvent::Paid, None));
        }
        if let Some(until) = self.paid_until {
            events.push((SaleEvent::PaidUntil(until), None));
        }
        if let Some(license) = self.key {
            events.push((SaleEvent::Key(license), None));
        }
        if self.changed_at.is_some() || self.changed_until.is_some() {
            let changed = self.changed_until.map_or(SaleEvent::Changed, SaleEvent::ChangedUntil);
            events.push((changed, self.changed_at));
        }
        if self.status_at.is_some() {
            events.push((SaleEvent::Status(self.status), self.status_at));
        }
        for (cause, event) in [
            (self.dispute, SaleEvent::Disputed as fn(LicenseStatus) -> SaleEvent),
            (self.subscription, SaleEvent::Subscription),
        ] {
            if cause.at.is_some() {
                events.push((event(cause.status), cause.at));
            }
        }
        events
    }

    /// Merges two records of the same sale into one: the one with licenses, or else this one.
    #[must_use]
    pub fn united(self, other: Self) -> Self {
        let newer = if other.status_at > self.status_at { other } else { self };
        let changed = if other.changed_at > self.changed_at {
            other
        } else {
            self
        };
        Self {
            id: if other.is_issued && !self.is_issued {
                other.id
            } else {
                self.id
            },
            is_issued: self.is_issued || other.is_issued,
            status: newer.status,
            status_at: newer.status_at,
            dispute: self.dispute.newer(other.dispute),
            subscription: self.subscription.newer(other.subscription),
            changed_at: changed.changed_at,
            changed_until: changed.changed_until.or(self.changed_until).or(other.changed_until),
            paid_until: self.paid_until.max(other.paid_until),
            key: self.key.or(other.key),
        }
    }
}

fn is_older(known: Option<DateTime<Utc>>, at: Option<DateTime<Utc>>) -> bool {
    matches!((known, at), (Some(known), Some(at)) if at < known)
}

/// Sets what a cause does, unless something newer is known.
fn set(cause: &mut CauseState, status: LicenseStatus, at: Option<DateTime<Utc>>) -> bool {
    let counts = !is_older(cause.at, at);
    if counts {
        *cause = CauseState {
            status,
            at: at.or(cause.at),
        };
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Option<DateTime<Utc>> {
        DateTime::from_timestamp(second, 0)
    }

    fn name(number: u8) -> Hex128 {
        Hex128([number; 16])
    }

    #[test]
    fn whatever_the_order_of_deliveries_the_state_is_the_same() {
        use SaleEvent::{Changed, Disputed, Key, Paid, PaidUntil, Status, Subscription};
        let license = LicenseId::from_bytes([7; 32]);
        let events = [
            (Paid, 1),
            (Changed, 2),
            (Status(LicenseStatus::Suspended), 3),
            (Status(LicenseStatus::Active), 5),
            (Status(LicenseStatus::Revoked), 4),
            (Disputed(LicenseStatus::Suspended), 6),
            (PaidUntil(at(900).unwrap()), 8),
            (Subscription(LicenseStatus::Suspended), 7),
            (Key(license), 3),
        ];
        let expected = SaleState {
            id: name(1),
            is_issued: true,
            status: LicenseStatus::Active,
            status_at: at(5),
            dispute: CauseState {
                status: LicenseStatus::Suspended,
                at: at(6),
            },
            subscription: CauseState {
                status: LicenseStatus::Active,
                at: at(8),
            },
            changed_at: at(2),
            changed_until: None,
            paid_until: at(900),
            key: Some(license),
        };
        // Each rotation, forwards and backwards, with every event twice.
        for start in 0..events.len() {
            for step in [1, events.len() - 1] {
                let order = (0..2 * events.len()).map(|number| events[(start + number * step) % events.len()]);
                let last = order.fold(SaleState::new(name(1)), |state, (event, second)| {
                    state.after(event, at(second)).0
                });
                assert_eq!(last, expected, "{start} {step}");
            }
        }
    }

    #[test]
    fn each_cause_of_a_suspension_ends_by_itself_and_the_events_of_a_state_make_it_again() {
        use SaleEvent::{ChangedUntil, Disputed, Key, PaidUntil, Status, Subscription};
        let active = LicenseStatus::Active;
        let suspended = LicenseStatus::Suspended;
        let end = |second| at(second).unwrap();
        let mut state = SaleState::new(name(1));
        for (event, second, expected) in [
            (Key(LicenseId::from_bytes([7; 32])), 1, active),
            (PaidUntil(end(900)), 1, active),
            (Subscription(suspended), 3, suspended),
            // It was paid before it was suspended.
            (PaidUntil(end(950)), 2, suspended),
            (PaidUntil(end(940)), 4, active),
            (Disputed(suspended), 5, suspended),
            (ChangedUntil(end(700)), 6, suspended),
            (Disputed(active), 7, active),
            // In the same second, that it goes on counts.
            (Subscription(suspended), 6, active),
            (Status(LicenseStatus::Revoked), 8, LicenseStatus::Revoked),
            (Disputed(active), 9, LicenseStatus::Revoked),
        ] {
            state = state.after(event, at(second)).0;
            assert_eq!(state.license_status(), expected, "{event:?} {second}");
            let told = state.events().into_iter();
            let again = told.fold(SaleState::new(name(1)), |state, (event, at)| state.after(event, at).0);
            assert_eq!(again, state, "{event:?} {second}");
        }
        assert_eq!((state.paid_until, state.until()), (at(950), at(700)));
    }

    #[test]
    fn the_first_key_of_a_sale_is_its_key() {
        let [first, second] = [7, 8].map(|byte| LicenseId::from_bytes([byte; 32]));
        let (state, counts) = SaleState::new(name(1)).after(SaleEvent::Key(first), None);
        assert!(counts);
        assert_eq!(state.after(SaleEvent::Key(first), at(1)), (state, true));
        assert_eq!(state.after(SaleEvent::Key(second), at(2)), (state, false));
    }

    #[test]
    fn what_is_older_does_not_count_and_what_has_no_time_does() {
        let (state, _) = SaleState::new(name(1)).after(SaleEvent::Status(LicenseStatus::Revoked), at(9));
        assert_eq!(
            state.after(SaleEvent::Status(LicenseStatus::Active), at(8)),
            (state, false)
        );
        let (after, counts) = state.after(SaleEvent::Status(LicenseStatus::Active), None);
        assert_eq!(
            (after.status, after.status_at, counts),
            (LicenseStatus::Active, at(9), true)
        );
        let (after, counts) = state.after(SaleEvent::Paid, at(1));
        assert_eq!(
            (after.is_issued, after.status, counts),
            (true, LicenseStatus::Revoked, true)
        );
    }

    #[test]
    fn of_two_that_are_one_the_licenses_and_the_newest_status_stay() {
        let (refunded, _) = SaleState::new(name(1)).after(SaleEvent::Status(LicenseStatus::Revoked), at(9));
        let (sold, _) = SaleState::new(name(2)).after(SaleEvent::Paid, at(3));
        let one = refunded.united(sold);
        assert_eq!(
            (one.id, one.is_issued, one.status),
            (name(2), true, LicenseStatus::Revoked)
        );
        assert_eq!(one, sold.united(refunded));
    }
}
