//! Bindings: which sites use a license, and what those sites reported.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::download_key::DownloadKey;
use crate::host_index::{Hosted, SeatCounts};
use crate::license_key::LicenseKey;
use crate::site_host::SiteHost;
use crate::site_release::{ReleaseHash, ReleaseState, SiteRelease};
use crate::slug::Slug;

/// One site bound to a license.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The site.
    pub host: SiteHost,
    /// When it was bound. If the host was released and bound again, the later time.
    pub bound_at: DateTime<Utc>,
    /// `None`: it is released by the license key alone. In a box, because there may be a million.
    pub release: Option<Box<ReleaseState>>,
}

impl Binding {
    /// A binding without a release hash.
    pub fn new(host: SiteHost, bound_at: DateTime<Utc>) -> Self {
        Self {
            host,
            bound_at,
            release: None,
        }
    }

    /// With this release hash, if there is one.
    #[must_use]
    pub fn guarded(self, hash: Option<ReleaseHash>) -> Self {
        let release = hash.map(|hash| Box::new(ReleaseState::Guarded(hash)));
        Self { release, ..self }
    }

    /// The hash of the secret that releases it.
    pub fn release_hash(&self) -> Option<ReleaseHash> {
        match self.release.as_deref()? {
            ReleaseState::Guarded(hash) => Some(*hash),
            ReleaseState::Released { .. } => None,
        }
    }

    /// Marks it as released.
    pub fn end(&mut self, release: &SiteRelease) {
        let SiteRelease { time, by, .. } = *release;
        self.release = Some(Box::new(ReleaseState::Released { time, by }));
    }

    /// Whether the site released it.
    pub fn is_released(&self) -> bool {
        matches!(self.release.as_deref(), Some(ReleaseState::Released { .. }))
    }
}

impl Hosted for Binding {
    fn host(&self) -> &SiteHost {
        &self.host
    }
}

/// The bindings of one license, at most one of each host.
pub trait Stored {
    /// All bindings in the order of binding, void ones included.
    fn all(&self) -> &[Binding];

    /// The position of the binding of the host with this name.
    fn position(&self, host: &str) -> Option<usize> {
        self.all().iter().position(|binding| binding.host.as_str() == host)
    }

    /// The binding of `host`.
    fn find(&self, host: &SiteHost) -> Option<&Binding> {
        self.position(host.as_str()).map(|position| &self.all()[position])
    }

    /// The bindings of all hosts under this one, such as `a.example.com` under `example.com`.
    fn under(&self, host: &SiteHost) -> Vec<&Binding> {
        self.all()
            .iter()
            .filter(|binding| binding.host.is_under(host))
            .collect()
    }

    /// The binding of the host that has this tag in links.
    fn tagged(&self, key: &DownloadKey, tag: [u8; 8]) -> Option<&Binding> {
        self.all().iter().find(|binding| key.host_tag(&binding.host) == tag)
    }

    /// The last count of these bindings if it was made for the same `key`, or else what `count` says.
    fn counted(&self, _key: u64, count: impl FnOnce() -> SeatCounts) -> SeatCounts {
        count()
    }
}

impl Stored for [Binding] {
    fn all(&self) -> &[Binding] {
        self
    }
}

/// What a bound site reported. It is telemetry: no decision depends on it, and it may lag behind for a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SiteReport {
    /// From a validation; neither empty nor `0.0.0` (interface 2.2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin_version: Option<String>,
    /// The build id of the installed package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_id: Option<Uuid>,
    /// When the site last sent a request, by the server's clock then. If that clock was ahead, the time is dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<DateTime<Utc>>,
    /// By plugin: the `current_version` of its latest update request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub current_versions: BTreeMap<Slug, String>,
}

/// What a site reports in one request. Borrowed, because every request has it and it is seldom new.
#[derive(Clone, Copy, Debug)]
pub struct CheckIn<'a> {
    /// The time of the request.
    pub time: DateTime<Utc>,
    /// The build id it sent.
    pub build_id: Option<Uuid>,
    /// The version it sent with a validation.
    pub plugin_version: Option<&'a str>,
    /// The plugin's slug and the `current_version` it sent with an update request.
    pub current_version: Option<(&'a str, &'a str)>,
}

impl SiteReport {
    /// Stores what a request reports. Does not allocate if only the time is new.
    pub fn note(&mut self, check_in: &CheckIn<'_>) {
        self.last_seen = Some(check_in.time);
        self.build_id = check_in.build_id.or(self.build_id);
        if let Some(version) = check_in.plugin_version.filter(|version| is_meaningful(version))
            && self.plugin_version.as_deref() != Some(version)
        {
            self.plugin_version = Some(version.to_owned());
        }
        if let Some((slug, version)) = check_in.current_version.filter(|(_, version)| is_meaningful(version))
            && self.current_versions.get(slug).is_none_or(|known| known != version)
            && let Ok(slug) = slug.parse()
        {
            self.current_versions.insert(slug, version.to_owned());
        }
    }

    /// Stores what `newer` has and keeps the rest.
    pub fn merge(&mut self, newer: Self) {
        self.plugin_version = newer.plugin_version.or(self.plugin_version.take());
        self.build_id = newer.build_id.or(self.build_id);
        self.last_seen = newer.last_seen.or(self.last_seen);
        self.current_versions.extend(newer.current_versions);
    }
}

/// A version worth storing: not empty, not `0.0.0` (interface 8.1), and not a license key in the wrong field.
fn is_meaningful(version: &str) -> bool {
    !matches!(version, "" | "0.0.0") && !LicenseKey::is_in(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_keeps_what_the_newer_report_does_not_say() {
        let id = Uuid::from_u128(7);
        let mut report = SiteReport {
            plugin_version: Some("1.0".into()),
            build_id: Some(id),
            ..SiteReport::default()
        };
        report.merge(SiteReport {
            plugin_version: Some("1.1".into()),
            ..SiteReport::default()
        });
        assert_eq!(report.plugin_version.as_deref(), Some("1.1"));
        assert_eq!(report.build_id, Some(id));
    }

    #[test]
    fn a_clock_that_was_ahead_for_a_while_does_not_freeze_the_time_a_site_was_seen() {
        let at = |seconds| DateTime::from_timestamp(seconds, 0).unwrap();
        let seen = |seconds| CheckIn {
            time: at(seconds),
            build_id: None,
            plugin_version: None,
            current_version: None,
        };
        let mut stored = SiteReport::default();
        let mut waiting = SiteReport::default();
        stored.note(&seen(9_000));
        for seconds in [9_001, 100] {
            waiting.note(&seen(seconds));
        }
        stored.merge(waiting);
        assert_eq!(stored.last_seen, Some(at(100)));
        stored.merge(SiteReport::default());
        assert_eq!(stored.last_seen, Some(at(100)));
    }

    #[test]
    fn empty_and_zero_versions_are_not_worth_storing() {
        let mut report = SiteReport::default();
        for (version, stored) in [
            ("", None),
            ("0.0.0", None),
            ("0.0.1", Some("0.0.1")),
            ("", Some("0.0.1")),
        ] {
            let check_in = CheckIn {
                time: DateTime::UNIX_EPOCH,
                build_id: None,
                plugin_version: Some(version),
                current_version: Some(("acme", version)),
            };
            report.note(&check_in);
            assert_eq!(report.plugin_version.as_deref(), stored);
            assert_eq!(report.current_versions.get("acme").map(String::as_str), stored);
        }
    }
}
