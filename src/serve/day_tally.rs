//! Counts what this server does on the running day, for each plugin. Counting is an atomic addition; nothing is written here.
//!
//! A plugin is counted if the registry has it and the license covers it, so no client can add one.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use arc_swap::{ArcSwap, Guard};
use chrono::{DateTime, NaiveDate, Timelike as _, Utc};
use enum_map::EnumMap;

use crate::serve::reply::outcome::Code;
use crate::serve::taken_releases::TakenCount;
use countersign_model::day_counts::{DayCounts, DayLine, NamedCounts, PlatformSeries, QUARTERS, REST};
use countersign_model::license::License;
use countersign_model::plugin::Plugin;
use countersign_model::slug::Slug;
use countersign_model::version::Version;
use countersign_registry::Registry;

/// The series of WordPress or PHP that are counted one by one on a day. A site may say anything.
const MOST_SERIES: usize = 64;

/// The counts of the running day, and of days that are over and not finished yet.
#[derive(Debug)]
pub(crate) struct DayTally {
    running: ArcSwap<TallyOfDay>,
    ended: Mutex<Vec<Arc<TallyOfDay>>>,
}

#[derive(Debug)]
struct TallyOfDay {
    day: NaiveDate,
    /// Validations that name no plugin.
    nameless: PluginTally,
    plugins: RwLock<HashMap<Slug, Arc<PluginTally>>>,
}

#[derive(Debug, Default)]
struct PluginTally {
    updates: EnumMap<Code, AtomicU64>,
    validations: EnumMap<Code, AtomicU64>,
    downloads: AtomicU64,
    /// Packages that expired licenses got, by version.
    security: Mutex<NamedCounts>,
    /// How sites fare with what they took, by version.
    outcomes: Mutex<BTreeMap<Box<str>, TakenCount>>,
    platforms: Mutex<PlatformTally>,
    /// Of the newest release, by version and quarter of an hour.
    quarters: Mutex<BTreeMap<Box<str>, BTreeMap<u8, u64>>>,
}

#[derive(Debug, Default)]
struct PlatformTally {
    wordpress: BTreeMap<Option<PlatformSeries>, u64>,
    php: BTreeMap<Option<PlatformSeries>, u64>,
}

/// What a site says of itself with a validation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SitePlatform {
    pub(crate) wordpress: Option<PlatformSeries>,
    pub(crate) php: Option<PlatformSeries>,
}

impl SitePlatform {
    /// What can be read of what a site sent.
    pub(crate) fn read(wordpress: Option<&str>, php: Option<&str>) -> Self {
        let read = |text: Option<&str>| text?.parse().ok();
        Self {
            wordpress: read(wordpress),
            php: read(php),
        }
    }
}

/// The plugin with this slug, if the license covers it.
pub(crate) fn covered<'r>(registry: &'r Registry, license: &License, slug: &str) -> Option<&'r Plugin> {
    registry
        .plugin(slug)
        .filter(|plugin| license.modules.contains_key(&plugin.module))
}

impl DayTally {
    /// Counts from now on.
    pub(crate) fn new(now: DateTime<Utc>) -> Self {
        Self {
            running: ArcSwap::from_pointee(TallyOfDay::new(now.date_naive())),
            ended: Mutex::default(),
        }
    }

    /// Counts a request for updates.
    pub(crate) fn update(&self, plugin: &Plugin, code: Code, now: DateTime<Utc>) {
        let today = self.today(now);
        today.with(&plugin.slug, |tally| {
            tally.updates[code].fetch_add(1, Ordering::Relaxed)
        });
    }

    /// Counts a validation.
    pub(crate) fn validation(&self, plugin: Option<&Plugin>, code: Code, platform: SitePlatform, now: DateTime<Utc>) {
        let today = self.today(now);
        let count = |tally: &PluginTally| {
            tally.validations[code].fetch_add(1, Ordering::Relaxed);
            if platform.wordpress.is_some() || platform.php.is_some() {
                let mut platforms = lock(&tally.platforms);
                count_series(&mut platforms.wordpress, platform.wordpress);
                count_series(&mut platforms.php, platform.php);
            }
        };
        match plugin {
            Some(plugin) => today.with(&plugin.slug, count),
            None => count(&today.nameless),
        }
    }

    /// Counts a package that is sent, from its beginning.
    pub(crate) fn download(&self, slug: &Slug, version: &Version, is_newest: bool, now: DateTime<Utc>) {
        let today = self.today(now);
        today.with(slug, |tally| {
            tally.downloads.fetch_add(1, Ordering::Relaxed);
            if is_newest {
                // One of 96.
                let quarter = (now.num_seconds_from_midnight() / (24 * 3_600 / u32::from(QUARTERS))) as u8;
                let mut quarters = lock(&tally.quarters);
                *quarters
                    .entry(version.as_str().into())
                    .or_default()
                    .entry(quarter)
                    .or_default() += 1;
            }
        });
    }

    /// Counts a security release that is sent to a site whose license has expired. It counts as a download, too.
    pub(crate) fn security_delivery(&self, slug: &Slug, version: &Version, now: DateTime<Utc>) {
        let today = self.today(now);
        today.with(slug, |tally| {
            *lock(&tally.security).entry(version.as_str().into()).or_default() += 1;
        });
    }

    /// Counts sites that took a release a day ago.
    pub(crate) fn outcomes(&self, slug: &Slug, version: &Version, news: TakenCount, now: DateTime<Utc>) {
        let today = self.today(now);
        today.with(slug, |tally| {
            let mut outcomes = lock(&tally.outcomes);
            outcomes.entry(version.as_str().into()).or_default().add(news);
        });
    }

    /// What was counted, of every day that is not forgotten.
    pub(crate) fn lines(&self) -> Vec<DayLine> {
        let mut days = lock(&self.ended).clone();
        days.push(self.running.load_full());
        days.iter().flat_map(|day| day.lines()).collect()
    }

    /// Begins the day of `now`, if none of its requests did.
    pub(crate) fn roll(&self, now: DateTime<Utc>) {
        drop(self.today(now));
    }

    /// Forgets the days before this one, which are finished.
    pub(crate) fn forget_before(&self, day: NaiveDate) {
        lock(&self.ended).retain(|ended| ended.day >= day);
    }

    fn today(&self, now: DateTime<Utc>) -> Guard<Arc<TallyOfDay>> {
        let today = self.running.load();
        let day = now.date_naive();
        // A clock that was set back counts for the later day.
        if day <= today.day {
            return today;
        }
        let mut ended = lock(&self.ended);
        if self.running.load().day < day {
            ended.push(self.running.swap(Arc::new(TallyOfDay::new(day))));
        }
        self.running.load()
    }
}

impl TallyOfDay {
    fn new(day: NaiveDate) -> Self {
        Self {
            day,
            nameless: PluginTally::default(),
            plugins: RwLock::default(),
        }
    }

    /// Counts for a plugin. Allocates for the first time only.
    fn with<T>(&self, slug: &Slug, count: impl FnOnce(&PluginTally) -> T) {
        let known = self.plugins.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(tally) = known.get(slug) {
            count(tally);
            return;
        }
        drop(known);
        let mut plugins = self.plugins.write().unwrap_or_else(PoisonError::into_inner);
        count(plugins.entry(slug.clone()).or_default());
    }

    fn lines(&self) -> Vec<DayLine> {
        let line = |plugin, tally: &PluginTally| DayLine {
            day: self.day,
            plugin,
            counts: tally.counts(),
        };
        let plugins = self.plugins.read().unwrap_or_else(PoisonError::into_inner);
        let named = plugins.iter().map(|(slug, tally)| line(Some(slug.clone()), tally));
        std::iter::once(line(None, &self.nameless)).chain(named).collect()
    }
}

impl PluginTally {
    fn counts(&self) -> DayCounts {
        let by_outcome = |counts: &EnumMap<Code, AtomicU64>| -> NamedCounts {
            let counted = counts.iter().map(|(code, count)| (code, count.load(Ordering::Relaxed)));
            let counted = counted.filter(|(_, count)| *count > 0);
            counted
                .map(|(code, count)| (<&str>::from(code).into(), count))
                .collect()
        };
        let platforms = lock(&self.platforms);
        let outcomes = lock(&self.outcomes);
        let by_release = |count: fn(&TakenCount) -> usize| -> NamedCounts {
            let counted = outcomes.iter().map(|(version, of)| (version.clone(), count(of) as u64));
            counted.filter(|(_, count)| *count > 0).collect()
        };
        DayCounts {
            updates: by_outcome(&self.updates),
            validations: by_outcome(&self.validations),
            downloads: self.downloads.load(Ordering::Relaxed),
            security: lock(&self.security).clone(),
            taken: by_release(|count| count.known),
            failed: by_release(|count| count.failed),
            wordpress: named(&platforms.wordpress),
            php: named(&platforms.php),
            quarters: lock(&self.quarters).clone(),
            ..DayCounts::default()
        }
    }
}

/// Counts a series; the rest together once there are many.
fn count_series(counts: &mut BTreeMap<Option<PlatformSeries>, u64>, series: Option<PlatformSeries>) {
    let Some(series) = series else { return };
    let is_known = counts.contains_key(&Some(series)) || counts.len() < MOST_SERIES;
    *counts.entry(is_known.then_some(series)).or_default() += 1;
}

fn named(counts: &BTreeMap<Option<PlatformSeries>, u64>) -> NamedCounts {
    let name = |series: &Option<PlatformSeries>| series.map_or_else(|| REST.into(), |series| series.to_string().into());
    counts.iter().map(|(series, count)| (name(series), *count)).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_that_is_over_is_kept_until_it_is_forgotten() {
        let at = |text: &str| -> DateTime<Utc> { text.parse().unwrap() };
        let slug: Slug = "acme".parse().unwrap();
        let version: Version = "1.2".parse().unwrap();
        let tally = DayTally::new(at("2026-11-25T23:00:00Z"));
        tally.download(&slug, &version, true, at("2026-11-25T23:59:59Z"));
        tally.download(&slug, &version, false, at("2026-11-26T00:00:00Z"));
        tally.download(&slug, &version, true, at("2026-11-25T23:59:59Z"));
        let downloads = |tally: &DayTally| -> Vec<_> {
            let lines = tally.lines().into_iter().filter(|line| line.plugin.is_some());
            lines
                .map(|line| (line.day.to_string(), line.counts.downloads))
                .collect()
        };
        assert_eq!(
            downloads(&tally),
            [("2026-11-25".to_owned(), 1), ("2026-11-26".to_owned(), 2)]
        );
        assert_eq!(tally.lines()[1].counts.quarters["1.2"], [(95, 1)].into());
        tally.security_delivery(&slug, &version, at("2026-11-26T10:00:00Z"));
        assert_eq!(
            tally.lines().last().unwrap().counts.security,
            [("1.2".into(), 1)].into()
        );
        tally.forget_before("2026-11-26".parse().unwrap());
        assert_eq!(downloads(&tally), [("2026-11-26".to_owned(), 2)]);
    }

    #[test]
    fn a_site_that_says_many_versions_adds_few() {
        let now = "2026-11-25T10:00:00Z".parse().unwrap();
        let tally = DayTally::new(now);
        for number in 0..500 {
            let wordpress = format!("{}.{}", 1 + number / 100, number % 100);
            let platform = SitePlatform::read(Some(&wordpress), Some("8.3.1"));
            tally.validation(None, Code::Ok, platform, now);
        }
        tally.validation(None, Code::Expired, SitePlatform::read(Some("x"), None), now);
        let counts = &tally.lines()[0].counts;
        assert_eq!(counts.wordpress.len(), MOST_SERIES + 1);
        assert_eq!(counts.wordpress.values().sum::<u64>(), 500);
        assert_eq!(counts.php, [("8.3".into(), 500)].into());
        assert_eq!(counts.validations, [("expired".into(), 1), ("ok".into(), 500)].into());
    }
}
