//! How pages show times, days, numbers, hosts, and what licenses cover.

use chrono::{DateTime, NaiveDate, SecondsFormat, TimeDelta, Utc};

use crate::serve::gate::Snapshot;
use countersign_model::license::License;
use countersign_model::period::NEVER;
use countersign_model::site_host::SiteHost;
use countersign_model::text::outside_text::OutsideText;

/// A time: exactly, in UTC, and from now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::serve) struct ShownTime {
    /// RFC 3339.
    pub(in crate::serve) machine: String,
    /// `25 Nov 2026, 14:06`.
    pub(in crate::serve) exact: String,
    /// `3 hours ago`.
    pub(in crate::serve) relative: String,
}

impl ShownTime {
    pub(in crate::serve) fn of(time: DateTime<Utc>, now: DateTime<Utc>) -> Self {
        Self {
            machine: time.to_rfc3339_opts(SecondsFormat::Secs, true),
            exact: time.format("%-d %b %Y, %H:%M").to_string(),
            relative: relative(time - now),
        }
    }
}

/// A day: exactly, and from today.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::serve) struct ShownDay {
    /// `2026-12-31`; empty for never.
    pub(in crate::serve) machine: String,
    /// `31 Dec 2026`, or `never`.
    pub(in crate::serve) exact: String,
    /// `in 36 days`; empty for never.
    pub(in crate::serve) relative: String,
}

impl ShownDay {
    pub(in crate::serve) fn of(day: NaiveDate, today: NaiveDate) -> Self {
        if day == NEVER {
            return Self {
                machine: String::new(),
                exact: "never".to_owned(),
                relative: String::new(),
            };
        }
        Self {
            machine: day.to_string(),
            exact: day.format("%-d %b %Y").to_string(),
            relative: days(day.signed_duration_since(today).num_days()),
        }
    }
}

fn relative(difference: TimeDelta) -> String {
    let minutes = difference.num_minutes().abs();
    let (count, unit) = match minutes {
        0 => return "just now".to_owned(),
        1..60 => (minutes, "minute"),
        60..1_440 => (minutes / 60, "hour"),
        _ => return days(difference.num_days()),
    };
    let plural = if count == 1 { "" } else { "s" };
    match difference > TimeDelta::zero() {
        true => format!("in {count} {unit}{plural}"),
        false => format!("{count} {unit}{plural} ago"),
    }
}

fn days(days: i64) -> String {
    let count = days.abs();
    let (count, unit) = match count {
        0 => return "today".to_owned(),
        1 if days > 0 => return "tomorrow".to_owned(),
        1 => return "yesterday".to_owned(),
        2..100 => (count, "days"),
        100..730 => (count / 30, "months"),
        _ => (count / 365, "years"),
    };
    match days > 0 {
        true => format!("in {count} {unit}"),
        false => format!("{count} {unit} ago"),
    }
}

/// A number with commas: `9,874`.
pub(in crate::serve) fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// A number and what it counts: `1 site`, `3 sites`.
pub(in crate::serve) fn counted(number: usize, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", grouped(number))
}

/// The address of a page with a query.
pub(in crate::serve) fn address(path: &str, query: &[(&str, &str)]) -> String {
    let mut encoded = url::form_urlencoded::Serializer::new(String::new());
    encoded.extend_pairs(query);
    format!("{path}?{}", encoded.finish())
}

/// A share in whole percent.
pub(in crate::serve) fn percent(part: usize, all: usize) -> usize {
    if all == 0 { 0 } else { (part * 200 + all) / (all * 2) }
}

/// A host in both forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::serve) struct ShownHost {
    /// As it is stored.
    pub(in crate::serve) ascii: OutsideText,
    /// As people read it, where that is another form.
    pub(in crate::serve) unicode: Option<OutsideText>,
    /// The whole, for a form.
    pub(in crate::serve) value: String,
}

impl From<&SiteHost> for ShownHost {
    fn from(host: &SiteHost) -> Self {
        Self {
            ascii: OutsideText::of(host.as_str()),
            unicode: host.in_unicode().as_deref().map(OutsideText::of),
            value: host.as_str().to_owned(),
        }
    }
}

/// A reason, such as "the license is revoked", as a sentence.
pub(in crate::serve) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), letters.as_str())
}

/// What a license covers: `Acme Forms + export`.
pub(in crate::serve) fn covers(license: &License, snapshot: &Snapshot) -> OutsideText {
    let parts = license.modules.iter().map(|(module, features)| {
        let plugins = snapshot.registry.plugins().filter(|plugin| plugin.module == *module);
        let mut names: Vec<_> = plugins
            .map(|plugin| plugin.shown_name(snapshot.catalog.plugin_name(&plugin.slug)).to_owned())
            .collect();
        names.sort();
        let mut part = match names.is_empty() {
            true => module.to_string(),
            false => names.join(", "),
        };
        for feature in features {
            part += &format!(" + {feature}");
        }
        part
    });
    OutsideText::of(&parts.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_exactly_and_from_now() {
        let now: DateTime<Utc> = "2026-11-25T14:06:30Z".parse().unwrap();
        let of = |text: &str| ShownTime::of(text.parse().unwrap(), now);
        assert_eq!(of("2026-11-25T11:00:00Z").relative, "3 hours ago");
        assert_eq!(of("2026-11-25T11:00:00Z").exact, "25 Nov 2026, 11:00");
        assert_eq!(of("2026-11-25T14:05:00Z").relative, "1 minute ago");
        assert_eq!(of("2026-11-25T14:06:40Z").relative, "just now");
        assert_eq!(of("2026-11-23T14:00:00Z").relative, "2 days ago");
        let day = |text: &str| ShownDay::of(text.parse().unwrap(), now.date_naive());
        assert_eq!(
            (day("2026-12-31").relative.as_str(), day("2026-12-31").exact.as_str()),
            ("in 36 days", "31 Dec 2026")
        );
        assert_eq!(
            (day("2026-11-24").relative.as_str(), day("2026-11-25").relative.as_str()),
            ("yesterday", "today")
        );
        assert_eq!(day("2024-01-01").relative, "2 years ago");
        assert_eq!(ShownDay::of(NEVER, now.date_naive()).exact, "never");
    }

    #[test]
    fn numbers_have_commas_and_shares_are_rounded() {
        assert_eq!(
            [0, 999, 1_000, 1_234_567].map(grouped),
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            (counted(1, "site"), counted(2, "site")),
            ("1 site".to_owned(), "2 sites".to_owned())
        );
        assert_eq!((percent(1, 3), percent(2, 3), percent(0, 0)), (33, 67, 0));
    }

    #[test]
    fn a_host_has_both_forms() {
        let host = ShownHost::from(&"xn--mnchen-3ya.example.net".parse().unwrap());
        assert_eq!(host.unicode.unwrap().as_str(), "münchen.example.net");
        assert_eq!(ShownHost::from(&"a.example".parse().unwrap()).unicode, None);
    }
}
