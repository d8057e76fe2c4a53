//! Licenses: what the vendor grants, and which sites may use it.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};

use crate::model::binding::{Binding, Stored};
use crate::model::license_key::LicenseId;
use crate::model::name::Name;
use crate::model::site_host::SiteHost;

/// What a license covers: module to its features.
pub type Modules = BTreeMap<Name, Vec<Name>>;

/// One `[[license]]` of the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct License {
    /// SHA-256 of its key's canonical form.
    pub id: LicenseId,
    /// The status that the vendor set.
    pub status: LicenseStatus,
    /// The last day it is valid, through its end in UTC.
    pub expires: NaiveDate,
    /// Modules and their features, shared between licenses that grant the same.
    pub modules: Arc<Modules>,
    /// How many sites may be bound.
    pub sites: SiteLimit,
    /// Hours a site may go on without an answer; `None` for the server's setting.
    pub grace_period_hours: Option<u16>,
    /// Hosts listed in the registry, releases, and a note.
    pub details: Details,
}

/// The status that the vendor set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LicenseStatus {
    /// In use.
    Active,
    /// Suspended until resumed.
    Suspended,
    /// Revoked for good.
    Revoked,
}

impl LicenseStatus {
    /// As in the registry.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Suspended => "suspended",
            Self::Revoked => "revoked",
        }
    }
}

/// The state of a license on a given day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LicenseState {
    /// Valid.
    Active,
    /// Past its last day.
    Expired,
    /// Suspended by the vendor.
    Suspended,
    /// Revoked by the vendor.
    Revoked,
}

/// How many sites may be bound to a license.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SiteLimit {
    /// At most this many.
    Limited(NonZeroU32),
    /// Any number.
    Unlimited,
}

impl SiteLimit {
    /// The default: one site.
    pub const DEFAULT: Self = Self::Limited(NonZeroU32::MIN);
}

impl std::fmt::Display for SiteLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Limited(limit) => limit.fmt(f),
            Self::Unlimited => f.pad("unlimited"),
        }
    }
}

/// Fields that few licenses have, or only the vendor asks for. They take no space in other licenses.
#[derive(Clone, Debug, Default)]
pub struct Details(Option<Box<LicenseDetails>>);

/// The details of a license.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LicenseDetails {
    /// Hosts to bind before their first validation, at most as many as `sites`.
    pub hosts: Vec<SiteHost>,
    /// Releases: bindings that the vendor made void.
    pub released: ReleaseTimes,
    /// A note for the vendor.
    pub note: String,
    /// The license that this one replaces.
    pub replaces: Option<LicenseId>,
}

/// Bindings made before these times are void: of one host, and of all hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReleaseTimes {
    /// `host = time`.
    pub hosts: BTreeMap<SiteHost, DateTime<Utc>>,
    /// `"*" = time`.
    pub all: Option<DateTime<Utc>>,
}

impl From<LicenseDetails> for Details {
    fn from(held: LicenseDetails) -> Self {
        Self((held != LicenseDetails::default()).then(|| Box::new(held)))
    }
}

impl PartialEq for Details {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Details {}

impl Deref for Details {
    type Target = LicenseDetails;

    fn deref(&self) -> &LicenseDetails {
        static NONE: LicenseDetails = LicenseDetails {
            hosts: Vec::new(),
            released: ReleaseTimes {
                hosts: BTreeMap::new(),
                all: None,
            },
            note: String::new(),
            replaces: None,
        };
        self.0.as_deref().unwrap_or(&NONE)
    }
}

impl DerefMut for Details {
    fn deref_mut(&mut self) -> &mut LicenseDetails {
        self.0.get_or_insert_default()
    }
}

impl ReleaseTimes {
    /// Whether there are no releases.
    pub fn is_empty(&self) -> bool {
        self.all.is_none() && self.hosts.is_empty()
    }

    /// Whether this binding is void.
    pub fn voids(&self, binding: &Binding) -> bool {
        self.time_of(&binding.host).is_some_and(|time| binding.bound_at < time)
    }

    /// Bindings of `host` made before this time are void.
    pub fn time_of(&self, host: &SiteHost) -> Option<DateTime<Utc>> {
        self.hosts.get(host).copied().max(self.all)
    }
}

/// Whether a host can use a license.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seat<'a> {
    /// The host is bound.
    Held,
    /// The host is not bound, and a site is free.
    Free,
    /// The host is not bound, and no site is free. Has the first bound host.
    Taken {
        /// The host that was bound first.
        first: &'a SiteHost,
    },
}

impl License {
    /// The state on `today` (UTC). The vendor's status takes precedence over the expiry date.
    pub fn state(&self, today: NaiveDate) -> LicenseState {
        match self.status {
            LicenseStatus::Revoked => LicenseState::Revoked,
            LicenseStatus::Suspended => LicenseState::Suspended,
            LicenseStatus::Active if today > self.expires => LicenseState::Expired,
            LicenseStatus::Active => LicenseState::Active,
        }
    }

    /// Whether `host` can use this license. A bound host is not counted again, so it stays bound even if the vendor
    /// lowers `sites`. Hosts listed in the registry come first.
    pub fn seat<'a>(&'a self, stored: &'a (impl Stored + ?Sized), host: &SiteHost) -> Seat<'a> {
        self.seat_beside(stored, &[], host)
    }

    /// The same, if the hosts in `under_way` are about to be bound, too.
    pub fn seat_beside<'a>(
        &'a self,
        stored: &'a (impl Stored + ?Sized),
        under_way: &'a [SiteHost],
        host: &SiteHost,
    ) -> Seat<'a> {
        let LicenseDetails {
            hosts: ahead, released, ..
        } = &*self.details;
        if ahead.contains(host) || under_way.contains(host) || self.holds(stored, host) {
            return Seat::Held;
        }
        let valid = || {
            let all = stored.all().iter();
            all.filter(|binding| !released.voids(binding))
                .map(|binding| &binding.host)
        };
        match ahead.iter().chain(valid()).chain(under_way).next() {
            Some(first) if !self.has_room(stored, under_way.len()) => Seat::Taken { first },
            _ => Seat::Free,
        }
    }

    /// Whether another site is free beside the bound ones and `under_way` others. Looks at each binding only if there
    /// are releases.
    fn has_room(&self, stored: &(impl Stored + ?Sized), under_way: usize) -> bool {
        let SiteLimit::Limited(limit) = self.sites else {
            return true;
        };
        let LicenseDetails {
            hosts: ahead, released, ..
        } = &*self.details;
        let all = stored.all();
        let valid = match released.is_empty() {
            true => all.len(),
            false => all.iter().filter(|binding| !released.voids(binding)).count(),
        };
        let ahead = ahead.iter().filter(|host| !self.holds(stored, host)).count();
        ahead + valid + under_way < limit.get() as usize
    }

    /// Whether `stored` has a valid binding of `host`.
    fn holds(&self, stored: &(impl Stored + ?Sized), host: &SiteHost) -> bool {
        stored
            .find(host)
            .is_some_and(|binding| !self.details.released.voids(binding))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn license() -> License {
        License {
            id: LicenseId::from_bytes([1; 32]),
            status: LicenseStatus::Active,
            expires: day(2026, 12, 31),
            modules: Arc::default(),
            sites: SiteLimit::DEFAULT,
            grace_period_hours: None,
            details: Details::default(),
        }
    }

    fn day(year: i32, month: u32, day: u32) -> NaiveDate {
        NaiveDate::from_ymd_opt(year, month, day).unwrap()
    }

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(seconds, 0).unwrap()
    }

    fn host(text: &str) -> SiteHost {
        text.parse().unwrap()
    }

    fn binding(text: &str, seconds: i64) -> Binding {
        Binding {
            host: host(text),
            bound_at: at(seconds),
        }
    }

    #[test]
    fn a_license_is_valid_through_the_end_of_its_last_day() {
        assert_eq!(license().state(day(2026, 12, 31)), LicenseState::Active);
        assert_eq!(license().state(day(2027, 1, 1)), LicenseState::Expired);
    }

    #[test]
    fn the_vendors_word_goes_before_the_calendar() {
        let long_past = day(2030, 1, 1);
        let with = |status| License { status, ..license() };
        assert_eq!(with(LicenseStatus::Suspended).state(long_past), LicenseState::Suspended);
        assert_eq!(with(LicenseStatus::Revoked).state(long_past), LicenseState::Revoked);
    }

    #[test]
    fn a_full_license_names_the_first_bound_host_and_keeps_those_bound() {
        let three = License {
            sites: SiteLimit::Limited(NonZeroU32::new(3).unwrap()),
            ..license()
        };
        let stored = [binding("a.com", 1), binding("b.com", 2), binding("c.com", 3)];
        assert_eq!(three.seat(&stored[..2], &host("d.com")), Seat::Free);
        assert_eq!(
            three.seat(&stored[..], &host("d.com")),
            Seat::Taken { first: &host("a.com") }
        );
        assert_eq!(three.seat(&stored[..], &host("c.com")), Seat::Held);
        let one = license();
        assert_eq!(one.seat(&stored[..], &host("c.com")), Seat::Held, "sites lowered since");
    }

    #[test]
    fn a_release_voids_what_was_bound_before_it_and_nothing_after() {
        let mut moved = license();
        moved.details.released.hosts.insert(host("a.com"), at(10));
        assert_eq!(moved.seat(&[binding("a.com", 9)][..], &host("b.com")), Seat::Free);
        assert_eq!(
            moved.seat(&[binding("a.com", 10)][..], &host("b.com")),
            Seat::Taken { first: &host("a.com") }
        );
        moved.details.released = ReleaseTimes {
            all: Some(at(20)),
            ..ReleaseTimes::default()
        };
        assert_eq!(moved.seat(&[binding("a.com", 19)][..], &host("b.com")), Seat::Free);
    }

    #[test]
    fn hosts_bound_ahead_take_a_seat_once() {
        let mut ahead = license();
        ahead.details.hosts.push(host("a.com"));
        assert_eq!(ahead.seat(&[][..], &host("a.com")), Seat::Held);
        assert_eq!(
            ahead.seat(&[][..], &host("b.com")),
            Seat::Taken { first: &host("a.com") }
        );
        let two = License {
            sites: SiteLimit::Limited(NonZeroU32::new(2).unwrap()),
            ..ahead
        };
        assert_eq!(two.seat(&[binding("a.com", 1)][..], &host("b.com")), Seat::Free);
    }

    #[test]
    fn unlimited_is_never_taken() {
        let unlimited = License {
            sites: SiteLimit::Unlimited,
            ..license()
        };
        assert_eq!(unlimited.seat(&[binding("a.com", 1)][..], &host("b.com")), Seat::Free);
    }
}
