//! What happened on one day, counted, for one plugin or for what belongs to none: about 200 bytes, however many sites there are.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

use crate::slug::Slug;

/// Names that are counted one by one. The rest is counted together.
const MOST_NAMES: usize = 24;

/// The name of the rest.
pub const REST: &str = "other";

/// The quarters of an hour of a day.
pub const QUARTERS: u8 = 96;

/// Counts by name.
pub type NamedCounts = BTreeMap<Box<str>, u64>;

/// The counts of a day. Each is a sum, so those of several servers are added.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DayCounts {
    /// Sites by the version that they run, at the end of the day.
    #[serde(skip_serializing_if = "NamedCounts::is_empty")]
    pub sites: NamedCounts,
    /// Requests for updates by outcome.
    #[serde(skip_serializing_if = "NamedCounts::is_empty")]
    pub updates: NamedCounts,
    /// Packages that were sent.
    #[serde(skip_serializing_if = "is_zero")]
    pub downloads: u64,
    /// Packages of security releases that went to sites whose license had expired, by version.
    #[serde(skip_serializing_if = "NamedCounts::is_empty")]
    pub security: NamedCounts,
    /// Sites that took a release and said a day later or more what they run, by that release. Each counts once.
    #[serde(skip_serializing_if = "NamedCounts::is_empty")]
    pub taken: NamedCounts,
    /// Those of them that ran an older one.
    #[serde(skip_serializing_if = "NamedCounts::is_empty")]
    pub failed: NamedCounts,
    /// Validations by outcome.
    #[serde(skip_serializing_if = "NamedCounts::is_empty")]
    pub validations: NamedCounts,
    /// Validations by the WordPress version of the site.
    #[serde(skip_serializing_if = "NamedCounts::is_empty")]
    pub wordpress: NamedCounts,
    /// Validations by the PHP version of the site.
    #[serde(skip_serializing_if = "NamedCounts::is_empty")]
    pub php: NamedCounts,
    /// Licenses that were issued, without those of an import.
    #[serde(skip_serializing_if = "is_zero")]
    pub sold: u64,
    /// Licenses whose last change was a later end.
    #[serde(skip_serializing_if = "is_zero")]
    pub renewed: u64,
    /// Licenses whose last day this was.
    #[serde(skip_serializing_if = "is_zero")]
    pub ended: u64,
    /// Packages of the newest release that were sent, by version and quarter of an hour. Kept for a week.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub quarters: BTreeMap<Box<str>, BTreeMap<u8, u64>>,
}

/// The counts of one plugin on one day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DayLine {
    /// The day, in UTC.
    pub day: NaiveDate,
    /// The plugin; `None` for validations that name none, and for all licenses, each once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<Slug>,
    /// What was counted.
    pub counts: DayCounts,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Adds to the counts by name.
pub fn add_counts(counts: &mut NamedCounts, more: &NamedCounts) {
    for (name, count) in more {
        match counts.get_mut(name) {
            Some(known) => *known += count,
            None => drop(counts.insert(name.clone(), *count)),
        }
    }
}

/// Leaves the names with the greatest counts, and counts the rest together.
fn limit(counts: &mut NamedCounts) {
    if counts.len() <= MOST_NAMES {
        return;
    }
    let mut all: Vec<_> = std::mem::take(counts).into_iter().collect();
    all.sort_by_key(|(name, count)| (&**name == REST, std::cmp::Reverse(*count)));
    let rest: u64 = all.drain(MOST_NAMES - 1..).map(|(_, count)| count).sum();
    counts.extend(all);
    counts.insert(REST.into(), rest);
}

impl DayCounts {
    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds the counts of another server, or of another time of the day.
    pub fn add(&mut self, more: &Self) {
        add_counts(&mut self.sites, &more.sites);
        add_counts(&mut self.updates, &more.updates);
        add_counts(&mut self.security, &more.security);
        add_counts(&mut self.taken, &more.taken);
        add_counts(&mut self.failed, &more.failed);
        add_counts(&mut self.validations, &more.validations);
        add_counts(&mut self.wordpress, &more.wordpress);
        add_counts(&mut self.php, &more.php);
        self.downloads += more.downloads;
        self.sold += more.sold;
        self.renewed += more.renewed;
        self.ended += more.ended;
        for (version, quarters) in &more.quarters {
            let known = self.quarters.entry(version.clone()).or_default();
            for (quarter, count) in quarters {
                *known.entry(*quarter).or_default() += count;
            }
        }
    }

    /// Counts together what is rare, so that the length is bounded.
    pub fn limit(&mut self) {
        let Self {
            sites,
            security,
            taken,
            failed,
            wordpress,
            php,
            ..
        } = self;
        for counts in [sites, security, taken, failed, wordpress, php] {
            limit(counts);
        }
    }
}

/// The first two numbers of a version of WordPress or PHP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlatformSeries {
    major: u8,
    minor: u8,
}

/// The text does not begin with a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a version of WordPress or PHP")]
pub struct NotASeries;

impl FromStr for PlatformSeries {
    type Err = NotASeries;

    /// `8.3` of `8.3.12-1ubuntu`, `6.0` of `6-RC1`. Each number has at most two digits.
    fn from_str(text: &str) -> Result<Self, NotASeries> {
        let number = |text: &str| -> Option<(u8, usize)> {
            let digits = text.bytes().take_while(u8::is_ascii_digit).count();
            let number = text[..digits].parse().ok().filter(|_| digits <= 2)?;
            Some((number, digits))
        };
        let (major, digits) = number(text).filter(|(major, _)| *major > 0).ok_or(NotASeries)?;
        let minor = match text[digits..].strip_prefix('.') {
            Some(rest) => number(rest).ok_or(NotASeries)?.0,
            None => 0,
        };
        Ok(Self { major, minor })
    }
}

impl fmt::Display for PlatformSeries {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_platform_is_read_leniently_and_nonsense_is_none() {
        let read = |text: &str| text.parse::<PlatformSeries>().map(|series| series.to_string());
        for (text, series) in [
            ("6.9", "6.9"),
            ("6.9.1", "6.9"),
            ("6.10-RC1-59123", "6.10"),
            ("8.3.12-1ubuntu1", "8.3"),
            ("8", "8.0"),
            ("7.4.33", "7.4"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(series), "{text}");
        }
        for nonsense in ["", "0.9", "v8", "8.", "8.x", "123.4", "6.123", "PHP 8", "é.1", "-1.2"] {
            assert_eq!(read(nonsense), Err(NotASeries), "{nonsense}");
        }
    }

    #[test]
    fn counts_are_added_and_a_line_stays_short() {
        let of = |sites: u64| DayCounts {
            sites: (0..sites).map(|n| (format!("1.{n}").into(), n + 1)).collect(),
            downloads: 2,
            quarters: [("1.0".into(), [(3, 1)].into())].into(),
            ..DayCounts::default()
        };
        let mut counts = of(100);
        counts.add(&of(1));
        assert_eq!((counts.sites["1.0"], counts.downloads), (2, 4));
        assert_eq!(counts.quarters["1.0"][&3], 2);
        let sites: u64 = counts.sites.values().sum();
        counts.limit();
        counts.limit();
        assert_eq!(counts.sites.len(), MOST_NAMES);
        assert_eq!(counts.sites.values().sum::<u64>(), sites);
        assert!(counts.sites.contains_key("1.99") && !counts.sites.contains_key("1.3"));
        let line = DayLine {
            day: NaiveDate::from_ymd_opt(2026, 11, 25).unwrap(),
            plugin: Some("acme".parse().unwrap()),
            counts: of(2),
        };
        let text = serde_json::to_string(&line).unwrap();
        assert!(
            text.starts_with(r#"{"day":"2026-11-25","plugin":"acme","counts":{"sites":"#),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<DayLine>(&text).unwrap(), line);
    }
}
