//! What sites run, for `build` and `sign`: from a file that an operator saved, or from the store of this instance.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::build::{BuildReport, ReleaseOutcome, SignedChains};
use crate::commands::Failure;
use crate::commands::store::store_source;
use crate::commands::stored_sites::{self, ReportsNotReadable};
use countersign_files::regular_file;
use countersign_ledger::StoreError;
use countersign_model::binding::SiteReport;
use countersign_model::installed::InstalledVersions;
use countersign_model::license_key::LicenseId;
use countersign_model::plugin::Plugin;
use countersign_model::site_host::SiteHost;
use countersign_model::slug::Slug;
use countersign_model::text::printable::Printable;
use countersign_model::text::{ErrorChain, stderr};
use countersign_model::version::Version;
use countersign_package::catalog::{ReleaseIndex, Releases};
use countersign_registry::Registry;
use countersign_registry::plugins::PluginEntry;
use countersign_registry::release_chain::SignedRelease;
use countersign_settings::config::Config;

/// The largest file that is read, in bytes: 100,000 versions take 4 MiB.
const MAX_FILE: u64 = 16 << 20;

/// Why nobody knows what sites run.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotKnown {
    #[error("no server has run here")]
    NoStore,
    #[error(transparent)]
    Reports(#[from] ReportsNotReadable),
    #[error("the store cannot be read")]
    Store(#[source] StoreError),
}

/// Why a file with what sites run is not taken.
#[derive(Debug, thiserror::Error)]
enum NotCounts {
    #[error("{}: cannot be read", Printable(path.display()))]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{}: does not say what sites run", Printable(path.display()))]
    Json { path: PathBuf, source: serde_json::Error },
}

/// What `build` knows of sites.
pub(super) struct InstalledSites {
    known: Option<Arc<InstalledVersions>>,
    why_not: Option<NotKnown>,
}

impl InstalledSites {
    /// What the file says; nothing yet without one.
    pub(super) fn new(file: Option<&Path>) -> Result<Self, Failure> {
        let known = file.map(from_file).transpose()?.map(Arc::new);
        Ok(Self { known, why_not: None })
    }

    /// Reads the store if a release may leave sites behind.
    pub(super) fn look_for(&mut self, entries: &[PluginEntry], chains: &SignedChains, config: &Config) {
        if self.known.is_some() {
            return;
        }
        let index = ReleaseIndex::read(&config.paths.releases)
            .ok()
            .flatten()
            .unwrap_or_default();
        let mut plugins = entries.iter().filter_map(|entry| entry.plugin.as_ref().ok());
        if plugins.any(|plugin| may_leave_behind(plugin, chains, index.plugins.get(&plugin.slug))) {
            match from_store(config) {
                Ok(known) => self.known = Some(Arc::new(known)),
                Err(why) => self.why_not = Some(why),
            }
        }
    }

    /// What sites run.
    pub(super) fn known(&self) -> Option<Arc<InstalledVersions>> {
        self.known.clone()
    }

    /// Says why the number of sites is unknown, if that matters.
    pub(super) fn note(&self, report: &BuildReport) {
        let mut tags = report.plugins.iter().flat_map(|plugin| &plugin.tags);
        let matters = tags.any(|tag| match &tag.outcome {
            ReleaseOutcome::LeavesBehind(left) => left.iter().any(|left| left.sites.is_none()),
            _ => false,
        });
        if matters {
            let why = self.why_not.as_ref().map_or_else(
                || "no site has reported this plugin".to_owned(),
                |why| ErrorChain(why).to_string(),
            );
            stderr::line(format_args!("note: which versions sites run is not known: {why}"));
            stderr::line(
                "hint: save it where the store is, `countersign bindings installed --json`, and give it with --installed",
            );
        }
    }
}

/// Whether a release that is not published would leave some site behind, if every version has one.
fn may_leave_behind(plugin: &Plugin, chains: &SignedChains, published: Option<&Releases>) -> bool {
    let Some((settings, chain)) = plugin.signing.as_ref().zip(chains.get(&plugin.slug)) else {
        return false;
    };
    let is_published = |release: &SignedRelease| {
        let mut published = published.into_iter().flat_map(|published| &published.releases);
        published.any(|line| {
            line.signed
                .as_ref()
                .is_some_and(|signed| signed.statement == release.link().1)
        })
    };
    let new = chain
        .releases()
        .iter()
        .filter(|release| !release.is_replaced && !is_published(release));
    new.into_iter().any(|release| {
        let version = &release.statement.version;
        let left = chain.left_behind(version, |keys| release.signers(keys), settings, None);
        left.iter().any(|left| !left.is_allowed)
    })
}

/// Reads what `countersign bindings installed --json` printed.
pub(super) fn from_file(path: &Path) -> Result<InstalledVersions, Failure> {
    let text = regular_file::read_to_string(path, MAX_FILE).map_err(|source| {
        Failure::input(NotCounts::Read {
            path: path.to_owned(),
            source,
        })
    })?;
    serde_json::from_str(&text).map_err(|source| {
        let path = path.to_owned();
        Failure::input(NotCounts::Json { path, source })
            .hint("save it where the store is: countersign bindings installed --json > installed.json")
    })
}

/// Counts what sites reported last to the server of this instance, which is asked if it runs.
pub(super) fn from_store(config: &Config) -> Result<InstalledVersions, NotKnown> {
    let store = countersign_ledger::read_only(store_source(&config.paths)).map_err(|error| match error {
        StoreError::Missing(_) => NotKnown::NoStore,
        error => NotKnown::Store(error),
    })?;
    let reports = stored_sites::reports_in(&store, config)?;
    drop(store);
    let registry = Registry::load_without_notes(&config.paths.registry).unwrap_or_default();
    Ok(count(reports, &registry))
}

/// When a site said which version it runs.
type LastReport = (Option<DateTime<Utc>>, Version);

/// Each site counts once for each plugin, with what it said last, under whichever license.
fn count(
    reports: impl IntoIterator<Item = (LicenseId, SiteHost, SiteReport)>,
    registry: &Registry,
) -> InstalledVersions {
    let mut last: HashMap<(Slug, SiteHost), LastReport> = HashMap::new();
    for (license, host, report) in reports {
        let seen = report.last_seen;
        for (slug, version) in versions_of(report, &license, registry) {
            let Ok(version) = version.parse::<Version>() else {
                continue;
            };
            let known = last.entry((slug, host.clone())).or_insert((seen, version.clone()));
            if known.0 <= seen {
                *known = (seen, version);
            }
        }
    }
    InstalledVersions::count(last.into_iter().map(|((slug, _), (_, version))| (slug, version)))
}

/// The plugins of a site and their versions. A validation does not say of which plugin its version is, so it counts where a
/// license covers one plugin only, and where the site has not yet asked for updates.
fn versions_of(report: SiteReport, license: &LicenseId, registry: &Registry) -> Vec<(Slug, String)> {
    let SiteReport {
        plugin_version,
        current_versions,
        ..
    } = report;
    if !current_versions.is_empty() {
        return current_versions.into_iter().collect();
    }
    let Some(license) = registry.license(license) else {
        return Vec::new();
    };
    let mut covered = registry
        .plugins()
        .filter(|plugin| license.modules.contains_key(&plugin.module));
    match (covered.next(), covered.next(), plugin_version) {
        (Some(plugin), None, Some(version)) => vec![(plugin.slug.clone(), version)],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry(plugins: &[&str], license: &LicenseId) -> Registry {
        let folder = tempfile::tempdir().unwrap();
        for name in ["plugins", "licenses"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        for slug in plugins {
            let text = "module = 'all'\nrepository = '../../src'\n";
            std::fs::write(folder.path().join(format!("plugins/{slug}.toml")), text).unwrap();
        }
        let text = format!("[[license]]\nid = '{license}'\nexpires = 2099-12-31\n[license.modules]\nall = []\n");
        std::fs::write(folder.path().join("licenses/all.toml"), text).unwrap();
        Registry::load(folder.path()).unwrap()
    }

    fn report(seen: i64, validated: Option<&str>, asked: &[(&str, &str)]) -> SiteReport {
        let asked = asked
            .iter()
            .map(|(slug, version)| (slug.parse().unwrap(), (*version).to_owned()));
        SiteReport {
            plugin_version: validated.map(str::to_owned),
            build_id: None,
            last_seen: DateTime::from_timestamp(seen, 0),
            current_versions: asked.collect(),
        }
    }

    fn lines(installed: &InstalledVersions) -> Vec<String> {
        let plugins = installed.plugins.iter();
        let line = |slug: &Slug, found: &countersign_model::installed::InstalledVersion| {
            format!("{slug} {} {}", found.version, found.sites)
        };
        plugins
            .flat_map(|plugin| plugin.versions.iter().map(|found| line(&plugin.slug, found)))
            .collect()
    }

    #[test]
    fn a_site_counts_once_with_what_it_said_last() {
        let [one, two] = [1, 2].map(|byte| LicenseId::from_bytes([byte; 32]));
        let host = |name: &str| name.parse::<SiteHost>().unwrap();
        let reports = || {
            vec![
                (
                    one,
                    host("a.com"),
                    report(9, Some("3.0"), &[("forms", "1.4.0"), ("maps", "2.0")]),
                ),
                (two, host("a.com"), report(5, None, &[("forms", "1.3.0")])),
                (
                    one,
                    host("b.com"),
                    report(1, None, &[("forms", "1.3.0"), ("maps", "not a version")]),
                ),
                (one, host("c.com"), report(2, Some("1.3.0"), &[])),
            ]
        };
        let found = count(reports(), &registry(&["forms"], &one));
        assert_eq!(lines(&found), ["forms 1.4.0 1", "forms 1.3.0 2", "maps 2.0 1"]);
        let found = count(reports(), &registry(&["forms", "maps"], &one));
        assert_eq!(lines(&found), ["forms 1.4.0 1", "forms 1.3.0 1", "maps 2.0 1"]);
    }
}
