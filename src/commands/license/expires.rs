//! A license's last day as an argument: a date, a period such as `+1y`, or `never`.

use std::str::FromStr;

use chrono::{Days, Months, NaiveDate};

/// The last day of a license that never ends, and the latest of all: later years have five digits.
pub(super) const NEVER: NaiveDate = match NaiveDate::from_ymd_opt(9999, 12, 31) {
    Some(day) => day,
    None => NaiveDate::MAX,
};

/// When a license ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expires {
    /// On this day.
    On(NaiveDate),
    /// After this period.
    After(Period),
}

/// A period of the calendar: `30d`, `2w`, `6m`, `1y`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Period {
    /// Days.
    Days(u64),
    /// Months; a year has twelve.
    Months(u32),
}

impl Expires {
    /// The day, with a period counted from `start`.
    pub(super) fn from(self, start: NaiveDate) -> NaiveDate {
        match self {
            Self::On(day) => day.min(NEVER),
            Self::After(period) => period.after(start),
        }
    }
}

impl Period {
    /// The day after this period from `start`.
    pub(super) fn after(self, start: NaiveDate) -> NaiveDate {
        let day = match self {
            Self::Days(days) => start.checked_add_days(Days::new(days)),
            Self::Months(months) => start.checked_add_months(Months::new(months)),
        };
        day.map_or(NEVER, |day| day.min(NEVER))
    }
}

impl FromStr for Expires {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let expected = "expected a date such as 2027-12-31, a period such as +1y, +6m, +2w or +30d, or never";
        match text.strip_prefix('+') {
            Some(period) => period.parse().map(Self::After).map_err(|_| expected),
            None if text == "never" => Ok(Self::On(NEVER)),
            None => text.parse().map(Self::On).map_err(|_| expected),
        }
    }
}

impl FromStr for Period {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let expected = "expected a period such as 30d, 2w, 6m or 1y";
        let unit = text.chars().next_back().ok_or(expected)?;
        let number = &text[..text.len() - unit.len_utf8()];
        // Digits only: FromStr would also accept a sign.
        let number: u32 = number
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            .then(|| number.parse().ok())
            .flatten()
            .ok_or(expected)?;
        match unit {
            'd' => Ok(Self::Days(number.into())),
            'w' => Ok(Self::Days(u64::from(number) * 7)),
            'm' => Ok(Self::Months(number)),
            'y' => Ok(Self::Months(number.saturating_mul(12))),
            _ => Err(expected),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(text: &str) -> NaiveDate {
        text.parse().unwrap()
    }

    #[test]
    fn a_last_day_is_a_date_a_period_or_never() {
        let from = |text: &str| {
            text.parse::<Expires>()
                .map(|expires| expires.from(day("2028-02-29")).to_string())
        };
        for (text, expected) in [
            ("2027-12-31", "2027-12-31"),
            ("+1y", "2029-02-28"),
            ("+6m", "2028-08-29"),
            ("+2w", "2028-03-14"),
            ("+30d", "2028-03-30"),
            ("never", "9999-12-31"),
            ("+9000y", "9999-12-31"),
            ("+4294967295y", "9999-12-31"),
        ] {
            assert_eq!(from(text).as_deref(), Ok(expected), "{text}");
        }
        for text in [
            "",
            "+",
            "+y",
            "1y",
            "+1",
            "+-1d",
            "++1d",
            "+1h",
            "Never",
            "2027-02-29",
            "+1é",
        ] {
            assert!(from(text).is_err(), "{text}");
        }
    }
}
