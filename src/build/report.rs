//! The report of a build, plugin by plugin, and the new index.
//!
//! It is data; `json` prints it for programs, and [`summary`](crate::build::report::summary::summary()) for people.

mod json;
pub(crate) mod listing;
pub(crate) mod outcome;
pub(crate) mod plugin_report;
pub(crate) mod summary;
pub(crate) mod unmatched;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::build::manifest_sink::ManifestSink as _;
use crate::build::publish::{Publication, Publisher};
use crate::build::report::plugin_report::{MayGo, PluginReport, PluginState, TagCounts, versions};
use countersign_model::slug::Slug;
use countersign_model::version::Version;
use countersign_package::catalog::ReleaseIndex;

/// What a build did, or would do with `--check`.
#[derive(Debug)]
pub struct BuildReport {
    /// Whether nothing was written.
    pub check: bool,
    /// The built plugins, sorted by slug.
    pub plugins: Vec<PluginReport>,
    /// Plugins that are no longer in the registry, and their releases, which are removed.
    pub gone: BTreeMap<Slug, Vec<Version>>,
    /// Published files that do not match the index. The server refuses to load the releases because of a manifest,
    /// and to serve the download because of a package.
    pub damaged: Vec<String>,
    /// Whether the releases in `index.json` change.
    pub index_changes: bool,
}

impl BuildReport {
    /// Decides which releases are published from now on. `scope` has the plugins that were to be built. `None` means
    /// all; then plugins without an entry are removed, if somebody has accepted that.
    pub(super) fn conclude(
        check: bool,
        accepts_removed: bool,
        mut plugins: Vec<PluginReport>,
        publisher: &Publisher,
        publication: &Publication,
        scope: Option<&BTreeSet<Slug>>,
    ) -> (Self, ReleaseIndex) {
        let old = publication.old();
        let may_go = match accepts_removed {
            true => MayGo::NoSecurity,
            false => MayGo::Withheld,
        };
        let mut index = ReleaseIndex::default();
        // Releases whose tag was not read; their manifests are checked.
        let mut taken_over = Vec::new();
        for report in &mut plugins {
            let Some(slug) = report.slug.clone() else { continue };
            let before = old.plugins.get(&slug).cloned().unwrap_or_default();
            report.choose_published(&before, may_go);
            let kept: HashSet<_> = report.kept.iter().collect();
            let kept = report
                .releases
                .releases
                .iter()
                .filter(|release| kept.contains(&release.version));
            taken_over.extend(kept.map(|release| (slug.clone(), release.clone())));
            index.plugins.insert(slug, report.releases.clone());
        }
        // A file whose name is not a slug may be the entry of any plugin.
        let nobody_goes = scope.is_some() || plugins.iter().any(|report| report.slug.is_none());
        let mut gone = BTreeMap::new();
        for (slug, before) in &old.plugins {
            if index.plugins.contains_key(slug) {
                continue;
            }
            if !nobody_goes && accepts_removed {
                gone.insert(slug.clone(), versions(&before.releases));
                continue;
            }
            if !nobody_goes {
                plugins.push(PluginReport::of_gone(slug.clone(), before));
            }
            taken_over.extend(before.releases.iter().map(|release| (slug.clone(), release.clone())));
            index.plugins.insert(slug.clone(), before.clone());
        }
        plugins.sort_by(|a, b| (a.slug.is_none(), &a.slug).cmp(&(b.slug.is_none(), &b.slug)));
        index.plugins.retain(|_, releases| !releases.releases.is_empty());
        let mut damaged = Vec::new();
        for (slug, release) in &taken_over {
            if !publisher.holds_manifest(slug, release) {
                damaged.push(format!("{slug}/{}.json", release.version));
            }
            if !publisher.holds_package(slug, release) {
                damaged.push(format!("{slug}/{}.zip", release.version));
            }
        }
        let index_changes = !old.shows_the_same(&index);
        (
            Self {
                check,
                plugins,
                gone,
                damaged,
                index_changes,
            },
            index,
        )
    }

    /// Whether the published releases change, or would change.
    pub fn differs(&self) -> bool {
        let differs = |plugin: &PluginReport| {
            [&plugin.added, &plugin.changed, &plugin.removed]
                .iter()
                .any(|v| !v.is_empty())
        };
        self.index_changes || self.plugins.iter().any(differs)
    }

    /// Whether there is an error that somebody must correct.
    pub fn failed(&self) -> bool {
        let broken =
            |plugin: &PluginReport| matches!(plugin.state, PluginState::Broken(_)) || plugin.counts().failed > 0;
        !self.damaged.is_empty() || self.plugins.iter().any(broken)
    }

    /// The number of warnings: remarks on the newest releases, and newest tags that are not published.
    pub fn warnings(&self) -> usize {
        let of = |plugin: &PluginReport| plugin.warnings.len() + usize::from(plugin.missing_newest().is_some());
        self.plugins.iter().map(of).sum()
    }

    /// The outcomes of all tags, counted.
    pub fn counts(&self) -> TagCounts {
        self.plugins
            .iter()
            .map(PluginReport::counts)
            .fold(TagCounts::default(), TagCounts::plus)
    }
}
