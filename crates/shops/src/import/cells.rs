//! The texts of cells: dates, numbers, lists of sites and of modules. No error quotes a cell, which may be a key or a person.
//! Nothing becomes a value by being empty: [`EndCell`] and [`SitesCell`] say so, and the rules decide.

use std::collections::HashSet;
use std::num::NonZeroU32;

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Utc};

use countersign_model::license::{Modules, SiteLimit};
use countersign_model::license_key::LicenseKey;
use countersign_model::name::Name;
use countersign_model::period::{self, NEVER};
use countersign_model::site_host::SiteHost;

/// The order of day and month in dates such as 31/12/2027.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DateOrder {
    /// 31/12/2027.
    DayFirst,
    /// 12/31/2027.
    MonthFirst,
}

/// What a cell says of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndCell {
    /// Nothing.
    Empty,
    /// The last day; [`NEVER`] for none.
    Day(NaiveDate),
}

/// A day: a date, a time or Unix seconds in UTC, or the end of time: `lifetime`, `never`, `null`, `0`, zeros and the Unix epoch.
pub(super) fn end(text: &str, order: Option<DateOrder>) -> Result<EndCell, &'static str> {
    let is_never = ["lifetime", "never", "null", "0"]
        .iter()
        .any(|word| text.eq_ignore_ascii_case(word));
    if text.is_empty() {
        return Ok(EndCell::Empty);
    }
    if is_never || text.starts_with(NO_DATE) {
        return Ok(EndCell::Day(NEVER));
    }
    let time = time(text, order).map_err(|reason| match reason {
        NO_TIME => "expected a date such as 2027-12-31, a Unix time, or \"lifetime\"",
        reason => reason,
    })?;
    Ok(EndCell::Day(match time.date_naive() {
        // How an export writes the time 0.
        day if day == DateTime::UNIX_EPOCH.date_naive() => NEVER,
        day => day,
    }))
}

/// What is expected of a time.
const NO_TIME: &str = "expected a date such as 2027-12-31, or a Unix time";

/// How databases write that there is no date.
pub(super) const NO_DATE: &str = "0000-00-00";

/// A date, a date with a time of day, or Unix seconds or milliseconds, in UTC, and in the years in which a license may end.
pub(super) fn time(text: &str, order: Option<DateOrder>) -> Result<DateTime<Utc>, &'static str> {
    let of_calendar = |time: &DateTime<Utc>| period::last_day(time.date_naive()).is_some();
    let date = text.split([' ', 'T']).next().unwrap_or_default();
    let time = match (date.contains(['/', '.']), order) {
        (false, _) => plain_time(text),
        (true, None) => {
            return Err("31/12/2027 and 12/31/2027 look alike: --date-format dmy or mdy says which one is meant");
        }
        (true, Some(order)) => {
            let time = ordered_time(date, text[date.len()..].trim_start(), order);
            let time = time.ok_or("it is no date in the order that --date-format names, such as 31/12/2027")?;
            Some(time)
        }
    };
    time.filter(of_calendar).ok_or(NO_TIME)
}

/// A time that says which of its numbers is the day.
fn plain_time(text: &str) -> Option<DateTime<Utc>> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        let number: i64 = text.parse().ok()?;
        // A year, a day of a spreadsheet and a date without dashes are no Unix times.
        return match text.len() {
            10 => DateTime::from_timestamp(number, 0),
            13 => DateTime::from_timestamp_millis(number),
            _ => None,
        };
    }
    // The library would take years of other lengths, too.
    let year = text.split('-').next().unwrap_or_default();
    if year.len() != 4 || !year.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let text = text.strip_suffix(" UTC").unwrap_or(text);
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Some(time.to_utc());
    }
    let zoned = [
        "%Y-%m-%dT%H:%M:%S%.f%#z",
        "%Y-%m-%d %H:%M:%S%.f%#z",
        "%Y-%m-%d %H:%M:%S%.f %#z",
    ];
    let mut zoned = zoned
        .iter()
        .filter_map(|format| DateTime::parse_from_str(text, format).ok());
    if let Some(time) = zoned.next() {
        return Some(time.to_utc());
    }
    let formats = ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M"];
    let mut times = formats
        .iter()
        .filter_map(|format| NaiveDateTime::parse_from_str(text, format).ok());
    let date = || {
        NaiveDate::parse_from_str(text, "%Y-%m-%d")
            .ok()
            .map(|date| date.and_time(NaiveTime::MIN))
    };
    times.next().or_else(date).map(|time| time.and_utc())
}

/// A date such as 31/12/2027 or 31.12.2027, and the time of day behind it, if there is one.
fn ordered_time(date: &str, time: &str, order: DateOrder) -> Option<DateTime<Utc>> {
    let separator = if date.contains('/') { '/' } else { '.' };
    let mut parts = date.split(separator);
    let mut number = |digits: std::ops::RangeInclusive<usize>| {
        let part = parts.next()?;
        let is_right = digits.contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        is_right.then(|| part.parse::<u32>().ok()).flatten()
    };
    let first = number(1..=2)?;
    let second = number(1..=2)?;
    // Two digits may be of any century.
    let year = number(4..=4)?;
    if parts.next().is_some() {
        return None;
    }
    let date = match order {
        DateOrder::DayFirst => NaiveDate::from_ymd_opt(year.try_into().ok()?, second, first)?,
        DateOrder::MonthFirst => NaiveDate::from_ymd_opt(year.try_into().ok()?, first, second)?,
    };
    let formats = ["%H:%M:%S%.f", "%H:%M", "%I:%M:%S %p", "%I:%M %p"];
    let mut times = formats
        .iter()
        .filter_map(|format| NaiveTime::parse_from_str(time, format).ok());
    let time = if time.is_empty() { NaiveTime::MIN } else { times.next()? };
    Some(date.and_time(time).and_utc())
}

/// What a cell says of a number of sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SitesCell {
    /// Nothing, or null.
    Empty,
    /// 0.
    Zero,
    /// So many.
    Limit(SiteLimit),
}

/// How many sites.
pub(super) fn sites(text: &str) -> Result<SitesCell, &'static str> {
    const EXPECTED: &str = "expected a number of at least 1, or \"unlimited\"";
    if text.is_empty() || text.eq_ignore_ascii_case("null") {
        return Ok(SitesCell::Empty);
    }
    if text.eq_ignore_ascii_case("unlimited") {
        return Ok(SitesCell::Limit(SiteLimit::Unlimited));
    }
    // FromStr would also accept a sign.
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(EXPECTED);
    }
    let number: u32 = text.parse().map_err(|_| EXPECTED)?;
    Ok(NonZeroU32::new(number).map_or(SitesCell::Zero, |number| SitesCell::Limit(SiteLimit::Limited(number))))
}

/// The days of a time for which a license is valid; `None` if there is none.
pub(super) fn days(text: &str) -> Result<Option<u64>, &'static str> {
    if text.is_empty() || text == "0" || text.eq_ignore_ascii_case("null") {
        return Ok(None);
    }
    let number = text.parse::<u32>().map_err(|_| "expected a number of days")?;
    Ok(Some(number.into()))
}

/// A site that is active in the other system, and since when if that is known.
pub(super) type ActiveSite = (SiteHost, Option<DateTime<Utc>>);

/// Sites, separated by commas, semicolons or blanks; `host@2026-01-31` has its own time. Each host once, in the order of the
/// cell.
pub(super) fn hosts(text: &str) -> Result<Vec<ActiveSite>, &'static str> {
    let mut hosts: Vec<ActiveSite> = Vec::new();
    let mut known = HashSet::new();
    let parts = text.split(|letter: char| letter.is_whitespace() || matches!(letter, ',' | ';'));
    // Older exports have a dash between two sites.
    for part in parts.filter(|part| !part.is_empty() && *part != "-") {
        let (address, since) = match part.rsplit_once('@') {
            Some((address, since)) if is_time(since) => (address, time(since, None).ok()),
            _ => (part, None),
        };
        let host: SiteHost = address
            .parse()
            .map_err(|_| "one of its sites is not the address of a site")?;
        // SECURITY: a host is stored and logged.
        if LicenseKey::is_in(host.as_str()) {
            return Err("one of its sites is a license key");
        }
        if known.insert(host.clone()) {
            hosts.push((host, since));
        }
    }
    Ok(hosts)
}

fn is_time(text: &str) -> bool {
    text.contains('-') && time(text, None).is_ok()
}

/// Modules and their features: `forms=pdf,api; maps`.
pub(super) fn modules(text: &str) -> Result<Modules, &'static str> {
    const EXPECTED: &str = "expected modules such as forms=pdf,api; maps";
    // SECURITY: names of modules are stored and logged.
    if LicenseKey::is_in(text) {
        return Err("it has a license key");
    }
    let mut modules = Modules::new();
    let parts = text.split(|letter: char| letter.is_whitespace() || letter == ';');
    for part in parts.filter(|part| !part.is_empty()) {
        let (module, features) = part.split_once('=').unwrap_or((part, ""));
        let name = |text: &str| text.parse::<Name>().map_err(|_| EXPECTED);
        let features = features.split(',').filter(|feature| !feature.is_empty());
        let features = features.map(name).collect::<Result<_, _>>()?;
        if modules.insert(name(module)?, features).is_some() {
            return Err("it has a module twice");
        }
    }
    Ok(modules)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last_day(text: &str) -> Result<String, &'static str> {
        end(text, None).map(|end| match end {
            EndCell::Empty => "empty".to_owned(),
            EndCell::Day(day) => day.to_string(),
        })
    }

    #[test]
    fn a_last_day_is_written_in_many_ways() {
        for text in [
            "2027-12-31",
            "2027-12-31 23:59:59",
            "2027-12-31 23:59",
            "2027-12-31T23:59:59Z",
            "2027-12-31T23:59:59.000000Z",
            "2027-12-31 23:59:59.123",
            "2027-12-31 23:59:59 UTC",
            "2028-01-01T00:59:59+01:00",
            "2028-01-01 00:59:59+0100",
            "2027-12-31T20:59:59.5-03:00",
            "1830297599",
            "1830297599000",
        ] {
            assert_eq!(last_day(text).as_deref(), Ok("2027-12-31"), "{text}");
        }
        for text in [
            "lifetime",
            "Lifetime",
            "never",
            "null",
            "NULL",
            "0",
            "0000-00-00",
            "0000-00-00 00:00:00",
            "1970-01-01 00:00:00",
        ] {
            assert_eq!(last_day(text).as_deref(), Ok("9999-12-31"), "{text}");
        }
        assert_eq!(last_day("").as_deref(), Ok("empty"));
        for text in [
            "2027",
            "20271231",
            "46387",
            "2027-02-30",
            "27-12-31",
            "soon",
            "183029759",
            "99999999999999999999",
            "-1830297599",
            "-1e9",
            "-8334601228800",
            "-62167219201",
            "253402300800",
            "-262143-01-01",
            "+10000-01-01",
            "0000-12-31",
            "2027-12-31 25:00:00",
            "2027-12-31garbage",
            "\u{0}",
        ] {
            assert!(last_day(text).is_err(), "{text}");
        }
    }

    #[test]
    fn day_and_month_change_places_only_where_it_is_said() {
        for text in ["31/12/2027", "12/31/2027", "31.12.2027", "1/2/2027 10:00", "01.02.2027"] {
            assert!(last_day(text).unwrap_err().contains("--date-format"), "{text}");
        }
        let read = |text, order| end(text, Some(order)).ok();
        let day = |text: &str| Some(EndCell::Day(text.parse().unwrap()));
        for text in [
            "2/1/2027",
            "02/01/2027",
            "02.01.2027 23:59:59",
            "2.1.2027 23:59",
            "2/1/2027 11:59 PM",
        ] {
            assert_eq!(read(text, DateOrder::DayFirst), day("2027-01-02"), "{text}");
            assert_eq!(read(text, DateOrder::MonthFirst), day("2027-02-01"), "{text}");
        }
        for order in [DateOrder::DayFirst, DateOrder::MonthFirst] {
            assert_eq!(read("2027-12-31", order), day("2027-12-31"));
            assert_eq!(read("never", order), Some(EndCell::Day(NEVER)));
            for text in [
                "31/31/2027",
                "1/2/27",
                "1/2/3/2027",
                "1/2",
                "1/2.2027",
                "1/2/2027 noon",
                "001/2/2027",
                "+1/2/2027",
                "/",
            ] {
                assert_eq!(read(text, order), None, "{text}");
            }
        }
        assert_eq!(read("31/12/2027", DateOrder::MonthFirst), None);
        assert_eq!(read("12/31/2027", DateOrder::DayFirst), None);
    }

    #[test]
    fn a_number_of_sites_is_a_number_and_nothing_is_no_number() {
        assert_eq!(
            sites("5"),
            Ok(SitesCell::Limit(SiteLimit::Limited(NonZeroU32::new(5).unwrap())))
        );
        assert_eq!(sites("Unlimited"), Ok(SitesCell::Limit(SiteLimit::Unlimited)));
        for empty in ["", "null", "NULL"] {
            assert_eq!(sites(empty), Ok(SitesCell::Empty), "{empty}");
        }
        for zero in ["0", "00"] {
            assert_eq!(sites(zero), Ok(SitesCell::Zero), "{zero}");
        }
        for text in ["-1", "+1", "1.0", "1,000", "five", "4294967296", "1 site", "\u{665}"] {
            assert!(sites(text).is_err(), "{text}");
        }
    }

    #[test]
    fn days_are_a_number_or_none() {
        assert_eq!(days("365"), Ok(Some(365)));
        for none in ["", "0", "null"] {
            assert_eq!(days(none), Ok(None), "{none}");
        }
        for text in ["-1", "1y", "365.5", "99999999999"] {
            assert!(days(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sites_are_separated_by_anything_and_each_counts_once() {
        let read = |text| -> Vec<String> {
            let hosts = hosts(text).unwrap();
            hosts.iter().map(|(host, _)| host.to_string()).collect()
        };
        assert_eq!(read("a.com/, b.com/blog/, www.a.com/"), ["a.com", "b.com"]);
        assert_eq!(read("https://a.com - http://b.com/"), ["a.com", "b.com"]);
        assert_eq!(read("a.com\nb.com;c.com"), ["a.com", "b.com", "c.com"]);
        assert_eq!(read(""), [""; 0]);
        assert!(hosts("a.com, =1+1").is_err());
        let timed = hosts("a.com@2026-01-31 b.com@2026-01-31T10:00:00Z https://user@c.com/").unwrap();
        assert_eq!(timed[0].1, time("2026-01-31", None).ok());
        assert_eq!(timed[1].1, time("2026-01-31 10:00:00", None).ok());
        assert_eq!((timed[2].0.as_str(), timed[2].1), ("c.com", None));
    }

    #[test]
    fn the_time_for_a_cell_of_many_sites_grows_with_their_number() {
        let cell = |count: usize| -> String { (0..count).map(|number| format!("h{number}.com ")).collect() };
        let mut worst = f64::MAX;
        for _ in 0..3 {
            let seconds = [2_000, 40_000].map(|count| {
                let cell = cell(count);
                let before = cpu_time();
                assert_eq!(hosts(&cell).unwrap().len(), count);
                cpu_time() - before
            });
            worst = worst.min(seconds[1] / seconds[0].max(1e-4));
        }
        // Comparing each with all takes 400 times as long for 20 times as many.
        assert!(worst < 100.0, "{worst}");
    }

    /// The CPU time of this thread in seconds.
    fn cpu_time() -> f64 {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    }

    #[test]
    fn modules_have_features() {
        let modules = modules("forms=pdf,api; maps").unwrap();
        let features: Vec<_> = modules.values().map(Vec::len).collect();
        assert_eq!(features, [2, 0]);
        assert!(super::modules("forms=p d!").is_err());
        let twice = super::modules("forms=pdf; maps; forms=api");
        assert_eq!(twice.unwrap_err(), "it has a module twice");
    }
}
