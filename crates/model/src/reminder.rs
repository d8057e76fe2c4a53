//! Reminders of the end of a license: on which days one is due. Days are those of UTC, so no clock is set forward or back.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, NaiveDate, NaiveTime, TimeDelta, Utc};

use crate::checked_text::serde_as_text;

/// How late a reminder may be. What is later is not sent: a server that was away, or an import of old licenses, mails nobody.
pub const MOST_LATE: TimeDelta = TimeDelta::hours(48);

/// The most days before or after an end.
pub const MOST_DAYS: u16 = 366;

/// The most days of a rule on either side.
pub const MOST_REMINDERS: usize = 10;

/// Which reminder: so many days before the last day of a license, or after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReminderKind {
    /// Days before the last day. 0 is the last day itself.
    Before(u16),
    /// Days after the last day, at least 1.
    After(u16),
}

serde_as_text!(ReminderKind);

/// The text names no reminder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected \"before\" or \"after\", a blank and a number of days")]
pub struct NotAReminder;

/// The days on which reminders are due.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReminderRule(Vec<ReminderKind>);

/// The days are no rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected at most {MOST_REMINDERS} numbers of days up to {MOST_DAYS}, each once; after the end, at least 1")]
pub struct NotAReminderRule;

impl ReminderKind {
    /// When it is due: at the beginning of its day. `None` for a license without an end.
    pub fn moment(self, end: NaiveDate) -> Option<DateTime<Utc>> {
        let day = match self {
            Self::Before(days) => end.checked_sub_signed(TimeDelta::days(days.into())),
            Self::After(days) => end.checked_add_signed(TimeDelta::days(days.into())),
        };
        Some(day?.and_time(NaiveTime::MIN).and_utc())
    }

    /// The days.
    pub fn days(self) -> u16 {
        match self {
            Self::Before(days) | Self::After(days) => days,
        }
    }

    /// Whether it comes before the end.
    pub fn is_before(self) -> bool {
        matches!(self, Self::Before(_))
    }
}

impl fmt::Display for ReminderKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.is_before() { "before" } else { "after" };
        write!(f, "{word} {}", self.days())
    }
}

impl FromStr for ReminderKind {
    type Err = NotAReminder;

    fn from_str(text: &str) -> Result<Self, NotAReminder> {
        let (word, days) = text.split_once(' ').ok_or(NotAReminder)?;
        let number: u16 = days.parse().map_err(|_| NotAReminder)?;
        let is_plain = number.to_string() == days && number <= MOST_DAYS;
        match word {
            "before" if is_plain => Ok(Self::Before(number)),
            "after" if is_plain && number > 0 => Ok(Self::After(number)),
            _ => Err(NotAReminder),
        }
    }
}

impl ReminderRule {
    /// Reminders so many days before and after the last day.
    ///
    /// # Errors
    /// [`NotAReminderRule`].
    pub fn new(before: &[u16], after: &[u16]) -> Result<Self, NotAReminderRule> {
        let is_fine = |days: &[u16], least: u16| {
            let is_once = (1..days.len()).all(|at| !days[at..].contains(&days[at - 1]));
            days.len() <= MOST_REMINDERS && is_once && days.iter().all(|day| (least..=MOST_DAYS).contains(day))
        };
        if !is_fine(before, 0) || !is_fine(after, 1) {
            return Err(NotAReminderRule);
        }
        let before = before.iter().copied().map(ReminderKind::Before);
        let after = after.iter().copied().map(ReminderKind::After);
        Ok(Self(before.chain(after).collect()))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The reminder that is due at `now` of a license with this last day. Only the latest one counts, so that a server that was away
    /// sends one and not several; its moment lies after `since` and is at most [`MOST_LATE`] back. None says that a license will end
    /// that has ended.
    pub fn due(&self, end: NaiveDate, since: DateTime<Utc>, now: DateTime<Utc>) -> Option<ReminderKind> {
        let moments = self.0.iter().filter_map(|kind| Some((kind.moment(end)?, *kind)));
        let (moment, kind) = moments.filter(|(moment, _)| *moment <= now).max()?;
        let is_in_time = !kind.is_before() || now.date_naive() <= end;
        (moment > since && now - moment <= MOST_LATE && is_in_time).then_some(kind)
    }

    /// The reminders of a license with this last day, with their moments.
    pub fn moments(&self, end: NaiveDate) -> impl Iterator<Item = (DateTime<Utc>, ReminderKind)> {
        self.0.iter().filter_map(move |kind| Some((kind.moment(end)?, *kind)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn rule() -> ReminderRule {
        ReminderRule::new(&[30, 7, 1], &[3]).unwrap()
    }

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    #[test]
    fn a_reminder_is_due_from_the_beginning_of_its_day_for_two_days() {
        let end = "2027-03-31".parse().unwrap();
        let since = at("2026-01-01T00:00:00Z");
        for (now, expected) in [
            ("2027-02-28T23:59:59Z", None),
            ("2027-03-01T00:00:00Z", Some(ReminderKind::Before(30))),
            ("2027-03-03T00:00:00Z", Some(ReminderKind::Before(30))),
            ("2027-03-03T00:00:01Z", None),
            ("2027-03-24T00:00:00Z", Some(ReminderKind::Before(7))),
            ("2027-03-30T00:00:00Z", Some(ReminderKind::Before(1))),
            ("2027-03-31T23:59:59Z", Some(ReminderKind::Before(1))),
            // It has ended.
            ("2027-04-01T00:00:00Z", None),
            ("2027-04-03T00:00:00Z", Some(ReminderKind::After(3))),
            ("2027-04-05T00:00:01Z", None),
        ] {
            assert_eq!(rule().due(end, since, at(now)), expected, "{now}");
        }
        let switched_on = at("2027-03-24T00:00:00Z");
        assert_eq!(rule().due(end, switched_on, at("2027-03-24T12:00:00Z")), None);
        assert_eq!(rule().due(NaiveDate::MAX, since, at("2027-03-24T12:00:00Z")), None);
        // Of two that are late, the later one.
        let two = ReminderRule::new(&[2, 1], &[]).unwrap();
        assert_eq!(
            two.due(end, since, at("2027-03-30T08:00:00Z")),
            Some(ReminderKind::Before(1))
        );
    }

    #[test]
    fn a_rule_has_each_day_once_and_a_kind_has_one_text() {
        for (before, after) in [(&[1, 7, 1][..], &[][..]), (&[367], &[]), (&[], &[0]), (&[0; 11], &[])] {
            assert_eq!(
                ReminderRule::new(before, after),
                Err(NotAReminderRule),
                "{before:?} {after:?}"
            );
        }
        assert!(ReminderRule::new(&[0], &[1]).is_ok() && ReminderRule::default().is_empty());
        for text in ["before 30", "after 3", "before 0"] {
            assert_eq!(text.parse::<ReminderKind>().unwrap().to_string(), text);
        }
        for bad in ["", "before", "before 07", "after 0", "before 367", "on 3", "after +3"] {
            assert_eq!(bad.parse::<ReminderKind>(), Err(NotAReminder), "{bad}");
        }
    }

    proptest! {
        /// Whenever a server looks, and however often: with claims, none is sent twice, and none outside of its two days.
        #[test]
        fn no_reminder_comes_twice(
            looks in prop::collection::vec(0_i64..100 * 86_400, 1..200),
            since in 0_i64..100 * 86_400,
            before in prop::collection::btree_set(0_u16..60, 0..4),
            after in prop::collection::btree_set(1_u16..30, 0..4),
        ) {
            let begin = at("2027-01-01T00:00:00Z");
            let end = (begin + TimeDelta::days(60)).date_naive();
            let before: Vec<_> = before.into_iter().collect();
            let after: Vec<_> = after.into_iter().collect();
            let rule = ReminderRule::new(&before, &after).unwrap();
            let since = begin + TimeDelta::seconds(since);
            let mut looks = looks;
            looks.sort_unstable();
            let mut claimed = HashSet::new();
            let mut sent = Vec::new();
            for look in looks {
                let now = begin + TimeDelta::seconds(look);
                if let Some(kind) = rule.due(end, since, now) && claimed.insert(kind) {
                    let moment = kind.moment(end).unwrap();
                    prop_assert!(moment > since && moment <= now && now - moment <= MOST_LATE);
                    sent.push(moment);
                }
            }
            // An earlier one never follows a later one.
            prop_assert!(sent.windows(2).all(|two| two[0] < two[1]));
        }
    }
}
