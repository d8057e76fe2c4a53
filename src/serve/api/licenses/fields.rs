//! Fields of a license in requests: each is checked when it is read.

use std::num::NonZeroU32;

use chrono::NaiveDate;
use serde::{Deserialize, Deserializer, Serialize};

use countersign_model::license::{MAX_GRACE_PERIOD_HOURS, SiteLimit};
use countersign_model::period::{self, NEVER};

/// What a field says that has another value.
pub(super) const EXPECTED: [&str; 2] = [DAY, HOURS];

const DAY: &str = "a date such as \"2027-12-31\", or \"never\"";

const HOURS: &str = "hours from 0 to 8760";

/// The last day of a license: a date, or `"never"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LastDay(pub NaiveDate);

impl<'de> Deserialize<'de> for LastDay {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "never" {
            return Ok(Self(NEVER));
        }
        // The library also takes other ways to write a date.
        let day = NaiveDate::parse_from_str(&text, "%Y-%m-%d").ok();
        let day = day.filter(|day| day.to_string() == text).and_then(period::last_day);
        day.map(Self).ok_or_else(|| serde::de::Error::custom(DAY))
    }
}

impl Serialize for LastDay {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// How many hours a site may go on without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct GraceHours(pub u16);

impl<'de> Deserialize<'de> for GraceHours {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let hours = u16::deserialize(deserializer)?;
        let hours = Some(hours).filter(|hours| *hours <= MAX_GRACE_PERIOD_HOURS);
        hours.map(Self).ok_or_else(|| serde::de::Error::custom(HOURS))
    }
}

/// How many sites may use a license: a number from 1, or `"unlimited"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum SiteCount {
    Number(NonZeroU32),
    Word(Unlimited),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Unlimited {
    Unlimited,
}

impl From<SiteCount> for SiteLimit {
    fn from(count: SiteCount) -> Self {
        match count {
            SiteCount::Number(number) => Self::Limited(number),
            SiteCount::Word(Unlimited::Unlimited) => Self::Unlimited,
        }
    }
}

impl From<SiteLimit> for SiteCount {
    fn from(limit: SiteLimit) -> Self {
        match limit {
            SiteLimit::Limited(number) => Self::Number(number),
            SiteLimit::Unlimited => Self::Word(Unlimited::Unlimited),
        }
    }
}

/// A field that may be absent, but not `null`.
pub(super) fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_and_a_number_of_sites_have_one_spelling() {
        let day = |text: &str| serde_json::from_str::<LastDay>(text).map(|day| day.0.to_string()).ok();
        assert_eq!(day("\"2027-12-31\"").as_deref(), Some("2027-12-31"));
        assert_eq!(day("\"never\"").as_deref(), Some("9999-12-31"));
        for bad in [
            "\"2027-2-3\"",
            "\"2027-02-30\"",
            "\"+2027-02-03\"",
            "\"+10000-01-01\"",
            "\"+262142-12-31\"",
            "\"0000-12-31\"",
            "\"-0001-01-01\"",
            "\"-262143-01-01\"",
            "20270203",
            "\"\"",
            "null",
        ] {
            assert_eq!(day(bad), None, "{bad}");
        }
        let hours = |text: &str| serde_json::from_str::<GraceHours>(text).map(|hours| hours.0);
        assert_eq!(hours("8760").ok(), Some(8_760));
        assert!(hours("8761").unwrap_err().to_string().starts_with(HOURS));
        let sites = |text: &str| serde_json::from_str::<SiteCount>(text).map(SiteLimit::from).ok();
        assert_eq!(sites("\"unlimited\""), Some(SiteLimit::Unlimited));
        assert_eq!(sites("1"), Some(SiteLimit::DEFAULT));
        for bad in ["0", "-1", "1.5", "\"1\"", "4294967296", "null"] {
            assert_eq!(sites(bad), None, "{bad}");
        }
    }
}
