//! What a build did, plugin by plugin, and the index that follows from it.
//!
//! Data; `json` shows it to machines, and [`summary`](crate::build::report::summary::summary()) is the text for people.

mod json;
pub(crate) mod outcome;
pub(crate) mod plugin_report;
pub(crate) mod summary;
pub(crate) mod unmatched;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::build::manifest_sink::ManifestSink as _;
use crate::build::publish::{Publication, Publisher};
use crate::build::report::plugin_report::{PluginReport, PluginState, TagCounts, versions};
use crate::catalog::ReleaseIndex;
use crate::model::slug::Slug;
use crate::model::version::Version;

/// What a build did, or with `--check` would do.
#[derive(Debug)]
pub struct BuildReport {
    /// Whether nothing was written.
    pub check: bool,
    /// The plugins that were built, in the order of their slugs.
    pub plugins: Vec<PluginReport>,
    /// Plugins that left the registry, and their releases, which go with them.
    pub gone: BTreeMap<Slug, Vec<Version>>,
    /// Manifests and packages that stay published and are not what the index says; the server refuses the folder because of a
    /// manifest, and the download of a package.
    pub damaged: Vec<String>,
    /// Whether `index.json` changes in what it says of releases.
    pub index_changes: bool,
}

impl BuildReport {
    /// Draws the conclusion: which releases are published from now on. `scope` names the plugins that were to be built;
    /// `None` means all, and then plugins without an entry go.
    pub(super) fn conclude(
        check: bool,
        mut plugins: Vec<PluginReport>,
        publisher: &Publisher,
        publication: &Publication,
        scope: Option<&BTreeSet<Slug>>,
    ) -> (Self, ReleaseIndex) {
        let old = publication.old();
        let mut index = ReleaseIndex::default();
        // Releases that no tag was read for; whether their manifests still stand is looked at.
        let mut taken_over = Vec::new();
        for report in &mut plugins {
            let Some(slug) = report.slug.clone() else { continue };
            let before = old.plugins.get(&slug).cloned().unwrap_or_default();
            report.choose_published(&before);
            let kept: HashSet<_> = report.kept.iter().collect();
            let kept = report
                .releases
                .releases
                .iter()
                .filter(|release| kept.contains(&release.version));
            taken_over.extend(kept.map(|release| (slug.clone(), release.clone())));
            index.plugins.insert(slug, report.releases.clone());
        }
        // A file whose name is no slug may be the entry of any plugin.
        let nobody_goes = scope.is_some() || plugins.iter().any(|report| report.slug.is_none());
        let mut gone = BTreeMap::new();
        for (slug, before) in &old.plugins {
            if index.plugins.contains_key(slug) {
            } else if nobody_goes {
                taken_over.extend(before.releases.iter().map(|release| (slug.clone(), release.clone())));
                index.plugins.insert(slug.clone(), before.clone());
            } else {
                gone.insert(slug.clone(), versions(&before.releases));
            }
        }
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

    /// Whether anything is, or would be, published that was not published before, or the other way round.
    pub fn differs(&self) -> bool {
        let differs = |plugin: &PluginReport| {
            [&plugin.added, &plugin.changed, &plugin.removed]
                .iter()
                .any(|v| !v.is_empty())
        };
        self.index_changes || self.plugins.iter().any(differs)
    }

    /// Whether something is wrong that somebody has to repair.
    pub fn failed(&self) -> bool {
        let broken =
            |plugin: &PluginReport| matches!(plugin.state, PluginState::Broken(_)) || plugin.counts().failed > 0;
        !self.damaged.is_empty() || self.plugins.iter().any(broken)
    }

    /// How many warnings there are: remarks on the newest releases, and newest tags that are not published.
    pub fn warnings(&self) -> usize {
        let of = |plugin: &PluginReport| plugin.warnings.len() + usize::from(plugin.missing_newest().is_some());
        self.plugins.iter().map(of).sum()
    }

    /// How many tags of all plugins became what.
    pub fn counts(&self) -> TagCounts {
        self.plugins
            .iter()
            .map(PluginReport::counts)
            .fold(TagCounts::default(), TagCounts::plus)
    }
}
