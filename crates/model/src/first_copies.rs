//! The first copies that a license gave: packages that nobody bound a site for. How many there may be, to how many networks.
//!
//! It is telemetry, kept beside what sites report. The limits rest on it and on what a node remembers, so that they are
//! approximate where several nodes give copies at the same moment. `countersign review` lists what is odd.

use chrono::{DateTime, NaiveDate, Utc};
use serde::{Deserialize, Serialize};

use crate::period::midnight_after;

/// The days that count, the current one among them.
pub const DAYS: u32 = 14;

/// The most packages of a license in [`DAYS`].
pub const MOST_PACKAGES: u32 = 20;

/// The most networks of a license on one day (UTC).
pub const MOST_NETWORKS: usize = 3;

/// A license whose copies went to more networks in [`DAYS`] is worth a look.
pub const MANY_NETWORKS: usize = 5;

/// What a package counts, so that a part of it counts as a part.
pub const PARTS: u32 = 64;

/// The most networks that are kept of a day: nodes that do not know of each other give more than one alone.
const KEPT_NETWORKS: usize = 16;

/// The first copies that a license gave in the last days.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstCopies {
    /// The latest copy or refusal.
    pub last: DateTime<Utc>,
    /// The first refusal of the latest day with one, because there were too many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<DateTime<Utc>>,
    /// By day, oldest first.
    days: Vec<CopiesOfDay>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct CopiesOfDay {
    day: NaiveDate,
    /// In parts of a package.
    parts: u32,
    /// See [`DownloadKey::network_tag`](crate::download_key::DownloadKey::network_tag). No address is kept.
    networks: Vec<u16>,
}

/// Which limit a further copy would exceed, and when there may be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstCopyLimit {
    /// [`MOST_PACKAGES`].
    Packages {
        /// The midnight when enough of them are past.
        until: DateTime<Utc>,
    },
    /// [`MOST_NETWORKS`].
    Networks {
        /// The next midnight.
        until: DateTime<Utc>,
    },
}

impl FirstCopyLimit {
    /// When there may be a copy again.
    pub fn until(self) -> DateTime<Utc> {
        match self {
            Self::Packages { until } | Self::Networks { until } => until,
        }
    }
}

/// The parts that `bytes` of a package of `size` bytes count: 1 at least.
pub fn parts(bytes: u64, size: u64) -> u32 {
    let parts = (u128::from(bytes) * u128::from(PARTS)).div_ceil(u128::from(size.max(1)));
    (parts as u32).clamp(1, PARTS)
}

impl FirstCopies {
    /// One that was given: so many parts of it, to this network.
    pub fn given(time: DateTime<Utc>, parts: u32, network: u16) -> Self {
        Self {
            last: time,
            refused: None,
            days: vec![CopiesOfDay {
                day: time.date_naive(),
                parts,
                networks: vec![network],
            }],
        }
    }

    /// One that was refused.
    pub fn refused(time: DateTime<Utc>) -> Self {
        Self {
            last: time,
            refused: Some(time),
            days: Vec::new(),
        }
    }

    /// Adds what was given and refused after this.
    pub fn merge(&mut self, newer: Self) {
        self.combine(newer, u32::saturating_add);
    }

    /// Learns what another place knows of the same copies: of each day, the higher number counts.
    pub fn learn(&mut self, known: Self) {
        let last = self.last.max(known.last);
        self.combine(known, u32::max);
        self.last = last;
    }

    fn combine(&mut self, other: Self, parts: impl Fn(u32, u32) -> u32) {
        // Not the greater one: a clock that was ahead must not keep the license here for ever.
        self.last = other.last;
        self.refused = self.refused.max(other.refused);
        for day in other.days {
            match self.days.iter_mut().find(|known| known.day == day.day) {
                None => self.days.push(day),
                Some(known) => {
                    known.parts = parts(known.parts, day.parts);
                    let new = day.networks.iter().filter(|network| !known.networks.contains(network));
                    let room = KEPT_NETWORKS.saturating_sub(known.networks.len());
                    let new: Vec<_> = new.take(room).copied().collect();
                    known.networks.extend(new);
                }
            }
        }
        let today = self.last.date_naive();
        // Another node's clock may be a day ahead at midnight.
        let counts = |day: &CopiesOfDay| (-1..i64::from(DAYS)).contains(&(today - day.day).num_days());
        self.days.retain(counts);
        self.days.sort_by_key(|day| day.day);
    }

    /// Whether so many parts more may go to this network now.
    pub fn check(&self, now: DateTime<Utc>, parts: u32, network: u16) -> Result<(), FirstCopyLimit> {
        let today = now.date_naive();
        let tomorrow = midnight_after(today, 1);
        let of_today = self.days.iter().filter(|day| day.day >= today);
        let networks: Vec<u16> = of_today.flat_map(|day| day.networks.iter().copied()).collect();
        if !networks.contains(&network) && networks.len() >= MOST_NETWORKS {
            return Err(FirstCopyLimit::Networks { until: tomorrow });
        }
        let mut given = self.parts(now);
        let most = MOST_PACKAGES * PARTS;
        if given + parts <= most {
            return Ok(());
        }
        let mut until = tomorrow;
        for day in self.counted(now) {
            given = given.saturating_sub(day.parts);
            until = midnight_after(day.day, u64::from(DAYS));
            if given + parts <= most {
                break;
            }
        }
        Err(FirstCopyLimit::Packages { until })
    }

    /// The days that count now, oldest first.
    fn counted(&self, now: DateTime<Utc>) -> impl Iterator<Item = &CopiesOfDay> {
        let today = now.date_naive();
        self.days
            .iter()
            .filter(move |day| (today - day.day).num_days() < i64::from(DAYS))
    }

    fn parts(&self, now: DateTime<Utc>) -> u32 {
        self.counted(now)
            .fold(0, |parts, day| parts.saturating_add(day.parts).min(u32::MAX / 2))
    }

    /// How many packages were given in the last [`DAYS`], rounded up.
    pub fn packages(&self, now: DateTime<Utc>) -> u32 {
        self.parts(now).div_ceil(PARTS)
    }

    /// To how many networks.
    pub fn networks(&self, now: DateTime<Utc>) -> usize {
        let mut networks: Vec<u16> = self.counted(now).flat_map(|day| day.networks.iter().copied()).collect();
        networks.sort_unstable();
        networks.dedup();
        networks.len()
    }

    /// Whether somebody should look at the license: its copies went to many networks, or there were too many.
    pub fn are_odd(&self, now: DateTime<Utc>) -> bool {
        let is_recent = |time: DateTime<Utc>| (now - time).num_days() < i64::from(DAYS);
        self.networks(now) > MANY_NETWORKS || self.refused.is_some_and(is_recent)
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    fn noon(day: i64) -> DateTime<Utc> {
        let first: DateTime<Utc> = "2026-11-01T12:00:00Z".parse().unwrap();
        first + TimeDelta::days(day - 1)
    }

    /// The copies of a license that asked so: day, network.
    fn asked(questions: &[(i64, u16)]) -> (FirstCopies, Vec<bool>) {
        let mut copies = FirstCopies {
            last: noon(0),
            refused: None,
            days: Vec::new(),
        };
        let mut answers = Vec::new();
        for (day, network) in questions {
            let may = copies.check(noon(*day), PARTS, *network).is_ok();
            if may {
                copies.merge(FirstCopies::given(noon(*day), PARTS, *network));
            }
            answers.push(may);
        }
        (copies, answers)
    }

    #[test]
    fn twenty_packages_in_fourteen_days_and_then_the_oldest_leave() {
        let (copies, answers) = asked(&[[(1, 7); 15], [(2, 7); 15]].concat());
        assert_eq!(answers.iter().filter(|answer| **answer).count(), 20);
        assert_eq!((copies.packages(noon(2)), copies.networks(noon(2))), (20, 1));
        let until = "2026-11-15T00:00:00Z".parse().unwrap();
        assert_eq!(
            copies.check(noon(14), PARTS, 7),
            Err(FirstCopyLimit::Packages { until }),
            "those of the first day leave"
        );
        assert_eq!(copies.check(noon(15), PARTS, 7), Ok(()));
        assert_eq!(copies.packages(noon(15)), 5);
    }

    #[test]
    fn three_networks_on_a_day_and_others_on_the_next() {
        let (copies, answers) = asked(&[(1, 1), (1, 2), (1, 3), (1, 4), (1, 2), (2, 4), (2, 5), (2, 6), (2, 1)]);
        assert_eq!(answers, [true, true, true, false, true, true, true, true, false]);
        assert_eq!((copies.networks(noon(2)), copies.packages(noon(2))), (6, 7));
        assert!(copies.are_odd(noon(2)) && !copies.are_odd(noon(16)));
        let until = "2026-11-03T00:00:00Z".parse().unwrap();
        assert_eq!(copies.check(noon(2), 1, 9), Err(FirstCopyLimit::Networks { until }));
    }

    #[test]
    fn a_part_counts_as_a_part() {
        assert_eq!(
            [(0, 100), (1, 100), (50, 100), (100, 100), (9, 0)].map(|(a, b)| parts(a, b)),
            [1, 1, 32, 64, 64]
        );
        let mut copies = FirstCopies::given(noon(1), MOST_PACKAGES * PARTS - 10, 1);
        assert!(copies.check(noon(1), 10, 1).is_ok() && copies.check(noon(1), 11, 1).is_err());
        copies.merge(FirstCopies::given(noon(1), u32::MAX, 1));
        assert!(copies.check(noon(1), 1, 1).is_err());
    }

    #[test]
    fn what_another_node_wrote_is_learned_and_what_this_one_knows_is_not_counted_twice() {
        let mut own = FirstCopies::given(noon(1), 100, 1);
        let mut stored = own.clone();
        stored.merge(FirstCopies::given(noon(1), 64, 2));
        stored.merge(FirstCopies::refused(noon(1)));
        own.learn(stored.clone());
        assert_eq!(own, stored);
        own.learn(stored.clone());
        assert_eq!(own, stored);
        let json = serde_json::to_string(&own).unwrap();
        assert_eq!(serde_json::from_str::<FirstCopies>(&json).unwrap(), own);
    }

    #[test]
    fn a_refusal_is_odd_for_fourteen_days() {
        let mut copies = FirstCopies::given(noon(1), PARTS, 1);
        assert!(!copies.are_odd(noon(1)));
        copies.merge(FirstCopies::refused(noon(1)));
        assert!(copies.are_odd(noon(14)) && !copies.are_odd(noon(15)));
    }

    #[test]
    fn a_clock_that_was_ahead_keeps_nothing_for_ever() {
        let mut copies = FirstCopies::given(noon(100), PARTS, 1);
        copies.merge(FirstCopies::given(noon(1), PARTS, 1));
        assert_eq!((copies.packages(noon(1)), copies.last), (1, noon(1)));
    }
}
