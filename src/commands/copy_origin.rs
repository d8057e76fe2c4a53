//! Whose copy a build id marks: what `trace` tells of one, and `review` of all that sites reported.
//!
//! A build id has only short prefixes and tags. So it is compared with every license, site and release, and all matches are
//! listed.

use std::collections::BTreeMap;

use chrono::{NaiveDate, Utc};
use serde::Serialize;
use uuid::Uuid;

use crate::commands::Failure;
use crate::commands::keys::secrets;
use crate::commands::known_licenses::KnownLicenses;
use crate::commands::stored_sites::{self, SitesByLicense};
use countersign_model::build_id::BuildId;
use countersign_model::download_key::DownloadKey;
use countersign_model::license::License;
use countersign_model::license_key::LicenseId;
use countersign_model::site_host::SiteHost;
use countersign_model::slug::Slug;
use countersign_model::text::stderr;
use countersign_model::version::Version;
use countersign_package::catalog::ReleaseIndex;
use countersign_registry::Registry;
use countersign_settings::config::Config;
use countersign_settings::keys::secret_keys::DownloadKeys;

/// Everything that build ids are compared with.
pub(super) struct KnownCopies {
    keys: Option<DownloadKeys>,
    pub licenses: KnownLicenses,
    pub sites: SitesByLicense,
    releases: BTreeMap<Slug, Vec<Version>>,
    today: NaiveDate,
}

/// What kind of build id it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CopyOrigin {
    /// This vendor gave the copy to a license.
    Given,
    /// The mark of a stored package, which nobody downloaded.
    Unmarked,
    /// One of our keys made it, but what it says is not true.
    Forged,
    /// None of our keys made it.
    Unknown,
}

/// A build id, and all that fits it.
#[derive(Debug, Serialize)]
pub(super) struct TracedId {
    pub build_id: Uuid,
    pub origin: CopyOrigin,
    /// What does not fit.
    pub doubts: Vec<&'static str>,
    /// The key that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    /// The day of the link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub day: Option<NaiveDate>,
    /// Whether it was given before any site was bound. Of a million hosts, the copies of one look so, too.
    pub first_copy: bool,
    pub licenses: Vec<TracedLicense>,
    pub releases: Vec<TracedRelease>,
}

/// A license that fits.
#[derive(Debug, Serialize)]
pub(super) struct TracedLicense {
    pub id: LicenseId,
    pub note: String,
    /// Its sites that fit, void ones included.
    pub hosts: Vec<SiteHost>,
    /// The licenses that replaced it, one after the other.
    pub replaced_by: Vec<LicenseId>,
}

/// A release that fits.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct TracedRelease {
    pub plugin: Slug,
    pub version: Version,
}

/// Every version of every plugin that may have been given out: those that are published, and those that are withheld since.
fn releases(registry: &Registry, index: &ReleaseIndex) -> BTreeMap<Slug, Vec<Version>> {
    let mut all: BTreeMap<Slug, Vec<Version>> = BTreeMap::new();
    for (slug, plugin) in &index.plugins {
        let versions = plugin.releases.iter().map(|release| release.version.clone());
        all.entry(slug.clone()).or_default().extend(versions);
    }
    for plugin in registry.plugins() {
        all.entry(plugin.slug.clone())
            .or_default()
            .extend(plugin.withhold.iter().cloned());
    }
    all
}

impl KnownCopies {
    /// Loads what the instance knows. Warns of retired keys that cannot be used.
    pub(super) fn load(config: &Config) -> Result<Self, Failure> {
        let paths = &config.paths;
        let (keys, unusable) =
            DownloadKeys::load(&paths.downloads_key, &paths.retired_keys).map_err(secrets::failure)?;
        for error in unusable {
            stderr::line(format_args!("warning: {error}: its build ids are not read"));
        }
        Ok(Self {
            keys: Some(keys),
            ..Self::without_keys(config)?
        })
    }

    /// The same where there is no build id to compare.
    pub(super) fn without_keys(config: &Config) -> Result<Self, Failure> {
        let paths = &config.paths;
        let registry = Registry::load(&paths.registry)?;
        let index = ReleaseIndex::read(&paths.releases).map_err(Failure::input)?;
        Ok(Self {
            keys: None,
            sites: stored_sites::bound_sites(config)?,
            releases: releases(&registry, &index.unwrap_or_default()),
            licenses: KnownLicenses::new(registry, stored_sites::issued_licenses(config)?),
            today: Utc::now().date_naive(),
        })
    }

    /// Finds out whose copy it marks.
    pub(super) fn trace(&self, build_id: Uuid) -> TracedId {
        let nothing = TracedId {
            build_id,
            origin: CopyOrigin::Unknown,
            doubts: Vec::new(),
            key_id: None,
            day: None,
            first_copy: false,
            licenses: Vec::new(),
            releases: Vec::new(),
        };
        if build_id.is_nil() {
            return TracedId {
                origin: CopyOrigin::Unmarked,
                ..nothing
            };
        }
        let read = |key| Some((key, BuildId::decrypt(key, build_id)?));
        let Some((key, id)) = self.keys.iter().flat_map(|keys| keys.all()).find_map(read) else {
            return nothing;
        };
        let licenses: Vec<_> = self.licenses_of(key, &id);
        let releases: Vec<_> = self.releases_of(key, &id);
        let day = id.day();
        let doubts = [
            (day > self.today, "its day is in the future"),
            (licenses.is_empty(), "no license here begins so"),
            (releases.is_empty(), "no release here fits"),
        ];
        let doubts: Vec<_> = doubts
            .iter()
            .filter(|(is_so, _)| *is_so)
            .map(|(_, doubt)| *doubt)
            .collect();
        let origin = if doubts.is_empty() {
            CopyOrigin::Given
        } else {
            CopyOrigin::Forged
        };
        TracedId {
            build_id,
            origin,
            doubts,
            key_id: Some(key.fingerprint()),
            day: Some(day),
            first_copy: id.is_first_copy(key),
            licenses,
            releases,
        }
    }

    fn licenses_of(&self, key: &DownloadKey, id: &BuildId) -> Vec<TracedLicense> {
        let fitting = self.licenses.all().filter(|license| id.is_of_license(&license.id));
        fitting.map(|license| self.license(license, key, id)).collect()
    }

    fn license(&self, license: &License, key: &DownloadKey, id: &BuildId) -> TracedLicense {
        let bound = self.sites.get(&license.id).into_iter().flatten();
        let mut hosts: Vec<SiteHost> = bound
            .chain(&license.details.hosts)
            .filter(|host| id.is_of_host(key, host))
            .cloned()
            .collect();
        hosts.sort();
        hosts.dedup();
        TracedLicense {
            id: license.id,
            note: license.details.note.clone(),
            hosts,
            replaced_by: self.successors(&license.id),
        }
    }

    /// The licenses that replaced one, in their order. It ends although two may name each other.
    pub(super) fn successors(&self, license: &LicenseId) -> Vec<LicenseId> {
        let mut found: Vec<LicenseId> = Vec::new();
        let mut last = *license;
        while let Some(next) = self.licenses.all().find(|other| other.details.replaces == Some(last)) {
            if found.contains(&next.id) || next.id == *license {
                break;
            }
            found.push(next.id);
            last = next.id;
        }
        found
    }

    fn releases_of(&self, key: &DownloadKey, id: &BuildId) -> Vec<TracedRelease> {
        let mut found = Vec::new();
        for (plugin, versions) in &self.releases {
            let fitting = versions
                .iter()
                .filter(|version| id.is_of_release(key, plugin.as_str(), version.as_str()));
            found.extend(fitting.map(|version| TracedRelease {
                plugin: plugin.clone(),
                version: version.clone(),
            }));
        }
        found
    }
}
