//! The history of the demo: 60 days before the first, made up, so that charts have something to show. Always the same.

use chrono::{Days, NaiveDate};

use crate::commands::init::demo_repository::{ACME_FORMS, ACME_PDF};
use countersign_model::day_counts::{DayCounts, DayLine, NamedCounts};
use countersign_model::slug::Slug;

/// How many days there are.
const DAYS: u64 = 60;

/// A plugin of the demo: its sites on the last day, and the releases that sites leave and go to.
struct MadeUp {
    slug: &'static str,
    sites: u64,
    /// The oldest first; each with the day on which it is released.
    releases: &'static [(&'static str, u64)],
}

const PLUGINS: [MadeUp; 2] = [
    MadeUp {
        slug: ACME_FORMS.slug,
        sites: 168,
        releases: &[("1.0.1", 0), ("1.1.0", 0), ("1.2.0", 22)],
    },
    MadeUp {
        slug: ACME_PDF.slug,
        sites: 52,
        releases: &[("1.0.0", 0), ("1.1.0", 35)],
    },
];

/// The lines of the days before `today`, sorted by day and plugin.
pub(super) fn lines(today: NaiveDate) -> Vec<DayLine> {
    let first = today.checked_sub_days(Days::new(DAYS)).unwrap_or(today);
    let mut lines = Vec::new();
    for (number, day) in (0..DAYS).zip(first.iter_days()) {
        // Of no plugin: each license once.
        let mut all = DayCounts::default();
        let mut of_day: Vec<_> = PLUGINS
            .iter()
            .map(|plugin| DayLine {
                day,
                plugin: plugin.slug.parse().ok(),
                counts: counts(plugin, number),
            })
            .collect();
        for line in &of_day {
            all.sold += line.counts.sold;
            all.renewed += line.counts.renewed;
            all.ended += line.counts.ended;
        }
        lines.push(DayLine {
            day,
            plugin: None,
            counts: all,
        });
        lines.append(&mut of_day);
    }
    lines
}

/// What the sites of each plugin run at the end of the last of these days.
pub(super) fn last_day(today: NaiveDate) -> Vec<(Slug, NamedCounts)> {
    let lines = lines(today).into_iter().rev().take(PLUGINS.len());
    lines
        .filter_map(|line| Some((line.plugin?, line.counts.sites)))
        .collect()
}

fn counts(plugin: &MadeUp, day: u64) -> DayCounts {
    let all = plugin.sites * (200 + day) / (200 + DAYS);
    // Of those that a release finds, an eighth goes to it each day, and a few never do.
    let mut sites = NamedCounts::new();
    let mut left = all;
    let mut sent = all / 60;
    for (version, released) in plugin.releases.iter().rev() {
        let is_first = *version == plugin.releases[0].0;
        let age = if *released == 0 {
            40 + day
        } else {
            (day + 1).saturating_sub(*released)
        };
        let behind = |age: u64| (0..age.min(80)).fold(left * 9 / 10, |rest, _| rest - rest / 8);
        let here = match (is_first, age) {
            (true, _) => left,
            (_, 0) => 0,
            (_, age) => left * 9 / 10 - behind(age),
        };
        if *released > 0 && age > 0 {
            sent += behind(age - 1) - behind(age);
        }
        if here > 0 {
            sites.insert((*version).into(), here);
        }
        left -= here;
    }
    let split = |all: u64, shares: &[(&str, u64)]| -> NamedCounts {
        shares
            .iter()
            .map(|(name, share)| (Box::from(*name), all * share / 100))
            .filter(|(_, count)| *count > 0)
            .collect()
    };
    // A history has no counts of nothing.
    let counted = |counts: [(&str, u64); 2]| -> NamedCounts {
        let counts = counts.into_iter().filter(|(_, count)| *count > 0);
        counts.map(|(name, count)| (name.into(), count)).collect()
    };
    let validations = all + day * 7 % 11;
    DayCounts {
        sites,
        updates: counted([("update", sent * 2), ("up_to_date", all * 2 - sent)]),
        downloads: sent,
        validations: split(validations, &[("ok", 96), ("expired", 3), ("bound_elsewhere", 1)]),
        wordpress: split(
            validations,
            &[("6.9", 30 + day / 2), ("6.8", 58 - day / 2), ("6.7", 12)],
        ),
        php: split(validations, &[("8.3", 52), ("8.2", 26), ("8.1", 14), ("7.4", 8)]),
        sold: day * 5 % 7 / 3,
        renewed: day * 3 % 5 / 2,
        ended: u64::from(day.is_multiple_of(4)),
        ..DayCounts::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_is_whole_and_a_release_arrives() {
        let today = NaiveDate::from_ymd_opt(2026, 11, 25).unwrap();
        let lines = lines(today);
        assert_eq!(lines.len(), 3 * DAYS as usize);
        assert_eq!(lines.last().map(|line| line.day), today.pred_opt());
        let forms: Vec<_> = lines
            .iter()
            .filter(|line| {
                line.plugin
                    .as_ref()
                    .is_some_and(|plugin| plugin.as_str() == "acme-forms")
            })
            .collect();
        let newest = |day: usize| forms[day].counts.sites.get("1.2.0").copied().unwrap_or_default();
        assert_eq!((newest(0), newest(21)), (0, 0));
        assert!(newest(22) > 8 && newest(59) > newest(30) && newest(30) > newest(22));
        for line in &forms {
            let sites: u64 = line.counts.sites.values().sum();
            assert!((120..=168).contains(&sites), "{line:?}");
        }
    }
}
