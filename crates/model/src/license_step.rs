//! Steps of a license of the ledger, such as renewing it: what they change, and when they are refused.
//!
//! The ledger's thread decides a step on the license and its bindings as they are then. Sites of a license that a file declares
//! leave and come by lines of the ledger, too.

use std::num::NonZeroU32;
use std::sync::Arc;

use chrono::{DateTime, NaiveDate, SubsecRound as _, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use crate::binding::Binding;
use crate::composer::ComposerTokens;
use crate::license::{License, LicenseStatus, Modules, SiteLimit};
use crate::period::deserialize_last_day;
use crate::rights::{RightsEdit, given};
use crate::sale::grants::SuspensionCause;
use crate::seat::Seat;
use crate::site_host::SiteHost;
use crate::staging_hosts::StagingRule;

/// A step of a license.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LicenseStep {
    /// A new last day.
    Renew(NaiveDate),
    /// Suspended until it is resumed.
    Suspend,
    /// Active again.
    Resume,
    /// Revoked for good.
    Revoke,
    /// This site loses its seat.
    ReleaseHost(SiteHost),
    /// The only site loses its seat.
    ReleaseOne,
    /// All sites lose their seats.
    ReleaseAll,
    /// One site loses its seat, and another one gets it.
    Move {
        /// The site that leaves.
        from: SiteHost,
        /// The site that is bound instead.
        to: SiteHost,
        /// The server's setting.
        staging: StagingRule,
    },
    /// Other terms; what is absent stays.
    Edit(LicenseTerms),
}

/// Terms of a license that may change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LicenseTerms {
    /// The last day.
    #[serde(default, deserialize_with = "last_day", skip_serializing_if = "Option::is_none")]
    pub expires: Option<NaiveDate>,
    /// How many sites: `Some(None)` for any number.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub sites: Option<Option<NonZeroU32>>,
    /// What it covers.
    pub modules: Option<Modules>,
    /// Hours a site may go on without an answer: `Some(None)` for the server's setting.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub grace_period_hours: Option<Option<u16>>,
    /// How many staging copies need no seat: `Some(None)` for the server's setting.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub staging_sites: Option<Option<u16>>,
    /// How often it may move in 30 days by itself: `Some(None)` for the server's setting.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub site_moves: Option<Option<u16>>,
    /// Rights of its own.
    #[serde(default)]
    pub rights: RightsEdit,
}

impl LicenseTerms {
    /// The edit that changes nothing but the Composer tokens.
    pub fn with_composer(tokens: ComposerTokens) -> Self {
        let rights = RightsEdit {
            composer: Some(tokens),
            ..RightsEdit::default()
        };
        Self {
            rights,
            ..Self::default()
        }
    }
}

fn last_day<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<NaiveDate>, D::Error> {
    deserialize_last_day(deserializer).map(Some)
}

/// Why a step is not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepRefusal {
    /// Nothing brings a revoked license back.
    #[error("the license is revoked, which cannot be undone")]
    Revoked,
    /// A license is withdrawn by suspending or revoking it.
    #[error("{0} is past")]
    Past(NaiveDate),
    /// It is not clear which site is meant.
    #[error("the license is for more than one site: name the site, or release all of them")]
    WhichSite,
    /// The site that shall leave holds no seat.
    #[error("the site that shall leave is not bound to the license")]
    NotBound,
    /// Other sites hold all seats.
    #[error("other sites hold all seats of the license")]
    NoSeat,
    /// A person lifts what a person suspended.
    #[error("the shop suspended this license{}: it works again when the shop says so", because(*.0))]
    ShopSuspended(Option<SuspensionCause>),
}

fn because(cause: Option<SuspensionCause>) -> String {
    cause.map_or_else(String::new, |cause| format!(" because {cause}"))
}

impl LicenseStep {
    /// Whether the license is not valid afterwards.
    pub fn withdraws(&self) -> bool {
        matches!(self, Self::Suspend | Self::Revoke)
    }

    /// Whether the step changes bindings only. Bindings are in the ledger, also those of a license that a file declares.
    pub fn is_about_bindings(&self) -> bool {
        matches!(
            self,
            Self::ReleaseHost(_) | Self::ReleaseOne | Self::ReleaseAll | Self::Move { .. }
        )
    }

    /// The license after the step; `None` if it is so already. `bound` are its bindings, void ones included.
    pub fn applied(
        &self,
        license: &License,
        bound: &[Binding],
        now: DateTime<Utc>,
    ) -> Result<Option<License>, StepRefusal> {
        if license.status == LicenseStatus::Revoked && *self != Self::Revoke {
            return Err(StepRefusal::Revoked);
        }
        let after = match self {
            Self::Renew(expires) => with_last_day(license, *expires, now)?,
            Self::Suspend => with_status(license, LicenseStatus::Suspended),
            Self::Resume => with_status(license, LicenseStatus::Active),
            Self::Revoke => with_status(license, LicenseStatus::Revoked),
            Self::ReleaseOne if license.sites != SiteLimit::DEFAULT => return Err(StepRefusal::WhichSite),
            Self::ReleaseOne | Self::ReleaseAll => released(license, None, bound, now),
            Self::ReleaseHost(host) if !license.knows_site(host, bound) => return Err(StepRefusal::NotBound),
            Self::ReleaseHost(host) => released(license, Some(host), bound, now),
            Self::Move { from, to, staging } => moved(license, from, to, staging, bound, now)?,
            Self::Edit(terms) => terms.applied(license, now)?,
        };
        Ok((after != *license).then_some(after))
    }
}

impl LicenseTerms {
    fn applied(&self, license: &License, now: DateTime<Utc>) -> Result<License, StepRefusal> {
        let mut after = match self.expires {
            Some(expires) => with_last_day(license, expires, now)?,
            None => license.clone(),
        };
        if let Some(sites) = self.sites {
            after.sites = sites.map_or(SiteLimit::Unlimited, SiteLimit::Limited);
        }
        if let Some(modules) = &self.modules {
            after.modules = Arc::new(modules.clone());
        }
        if let Some(hours) = self.grace_period_hours {
            after.grace_period_hours = hours;
        }
        let details = &license.details;
        let staging_sites = self.staging_sites.unwrap_or(details.staging_sites);
        let site_moves = self.site_moves.unwrap_or(details.site_moves);
        if (staging_sites, site_moves) != (details.staging_sites, details.site_moves) {
            after.details.staging_sites = staging_sites;
            after.details.site_moves = site_moves;
        }
        let rights = details.rights.after(&self.rights);
        if rights != details.rights {
            after.details.rights = rights;
        }
        Ok(after)
    }
}

fn with_last_day(license: &License, expires: NaiveDate, now: DateTime<Utc>) -> Result<License, StepRefusal> {
    if expires != license.expires && expires < now.date_naive() {
        return Err(StepRefusal::Past(expires));
    }
    Ok(License {
        expires,
        ..license.clone()
    })
}

fn with_status(license: &License, status: LicenseStatus) -> License {
    License {
        status,
        ..license.clone()
    }
}

/// The license with `to` in the place of `from`. It stays as it is if that is so already.
fn moved(
    license: &License,
    from: &SiteHost,
    to: &SiteHost,
    staging: &StagingRule,
    bound: &[Binding],
    now: DateTime<Utc>,
) -> Result<License, StepRefusal> {
    let is_held = |host: &SiteHost| license.seat(bound, staging, host) == Seat::Held;
    if !is_held(from) {
        return match license.details.hosts.contains(to) {
            true => Ok(license.clone()),
            false => Err(StepRefusal::NotBound),
        };
    }
    let mut moved = license.clone();
    let others = license.details.hosts.iter().filter(|host| *host != from && *host != to);
    moved.details.hosts = others.chain([to]).cloned().collect();
    let time = release_time(license, Some(from), bound, now);
    moved.details.released.hosts.insert(from.clone(), time);
    // If the vendor has lowered the number, a move between bound sites must still be possible.
    match moved.fits(bound, staging) || is_held(to) {
        true => Ok(moved),
        false => Err(StepRefusal::NoSeat),
    }
}

/// The license without a host, or without all. A license that the hosts do not use stays as it is.
fn released(license: &License, host: Option<&SiteHost>, bound: &[Binding], now: DateTime<Utc>) -> License {
    let is_meant = |one: &SiteHost| host.is_none_or(|host| host == one);
    let is_bound = |binding: &Binding| !license.is_void(binding) && is_meant(&binding.host);
    if !bound.iter().any(is_bound) && !license.details.hosts.iter().any(is_meant) {
        return license.clone();
    }
    let time = release_time(license, host, bound, now);
    let mut after = license.clone();
    match host {
        None => {
            after.details.hosts.clear();
            after.details.released.all = Some(time);
        }
        Some(host) => {
            after.details.hosts.retain(|listed| listed != host);
            after.details.released.hosts.insert(host.clone(), time);
        }
    }
    after
}

/// When `host`, or with `None` every site, is released. A binding is void if it is older than the release. The two times may
/// come from two clocks, so the release is later than every binding that it is for, and no earlier than a release before it.
fn release_time(license: &License, host: Option<&SiteHost>, bound: &[Binding], now: DateTime<Utc>) -> DateTime<Utc> {
    let released = &license.details.released;
    let earlier = match host {
        Some(host) => released.hosts.get(host).copied(),
        None => released.all,
    };
    let affected = bound
        .iter()
        .filter(|binding| host.is_none_or(|host| binding.host == *host));
    let latest = affected.map(|binding| after(binding.bound_at)).max();
    let now = now.trunc_subsecs(3);
    now.max(latest.unwrap_or(now)).max(earlier.unwrap_or(now))
}

/// The first time, in milliseconds as in license files, that makes a binding of this time void.
pub(crate) fn after(time: DateTime<Utc>) -> DateTime<Utc> {
    time.checked_add_signed(TimeDelta::milliseconds(1))
        .unwrap_or(time)
        .trunc_subsecs(3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::license::Details;
    use crate::license_key::LicenseId;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    fn license() -> License {
        License {
            id: LicenseId::from_bytes([1; 32]),
            status: LicenseStatus::Active,
            expires: NaiveDate::from_ymd_opt(2026, 12, 31).unwrap(),
            modules: Arc::default(),
            sites: SiteLimit::DEFAULT,
            grace_period_hours: None,
            details: Details::default(),
            is_declared: false,
        }
    }

    fn now() -> DateTime<Utc> {
        at("2026-11-24T12:00:00Z")
    }

    fn after(step: &LicenseStep, license: &License) -> Result<Option<License>, StepRefusal> {
        step.applied(license, &[], now())
    }

    #[test]
    fn a_step_that_changes_nothing_is_none_and_a_revoked_license_stays_so() {
        let suspended = after(&LicenseStep::Suspend, &license()).unwrap().unwrap();
        assert_eq!(suspended.status, LicenseStatus::Suspended);
        assert_eq!(after(&LicenseStep::Suspend, &suspended), Ok(None));
        assert_eq!(after(&LicenseStep::Resume, &suspended), Ok(Some(license())));
        let revoked = after(&LicenseStep::Revoke, &suspended).unwrap().unwrap();
        assert_eq!(after(&LicenseStep::Revoke, &revoked), Ok(None));
        assert_eq!(after(&LicenseStep::Resume, &revoked), Err(StepRefusal::Revoked));
        let past = NaiveDate::from_ymd_opt(2026, 11, 23).unwrap();
        assert_eq!(
            after(&LicenseStep::Renew(past), &license()),
            Err(StepRefusal::Past(past))
        );
    }

    #[test]
    fn a_released_binding_is_void_whatever_the_clocks_say() {
        let ahead = Binding::new("a.com".parse().unwrap(), at("2026-11-24T13:00:00Z"));
        for step in [
            LicenseStep::ReleaseOne,
            LicenseStep::ReleaseAll,
            LicenseStep::ReleaseHost("a.com".parse().unwrap()),
        ] {
            let bound = std::slice::from_ref(&ahead);
            let released = step.applied(&license(), bound, now()).unwrap().unwrap();
            assert!(released.details.released.voids(&ahead), "{step:?}");
            assert_eq!(step.applied(&released, bound, now()), Ok(None), "{step:?}");
        }
        let several = License {
            sites: SiteLimit::Unlimited,
            ..license()
        };
        assert_eq!(after(&LicenseStep::ReleaseOne, &several), Err(StepRefusal::WhichSite));
        assert_eq!(after(&LicenseStep::ReleaseAll, &several), Ok(None), "nobody is bound");
        let mistyped = LicenseStep::ReleaseHost("b.com".parse().unwrap());
        let bound = std::slice::from_ref(&ahead);
        assert_eq!(mistyped.applied(&several, bound, now()), Err(StepRefusal::NotBound));
    }

    #[test]
    fn a_move_gives_the_seat_of_a_bound_site_to_another_one() {
        let host = |name: &str| -> SiteHost { name.parse().unwrap() };
        let bound = |names: &[&str]| -> Vec<Binding> {
            let bound = names
                .iter()
                .map(|name| Binding::new(host(name), at("2026-11-20T12:00:00Z")));
            bound.collect()
        };
        let step = LicenseStep::Move {
            from: host("a.com"),
            to: host("b.com"),
            staging: 1.into(),
        };
        let one = bound(&["a.com"]);
        let moved = step.applied(&license(), &one, now()).unwrap().unwrap();
        assert_eq!(*moved.details.hosts, [host("b.com")]);
        assert!(moved.details.released.voids(&one[0]));
        assert_eq!(step.applied(&moved, &one, now()), Ok(None), "a second time");
        let stranger = bound(&["c.com"]);
        assert_eq!(step.applied(&license(), &stranger, now()), Err(StepRefusal::NotBound));
        let with_copy = bound(&["a.com", "x.a.com"]);
        assert_eq!(step.applied(&license(), &with_copy, now()), Err(StepRefusal::NoSeat));
        let lowered = bound(&["a.com", "b.com", "c.com"]);
        assert!(step.applied(&license(), &lowered, now()).unwrap().is_some());
    }

    #[test]
    fn an_order_of_a_command_reaches_the_server_as_it_is() {
        let lifted = LicenseTerms {
            sites: Some(None),
            grace_period_hours: Some(None),
            staging_sites: Some(Some(2)),
            ..LicenseTerms::default()
        };
        for terms in [LicenseTerms::default(), lifted] {
            let step = LicenseStep::Edit(terms);
            let sent = serde_json::to_string(&step).unwrap();
            assert_eq!(serde_json::from_str::<LicenseStep>(&sent).unwrap(), step, "{sent}");
        }
    }

    #[test]
    fn terms_change_what_they_name() {
        let terms = LicenseTerms {
            sites: Some(None),
            grace_period_hours: Some(Some(48)),
            ..LicenseTerms::default()
        };
        let edited = after(&LicenseStep::Edit(terms), &license()).unwrap().unwrap();
        assert_eq!(
            (edited.sites, edited.grace_period_hours),
            (SiteLimit::Unlimited, Some(48))
        );
        assert_eq!((edited.expires, edited.status), (license().expires, license().status));
    }
}
