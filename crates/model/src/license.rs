//! Licenses: what the vendor grants, and which sites may use it.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use chrono::{DateTime, Days, NaiveDate, Utc};

use crate::binding::Binding;
use crate::host_index::HostSet;
use crate::license_key::LicenseId;
use crate::name::Name;
use crate::period::{self, NEVER};
use crate::remarks::Remarks;
use crate::rights::Rights;
use crate::sale::terms::SoldGrant;
use crate::site_host::SiteHost;

pub use crate::license_terms::{LicenseStatus, Modules, SiteLimit};

/// The longest time that a site may go on without an answer, in hours: a year.
pub const MAX_GRACE_PERIOD_HOURS: u16 = 8_760;

/// A license, declared by a file of the registry or kept in the ledger.
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
    /// Hosts listed in the registry, releases, a note, and limits of its own.
    pub details: Details,
    /// Whether a file of the registry declares it. Otherwise the ledger has it.
    pub is_declared: bool,
}

/// The state of a license on a given day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
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

impl LicenseState {
    /// `active`, `expired`, `suspended` or `revoked`.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// Fields that few licenses have, or only the vendor asks for. They take no space in other licenses.
#[derive(Clone, Debug, Default)]
pub struct Details(Option<Box<LicenseDetails>>);

/// The details of a license.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LicenseDetails {
    /// Hosts to bind before their first validation, at most as many as `sites`.
    pub hosts: HostSet,
    /// Releases: bindings that the vendor made void.
    pub released: ReleaseTimes,
    /// A note for the vendor.
    pub note: String,
    /// The license that this one replaces.
    pub replaces: Option<LicenseId>,
    /// How many staging copies need no seat; `None` for the server's setting.
    pub staging_sites: Option<u16>,
    /// How often it may move in 30 days without the vendor; `None` for the server's setting.
    pub site_moves: Option<u16>,
    /// If a renewal is to come: days that it goes on after its paid end without it.
    pub renewal_days: Option<u16>,
    /// Rights of its own.
    pub rights: Rights,
    /// The customer number, metadata and names of texts that the ledger keeps. A declared license has none.
    pub remarks: Option<Box<Remarks>>,
}

impl LicenseDetails {
    /// The customer number, metadata and names of texts; those of [`Remarks::NONE`] for a declared license.
    pub fn remarks(&self) -> &Remarks {
        static NONE: Remarks = Remarks::NONE;
        self.remarks.as_deref().unwrap_or(&NONE)
    }
}

/// Bindings made before these times are void: of one host, and of all hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
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
            hosts: HostSet::EMPTY,
            released: ReleaseTimes {
                hosts: BTreeMap::new(),
                all: None,
            },
            note: String::new(),
            replaces: None,
            staging_sites: None,
            site_moves: None,
            renewal_days: None,
            rights: Rights::NONE,
            remarks: None,
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

/// Modules with their features: `base forms=pdf,api`.
pub fn module_list(modules: &Modules) -> String {
    let module = |(module, features): (&Name, &Vec<Name>)| {
        let features: Vec<_> = features.iter().map(Name::as_str).collect();
        match features.as_slice() {
            [] => module.to_string(),
            features => format!("{module}={}", features.join(",")),
        }
    };
    modules.iter().map(module).collect::<Vec<_>>().join(" ")
}

impl License {
    /// The state on `today` (UTC). The vendor's status takes precedence over the expiry date.
    pub fn state(&self, today: NaiveDate) -> LicenseState {
        match self.status {
            LicenseStatus::Revoked => LicenseState::Revoked,
            LicenseStatus::Suspended => LicenseState::Suspended,
            LicenseStatus::Active if today > self.last_day() => LicenseState::Expired,
            LicenseStatus::Active => LicenseState::Active,
        }
    }

    /// Takes the limits that another license has of its own.
    pub fn take_limits(&mut self, other: &LicenseDetails) {
        let own = (
            self.details.staging_sites,
            self.details.site_moves,
            self.details.renewal_days,
        );
        if own != (other.staging_sites, other.site_moves, other.renewal_days) {
            self.details.staging_sites = other.staging_sites;
            self.details.site_moves = other.site_moves;
            self.details.renewal_days = other.renewal_days;
        }
    }

    /// Whether a renewal is to come, so that its paid end is no end.
    pub fn renews(&self) -> bool {
        self.status == LicenseStatus::Active && self.details.renewal_days.is_some()
    }

    /// The end to tell on `today`: the last day that is paid, and once it is past, the last day of grace. So nobody sees an active
    /// license with a day that is past.
    pub fn end_on(&self, today: NaiveDate) -> NaiveDate {
        match today <= self.expires {
            true => self.expires,
            false => self.last_day(),
        }
    }

    /// The last day on which it is valid: the day that is paid, and while a renewal is to come, the days after it.
    pub fn last_day(&self) -> NaiveDate {
        let days = self.details.renewal_days.unwrap_or(0);
        let last = self.expires.checked_add_days(Days::new(days.into()));
        last.and_then(period::last_day).unwrap_or(NEVER)
    }

    /// What a shop may change of it.
    pub fn sold_grant(&self) -> SoldGrant {
        SoldGrant {
            expires: self.expires,
            modules: Arc::clone(&self.modules),
            renewal_days: self.details.renewal_days,
            site_moves: self.details.site_moves,
            sites: self.sites,
            staging_sites: self.details.staging_sites,
            status: self.status,
        }
    }

    /// Takes what a shop grants, with what people changed of it.
    pub fn take_sold(&mut self, grant: &SoldGrant) {
        self.status = grant.status;
        self.expires = grant.expires;
        self.modules = Arc::clone(&grant.modules);
        self.sites = grant.sites;
        let limits = LicenseDetails {
            staging_sites: grant.staging_sites,
            site_moves: grant.site_moves,
            renewal_days: grant.renewal_days,
            ..LicenseDetails::default()
        };
        self.take_limits(&limits);
    }

    /// Replaces the customer number, metadata and names of texts.
    pub fn set_remarks(&mut self, remarks: Remarks) {
        if *self.details.remarks() != remarks {
            self.details.remarks = remarks.held();
        }
    }

    /// How often it may move in 30 days without the vendor. `default` is the server's setting.
    pub fn most_moves(&self, default: u32) -> u32 {
        self.details.site_moves.map_or(default, u32::from)
    }

    /// Whether this site uses the license, or ever did: license files list it, or it was bound or released. `bound` are the
    /// license's bindings, void ones included.
    pub fn knows_site(&self, host: &SiteHost, bound: &[Binding]) -> bool {
        let details = &self.details;
        details.hosts.contains(host)
            || details.released.hosts.contains_key(host)
            || bound.iter().any(|binding| binding.host == *host)
    }

    /// Whether this binding holds no seat: the vendor or the site itself released it.
    pub fn is_void(&self, binding: &Binding) -> bool {
        binding.is_released() || self.details.released.voids(binding)
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
            is_declared: false,
        }
    }

    fn day(year: i32, month: u32, day: u32) -> NaiveDate {
        NaiveDate::from_ymd_opt(year, month, day).unwrap()
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
}
