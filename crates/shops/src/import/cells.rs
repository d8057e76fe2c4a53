//! The texts of cells: dates, numbers, lists of sites and of modules. No error quotes a cell, which may be a key or a person.

use std::collections::HashSet;
use std::num::NonZeroU32;

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Utc};

use countersign_model::license::{Modules, SiteLimit};
use countersign_model::license_key::LicenseKey;
use countersign_model::name::Name;
use countersign_model::period::{self, NEVER};
use countersign_model::site_host::SiteHost;

/// A day: a date, a time or Unix seconds in UTC, or the end of time: `lifetime`, `never`, `0` and the Unix epoch.
pub(super) fn last_day(text: &str) -> Result<NaiveDate, &'static str> {
    const EXPECTED: &str = "expected a date such as 2027-12-31, a Unix time, or \"lifetime\"";
    if ["lifetime", "never", "0"]
        .iter()
        .any(|word| text.eq_ignore_ascii_case(word))
    {
        return Ok(NEVER);
    }
    let day = time(text).ok_or(EXPECTED)?.date_naive();
    match day {
        // How an export writes the time 0.
        day if day == DateTime::UNIX_EPOCH.date_naive() => Ok(NEVER),
        day => Ok(day),
    }
}

/// A date, a date with a time of day, or Unix seconds, in UTC, and in the years in which a license may end.
pub(super) fn time(text: &str) -> Option<DateTime<Utc>> {
    any_time(text).filter(|time| period::last_day(time.date_naive()).is_some())
}

fn any_time(text: &str) -> Option<DateTime<Utc>> {
    if let Ok(seconds) = text.parse::<i64>() {
        // A year alone is no Unix time.
        return (text.len() > 4).then(|| DateTime::from_timestamp(seconds, 0)).flatten();
    }
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Some(time.to_utc());
    }
    let formats = ["%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M"];
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

/// How many sites; `none` is what an empty cell and 0 mean.
pub(super) fn limit(text: &str, none: Option<SiteLimit>) -> Result<SiteLimit, &'static str> {
    const EXPECTED: &str = "expected a number of at least 1, or \"unlimited\"";
    if text.eq_ignore_ascii_case("unlimited") {
        return Ok(SiteLimit::Unlimited);
    }
    if text.is_empty() || text == "0" {
        return none.ok_or(EXPECTED);
    }
    text.parse::<NonZeroU32>().map(SiteLimit::Limited).map_err(|_| EXPECTED)
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
            Some((address, since)) if is_time(since) => (address, time(since)),
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
    text.contains('-') && time(text).is_some()
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

    #[test]
    fn a_last_day_is_written_in_many_ways() {
        for text in [
            "2027-12-31",
            "2027-12-31 23:59:59",
            "2027-12-31T23:59:59Z",
            "1830297599",
        ] {
            assert_eq!(last_day(text).unwrap().to_string(), "2027-12-31", "{text}");
        }
        for text in ["lifetime", "Lifetime", "never", "0", "1970-01-01 00:00:00"] {
            assert_eq!(last_day(text), Ok(NEVER), "{text}");
        }
        for text in [
            "",
            "31/12/2027",
            "2027",
            "2027-02-30",
            "soon",
            "99999999999999999999",
            "-1e9",
            "-8334601228800",
            "-62167219201",
            "253402300800",
            "-262143-01-01",
            "+10000-01-01",
            "0000-00-00",
            "0000-12-31",
        ] {
            assert!(last_day(text).is_err(), "{text}");
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
        assert_eq!(timed[0].1, time("2026-01-31"));
        assert_eq!(timed[1].1, time("2026-01-31 10:00:00"));
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
        assert_eq!(
            limit("0", None).is_err(),
            limit("-1", Some(SiteLimit::Unlimited)).is_err()
        );
        let twice = super::modules("forms=pdf; maps; forms=api");
        assert_eq!(twice.unwrap_err(), "it has a module twice");
    }
}
