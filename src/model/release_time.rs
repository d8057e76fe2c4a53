//! When a release happens: late enough for every binding that it makes void.
//!
//! A binding is void if it is older than the release. The two times may come from two clocks, so the release gets a time later than
//! every binding it is for, whatever this clock says.

use chrono::{DateTime, SubsecRound as _, TimeDelta, Utc};

use crate::model::binding::Binding;
use crate::model::license::License;
use crate::model::site_host::SiteHost;

/// A release time, and the reason for it.
#[derive(Clone, Debug)]
pub struct ReleaseTime {
    /// Bindings before it are void.
    pub time: DateTime<Utc>,
    /// How many bindings it makes void.
    pub bound: usize,
    /// Why it is in the future, if it is.
    pub ahead: Option<&'static str>,
}

impl ReleaseTime {
    /// Releases `host`, or all sites with `None`. `stored` are the bound sites, if they are known.
    pub fn new(license: &License, host: Option<&SiteHost>, stored: Option<&[Binding]>, now: DateTime<Utc>) -> Self {
        let released = &license.details.released;
        let affected = || {
            stored
                .unwrap_or_default()
                .iter()
                .filter(|binding| host.is_none_or(|host| binding.host == *host))
        };
        let earlier = match host {
            Some(host) => released.hosts.get(host).copied(),
            None => released.all,
        };
        // A site bound after a release gets a time no earlier than the release. If the bindings are unknown, one may
        // have exactly that time.
        let unknown = match (stored, host) {
            (Some(_), _) => None,
            (None, Some(host)) => released.time_of(host),
            (None, None) => released.hosts.values().copied().max().max(released.all),
        };
        let now = now.trunc_subsecs(3);
        let latest_binding = affected().map(|binding| binding.bound_at).max().map(after);
        let earlier = earlier.max(unknown.map(after));
        let time = now.max(latest_binding.unwrap_or(now)).max(earlier.unwrap_or(now));
        let ahead = match time {
            time if time == now => None,
            time if Some(time) == latest_binding => {
                Some("the clock of the server that bound the site is ahead of this one")
            }
            _ => Some("an earlier release has a time in the future"),
        };
        Self {
            time,
            bound: affected().count(),
            ahead,
        }
    }
}

/// The first time, in milliseconds as in the registry, that makes a binding of this time void.
fn after(time: DateTime<Utc>) -> DateTime<Utc> {
    time.checked_add_signed(TimeDelta::milliseconds(1))
        .unwrap_or(time)
        .trunc_subsecs(3)
}
