//! A license's last day as an argument: a date, a period such as `+1y`, or `never`.

use std::fmt;
use std::str::FromStr;

use chrono::NaiveDate;

use countersign_model::period::{self, NEVER, Period};

/// When a license ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expires {
    /// On this day.
    On(NaiveDate),
    /// After this period.
    After(Period),
}

impl Expires {
    /// The day, with a period counted from `start`.
    pub(super) fn from(self, start: NaiveDate) -> NaiveDate {
        match self {
            Self::On(day) => day,
            Self::After(period) => period.after(start),
        }
    }
}

/// As it was typed, but for spelling.
impl fmt::Display for Expires {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::On(day) => day.fmt(f),
            Self::After(period) => write!(f, "+{period}"),
        }
    }
}

impl FromStr for Expires {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let expected = "expected a date such as 2027-12-31, a period such as +1y, +6m, +2w or +30d, or never";
        match text.strip_prefix('+') {
            Some(period) => period.parse().map(Self::After).map_err(|_| expected),
            None if text == "never" => Ok(Self::On(NEVER)),
            None => {
                let day = text.parse().ok().and_then(period::last_day);
                day.map(Self::On).ok_or(expected)
            }
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
            "0000-12-31",
            "-0001-12-31",
            "+1é",
        ] {
            assert!(from(text).is_err(), "{text}");
        }
    }
}
