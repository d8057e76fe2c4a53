//! Periods of the calendar, and the day that means never.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Datelike as _, Days, Months, NaiveDate, NaiveTime, Utc};
use serde::{Deserialize as _, Deserializer};

/// The last day of a license that never ends, and the latest of all: later years have five digits.
pub const NEVER: NaiveDate = match NaiveDate::from_ymd_opt(9999, 12, 31) {
    Some(day) => day,
    None => NaiveDate::MAX,
};

/// The day as the last one of a license, if its year is from 1 to 9999. Other years have another number of digits, and days
/// near the ends of the library's calendar cannot be calculated with.
pub fn last_day(day: NaiveDate) -> Option<NaiveDate> {
    (1..=9999).contains(&day.year()).then_some(day)
}

/// Reads a last day of a document.
///
/// # Errors
/// It is not a day, or its year is out of range.
pub fn deserialize_last_day<'de, D: Deserializer<'de>>(deserializer: D) -> Result<NaiveDate, D::Error> {
    let day = NaiveDate::deserialize(deserializer)?;
    last_day(day).ok_or_else(|| serde::de::Error::custom("the year is not from 1 to 9999"))
}

/// The midnight (UTC) that so many days after `day` begin with; that of `day` itself where the calendar ends.
pub(crate) fn midnight_after(day: NaiveDate, days: u64) -> DateTime<Utc> {
    let midnight = day.checked_add_days(Days::new(days)).unwrap_or(day);
    midnight.and_time(NaiveTime::MIN).and_utc()
}

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
        day.and_then(last_day).unwrap_or(NEVER)
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
    fn a_last_day_has_a_year_of_four_digits() {
        let day = |year, month, day| NaiveDate::from_ymd_opt(year, month, day).unwrap();
        for good in [day(1, 1, 1), day(2027, 12, 31), NEVER] {
            assert_eq!(last_day(good), Some(good));
        }
        for bad in [day(0, 12, 31), day(10_000, 1, 1), NaiveDate::MIN, NaiveDate::MAX] {
            assert_eq!(last_day(bad), None, "{bad}");
            let text = serde_json::to_string(&bad).unwrap();
            let mut json = serde_json::Deserializer::from_str(&text);
            assert!(deserialize_last_day(&mut json).is_err(), "{text}");
        }
    }

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
