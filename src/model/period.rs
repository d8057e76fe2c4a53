//! Periods of the calendar, and the day that stands for never.

use std::fmt;
use std::str::FromStr;

use chrono::{Days, Months, NaiveDate};

/// The last day of a license that never ends, and the latest of all: later years have five digits.
pub const NEVER: NaiveDate = match NaiveDate::from_ymd_opt(9999, 12, 31) {
    Some(day) => day,
    None => NaiveDate::MAX,
};

/// A period of the calendar: `30d`, `2w`, `6m`, `1y`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// Days.
    Days(u64),
    /// Months; a year has twelve.
    Months(u32),
}

impl Period {
    /// Whether it has no days.
    pub fn is_empty(self) -> bool {
        matches!(self, Self::Days(0) | Self::Months(0))
    }

    /// The day after this period from `start`.
    pub fn after(self, start: NaiveDate) -> NaiveDate {
        let day = match self {
            Self::Days(days) => start.checked_add_days(Days::new(days)),
            Self::Months(months) => start.checked_add_months(Months::new(months)),
        };
        day.map_or(NEVER, |day| day.min(NEVER))
    }
}

/// As it can be parsed again: `14d`, `6m`.
impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Days(days) => format!("{days}d"),
            Self::Months(months) if *months > 0 && months % 12 == 0 => format!("{}y", months / 12),
            Self::Months(months) => format!("{months}m"),
        };
        f.pad(&text)
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

    #[test]
    fn a_period_is_a_number_and_a_unit() {
        let start = NaiveDate::from_ymd_opt(2028, 2, 29).unwrap();
        let after = |text: &str| text.parse::<Period>().map(|period| period.after(start).to_string());
        assert_eq!(after("1y").as_deref(), Ok("2029-02-28"));
        assert_eq!(after("2w").as_deref(), Ok("2028-03-14"));
        for text in ["", "y", "+1y", "1", "1h", "1.5y"] {
            assert!(after(text).is_err(), "{text}");
        }
    }
}
