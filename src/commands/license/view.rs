//! A license as `list`, `show` and `issue` print it with `--json`.

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDate, Utc};
use serde::Serialize;

use crate::model::license::{License, LicenseState, LicenseStatus, Modules, SiteLimit};
use crate::model::license_key::LicenseId;
use crate::model::site_host::SiteHost;
use crate::registry::Registry;

/// The fields of the registry, and derived ones.
#[derive(Debug, Serialize)]
pub(super) struct View<'a> {
    id: LicenseId,
    status: LicenseStatus,
    standing: &'static str,
    expires: NaiveDate,
    modules: &'a Modules,
    #[serde(serialize_with = "number_or_unlimited")]
    sites: SiteLimit,
    #[serde(skip_serializing_if = "Option::is_none")]
    grace_period_hours: Option<u16>,
    hosts: &'a [SiteHost],
    released: BTreeMap<&'a str, String>,
    note: &'a str,
    /// The license that this one replaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    replaces: Option<LicenseId>,
    /// The license that replaced this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced_by: Option<LicenseId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
}

impl<'a> View<'a> {
    /// The view of `license` on `today`, with its position in the `registry`.
    pub(super) fn new(license: &'a License, registry: &'a Registry, today: NaiveDate) -> Self {
        Self {
            id: license.id,
            status: license.status,
            standing: state(license, today),
            expires: license.expires,
            modules: &license.modules,
            sites: license.sites,
            grace_period_hours: license.grace_period_hours,
            hosts: &license.details.hosts,
            released: released(license),
            note: &license.details.note,
            replaces: license.details.replaces,
            replaced_by: None,
            place: registry
                .place(&license.id)
                .map(|(file, line)| format!("{}:{line}", file.display())),
        }
    }

    /// The same with the license that replaced it, for which all licenses must be searched.
    pub(super) fn with_successor(self, registry: &Registry) -> Self {
        let successor = registry
            .licenses()
            .find(|other| other.details.replaces == Some(self.id));
        Self {
            replaced_by: successor.map(|license| license.id),
            ..self
        }
    }

    /// The license that replaced it.
    pub(super) fn replaced_by(&self) -> Option<LicenseId> {
        self.replaced_by
    }

    /// Its position, as `file:line`.
    pub(super) fn place(&self) -> &str {
        self.place.as_deref().unwrap_or_default()
    }
}

/// The license's state as a word.
pub(super) fn state(license: &License, today: NaiveDate) -> &'static str {
    match license.state(today) {
        LicenseState::Active => "active",
        LicenseState::Expired => "expired",
        LicenseState::Suspended => "suspended",
        LicenseState::Revoked => "revoked",
    }
}

/// Modules with their features: `base forms=pdf,api`.
pub(super) fn modules(license: &License) -> String {
    let module = |(module, features): (&_, &Vec<_>)| match features.as_slice() {
        [] => format!("{module}"),
        features => format!(
            "{module}={}",
            features.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
        ),
    };
    license.modules.iter().map(module).collect::<Vec<_>>().join(" ")
}

/// Hosts and `*`, with the time before which their bindings are void.
pub(super) fn released(license: &License) -> BTreeMap<&str, String> {
    release_times(license)
        .map(|(host, time)| (host, shown_time(time)))
        .collect()
}

/// The same as times.
pub(super) fn release_times(license: &License) -> impl Iterator<Item = (&str, DateTime<Utc>)> {
    let released = &license.details.released;
    let hosts = released.hosts.iter().map(|(host, time)| (host.as_str(), *time));
    hosts.chain(released.all.map(|time| ("*", time)))
}

/// A time as in the registry: RFC 3339, UTC, to the second.
pub(super) fn shown_time(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(chrono::SecondsFormat::Secs, true)
}

fn number_or_unlimited<S: serde::Serializer>(sites: &SiteLimit, serializer: S) -> Result<S::Ok, S::Error> {
    match sites {
        SiteLimit::Limited(limit) => serializer.serialize_u32(limit.get()),
        SiteLimit::Unlimited => serializer.serialize_str("unlimited"),
    }
}
