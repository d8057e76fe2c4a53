//! The report of one registry entry, and which of its releases are published from now on.

use std::collections::{HashMap, HashSet};

use crate::build::remark::Remark;
use crate::build::report::listing::{counted, listed};
use crate::build::report::outcome::{Reason, ReleaseOutcome, TagOutcome};
use crate::build::report::unmatched::built_pattern;
use countersign_model::plugin::RepositoryLocation;
use countersign_model::slug::Slug;
use countersign_model::text::nearest;
use countersign_model::version::{Version, has_version};
use countersign_package::catalog::{Release, Releases};
use countersign_registry::plugins::PluginEntry;

/// The report of one registry entry.
#[derive(Debug)]
pub struct PluginReport {
    /// The registry file.
    pub file: String,
    /// The plugin; `None` if the file's name is not a slug.
    pub slug: Option<Slug>,
    /// Whether its repository could be read.
    pub state: PluginState,
    /// Every tag of the repository: newest version first, then tags without a version, by name.
    pub tags: Vec<TagOutcome>,
    /// What is published now.
    pub releases: Releases,
    /// Newly published versions.
    pub added: Vec<Version>,
    /// Versions whose manifest, tag or commit changes.
    pub changed: Vec<Version>,
    /// Versions that are no longer published.
    pub removed: Vec<Version>,
    /// Versions that stay published although their tag failed now.
    pub kept: Vec<Version>,
    /// Warnings for the author of the newest releases.
    pub warnings: Vec<ReleaseWarning>,
    /// Versions that the entry withholds.
    pub(in crate::build) withhold: Vec<Version>,
    /// Versions that the entry calls security releases.
    pub(in crate::build) security: Vec<Version>,
    /// Whether its repository is a folder, into which only its owner fetches.
    pub(in crate::build) is_own_clone: bool,
}

/// Which published releases may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::build) enum MayGo {
    /// Those that the entry withholds.
    Withheld,
    /// All but security releases that the entry does not withhold.
    NoSecurity,
    /// All, because nothing is published.
    All,
}

/// A warning about a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseWarning {
    /// The release's tag; empty if the warning is about what the entry says of a version.
    pub tag: String,
    /// Its version.
    pub version: Version,
    /// The warning.
    pub remark: Remark,
}

/// Whether a plugin's repository could be read.
#[derive(Debug, PartialEq, Eq)]
pub enum PluginState {
    /// The tags were read.
    Read,
    /// The entry has no repository; nothing is published.
    NoSource,
    /// The entry or the repository cannot be read, for these reasons; published releases stay.
    Broken(Vec<String>),
}

/// Outcomes of tags, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of Outcome")]
pub struct TagCounts {
    pub built: usize,
    pub unchanged: usize,
    pub skipped: usize,
    pub failed: usize,
    pub awaiting: usize,
}

impl PluginReport {
    pub(in crate::build) fn new(entry: &PluginEntry) -> Self {
        Self {
            file: entry.file.display().to_string(),
            slug: entry.slug.clone(),
            state: PluginState::Read,
            tags: Vec::new(),
            releases: Releases::default(),
            added: Vec::new(),
            changed: Vec::new(),
            removed: Vec::new(),
            kept: Vec::new(),
            warnings: Vec::new(),
            withhold: entry
                .plugin
                .as_ref()
                .map_or_else(|_| Vec::new(), |plugin| plugin.withhold.clone()),
            security: entry
                .plugin
                .as_ref()
                .map_or_else(|_| Vec::new(), |plugin| plugin.security.releases.clone()),
            is_own_clone: entry.plugin.as_ref().is_ok_and(|plugin| {
                let repository = plugin.source.as_ref().map(|source| &source.repository);
                matches!(repository, Some(RepositoryLocation::Folder(_)))
            }),
        }
    }

    /// Adds warnings about a release, apart from those that another release of the plugin has: the pre-release before it
    /// usually has the same ones.
    pub(in crate::build) fn warn(&mut self, tag: &str, version: &Version, remarks: Vec<Remark>) {
        let warnings = &mut self.warnings;
        let is_new = |remark: &Remark| !warnings.iter().any(|known| known.remark == *remark);
        let new: Vec<_> = remarks.into_iter().filter(is_new).collect();
        warnings.extend(new.into_iter().map(|remark| ReleaseWarning {
            tag: tag.to_owned(),
            version: version.clone(),
            remark,
        }));
    }

    /// Counts the outcomes.
    pub fn counts(&self) -> TagCounts {
        let mut counts = TagCounts::default();
        for tag in &self.tags {
            match tag.outcome {
                ReleaseOutcome::Built => counts.built += 1,
                ReleaseOutcome::Unchanged => counts.unchanged += 1,
                ReleaseOutcome::Skipped(_) => counts.skipped += 1,
                ReleaseOutcome::Failed(_) => counts.failed += 1,
                ReleaseOutcome::AwaitsPackage
                | ReleaseOutcome::AwaitsSignatures { .. }
                | ReleaseOutcome::LeavesBehind(_) => counts.awaiting += 1,
            }
        }
        counts
    }

    /// The newest stable version with a tag that is not published as such, with the tag and the reason: important for
    /// a vendor that has just tagged a release.
    pub fn missing_newest(&self) -> Option<(&str, Reason)> {
        let newer = |version: &Version| {
            let latest = self.releases.latest.as_ref();
            latest.is_none_or(|latest| version.cmp_php(latest).is_gt())
        };
        let missing = self.tags.iter().filter_map(|tag| {
            let version = tag.version.as_ref()?;
            let reason = match &tag.outcome {
                ReleaseOutcome::Skipped(Reason::SameAs(_) | Reason::Withheld | Reason::OutsideVersions) => return None,
                ReleaseOutcome::Skipped(reason) | ReleaseOutcome::Failed(reason) if !version.is_prerelease() => {
                    reason.clone()
                }
                ReleaseOutcome::Skipped(reason @ (Reason::Misread(_) | Reason::MisreadHeader { .. })) => reason.clone(),
                // However far its release or its package came.
                _ => built_pattern(&tag.tag, version)?,
            };
            let stable: Version = version.numbers().parse().ok()?;
            let version = if version.is_prerelease() {
                stable
            } else {
                version.clone()
            };
            newer(&version).then_some((version, &*tag.tag, reason))
        });
        // The first of equal ones.
        let newest = missing.reduce(|a, b| if b.0.cmp_php(&a.0).is_gt() { b } else { a });
        newest.map(|(_, tag, reason)| (tag, reason))
    }

    /// The report of a plugin that is no longer in the registry. Its releases stay, because nobody has accepted that they
    /// go.
    pub(super) fn of_gone(slug: Slug, before: &Releases) -> Self {
        let gone: Vec<_> = before.releases.iter().map(|release| &release.version).collect();
        let problem = removes(&gone, gone.len(), "");
        Self {
            file: format!("{slug}.toml"),
            slug: Some(slug),
            state: PluginState::Broken(vec![format!("it is no longer in the registry, and {problem}")]),
            tags: Vec::new(),
            releases: before.clone(),
            added: Vec::new(),
            changed: Vec::new(),
            removed: Vec::new(),
            kept: versions(&before.releases),
            warnings: Vec::new(),
            withhold: Vec::new(),
            security: Vec::new(),
            is_own_clone: false,
        }
    }

    /// Decides which releases of this plugin are published, given the published ones. If any would go that may not, all of them stay.
    pub(in crate::build) fn choose_published(&mut self, before: &Releases, may_go: MayGo) {
        self.refuse_duplicates();
        match self.state {
            PluginState::NoSource => {}
            PluginState::Broken(_) => self.keep_all(before),
            PluginState::Read => self.keep_failed(before),
        }
        if let Some(problem) = self.removals(before, may_go) {
            self.state = PluginState::Broken(vec![problem]);
            self.tags.retain(|tag| !matches!(tag.outcome, ReleaseOutcome::Built));
            self.keep_all(before);
        }
        self.name_patterns();
        let releases = &mut self.releases.releases;
        releases.sort_by(|a, b| b.version.cmp_php(&a.version));
        self.warn_of_unpublished_security();
        self.releases.choose_latest();
        let releases = &self.releases.releases;

        let was: HashSet<_> = before.releases.iter().map(|release| &release.version).collect();
        let built = self
            .tags
            .iter()
            .filter(|tag| matches!(tag.outcome, ReleaseOutcome::Built));
        (self.changed, self.added) = built
            .filter_map(|tag| tag.version.clone())
            .partition(|version| was.contains(version));
        let is: HashSet<_> = releases.iter().map(|release| &release.version).collect();
        self.removed = versions(&before.releases)
            .into_iter()
            .filter(|version| !is.contains(version))
            .collect();
        for versions in [&mut self.added, &mut self.changed] {
            versions.sort_by(|a, b| b.cmp_php(a));
        }
        self.tags.sort_by(|a, b| {
            let newer_first = match (&a.version, &b.version) {
                (Some(a), Some(b)) => b.cmp_php(a),
                (a, b) => a.is_none().cmp(&b.is_none()),
            };
            newer_first.then_with(|| a.tag.cmp(&b.tag))
        });
    }

    /// Names the missing pattern of each tag such as `1.2-built`. Without it, the tag counts as a pre-release, or its version differs
    /// from the header's.
    fn name_patterns(&mut self) {
        for tag in &mut self.tags {
            let Some(reason) = tag
                .version
                .as_ref()
                .and_then(|version| built_pattern(&tag.tag, version))
            else {
                continue;
            };
            match &mut tag.outcome {
                outcome @ ReleaseOutcome::Skipped(Reason::VersionMismatch { .. }) => {
                    *outcome = ReleaseOutcome::Skipped(reason);
                }
                ReleaseOutcome::Skipped(_) | ReleaseOutcome::Failed(_) => {}
                _ => {
                    tag.notes.retain(|note| !matches!(note, Reason::VersionMismatch { .. }));
                    tag.notes.push(reason);
                }
            }
        }
    }

    /// Every published release stays that the entry does not withhold.
    fn keep_all(&mut self, before: &Releases) {
        let releases = before.releases.iter();
        let stay = releases.filter(|release| !has_version(&self.withhold, &release.version));
        self.releases.releases = stay.cloned().collect();
        self.kept = versions(&self.releases.releases);
    }

    /// Warns of versions that the entry calls security releases and that nobody gets. A tag that failed or waits has its own line.
    fn warn_of_unpublished_security(&mut self) {
        if self.state != PluginState::Read {
            return;
        }
        let releases = &self.releases.releases;
        let is_here = |version: &Version| {
            let is = |other: &Version| has_version(std::slice::from_ref(version), other);
            let comes = |tag: &TagOutcome| {
                !matches!(tag.outcome, ReleaseOutcome::Skipped(_)) && tag.version.as_ref().is_some_and(is)
            };
            has_version(&self.withhold, version)
                || releases.iter().any(|release| is(&release.version))
                || self.tags.iter().any(comes)
        };
        let mut warnings = Vec::new();
        for named in self.security.iter().filter(|named| !is_here(named)) {
            let older = releases.iter().find(|release| release.version.cmp_php(named).is_lt());
            let published = releases.iter().map(|release| release.version.as_str());
            let nearest = nearest(named.as_str(), published)
                .or_else(|| Some(older.or(releases.last())?.version.as_str()))
                .map_or_else(String::new, |nearest| format!("; the nearest one is {nearest}"));
            let message = format!("`security` names this version, and no such release is published{nearest}");
            warnings.push(ReleaseWarning {
                tag: String::new(),
                version: named.clone(),
                remark: Remark::about(&self.file, message),
            });
        }
        self.warnings.extend(warnings);
    }

    /// The problem, if published releases would go that may not. A release whose tag is now published under another version does not
    /// go.
    fn removals(&self, before: &Releases, may_go: MayGo) -> Option<String> {
        let stay = &self.releases.releases;
        let versions: HashSet<_> = stay.iter().map(|release| &release.version).collect();
        let tags: HashSet<_> = stay.iter().map(|release| &release.tag).collect();
        let releases = before.releases.iter();
        let held: Vec<_> = releases
            .filter(|release| !has_version(&self.withhold, &release.version))
            .collect();
        let goes = |release: &&&Release| !versions.contains(&release.version) && !tags.contains(&release.tag);
        let gone: Vec<_> = held.iter().filter(goes).collect();
        let is_security = |release: &&&&Release| release.security || has_version(&self.security, &release.version);
        let security: Vec<_> = gone
            .iter()
            .filter(is_security)
            .map(|release| &release.version)
            .collect();
        let is_fine = match may_go {
            MayGo::Withheld => gone.is_empty(),
            MayGo::NoSecurity => security.is_empty(),
            MayGo::All => true,
        };
        if is_fine {
            return None;
        }
        if may_go == MayGo::NoSecurity {
            return Some(format!(
                "a build would remove {}, which sites with older releases need: {}; {WITHHOLD_SECURITY}",
                counted(security.len(), "security release"),
                listed(&security)
            ));
        }
        let present: HashSet<_> = self.tags.iter().map(|tag| &tag.tag).collect();
        let lost = gone.iter().filter(|release| !present.contains(&release.tag)).count();
        let hint = match lost {
            _ if !self.is_own_clone || self.state == PluginState::NoSource => "",
            0 => "",
            1 => "if the clone only lacks its tag, run `git fetch --tags`; ",
            _ => "if the clone only lacks their tags, run `git fetch --tags`; ",
        };
        let gone: Vec<_> = gone.iter().map(|release| &release.version).collect();
        let problem = removes(&gone, held.len(), hint);
        Some(match security.is_empty() {
            true => problem,
            false => format!(
                "{problem}; of security releases ({}), {WITHHOLD_SECURITY}",
                listed(&security)
            ),
        })
    }

    /// `1.2` and `1.2.0` are two versions by their tags, and one if both headers have `1.2`.
    fn refuse_duplicates(&mut self) {
        let releases = &mut self.releases.releases;
        releases.sort_by(|a, b| b.version.cmp_php(&a.version));
        let conflicts: Vec<Vec<String>> = releases
            .chunk_by(|a, b| a.version.cmp_php(&b.version).is_eq())
            .filter(|same| same.len() > 1)
            .map(|same| same.iter().map(|release| release.tag.clone()).collect())
            .collect();
        let conflicts: HashMap<&String, &Vec<String>> = conflicts
            .iter()
            .flat_map(|tags| tags.iter().map(move |tag| (tag, tags)))
            .collect();
        releases.retain(|release| !conflicts.contains_key(&release.tag));
        for outcome in &mut self.tags {
            if let Some(&tags) = conflicts.get(&outcome.tag) {
                outcome.outcome = Reason::conflicting_tags(tags).into();
            }
        }
    }

    /// If a tag failed, its published release stays, unless another tag gives that version now.
    fn keep_failed(&mut self, before: &Releases) {
        let failed: Vec<_> = self
            .tags
            .iter()
            .filter(|tag| matches!(tag.outcome, ReleaseOutcome::Failed(_)))
            .collect();
        let tags: HashSet<_> = failed.iter().map(|tag| &tag.tag).collect();
        let mut versions: Vec<_> = failed.iter().filter_map(|tag| tag.version.as_ref()).collect();
        versions.sort_by(|a, b| b.cmp_php(a));
        let among = |versions: &[&Version], version: &Version| {
            versions.binary_search_by(|probe| version.cmp_php(probe)).is_ok()
        };
        let given: Vec<_> = self.releases.releases.iter().map(|release| &release.version).collect();
        let stays = |release: &&Release| {
            (tags.contains(&release.tag) || among(&versions, &release.version)) && !among(&given, &release.version)
        };
        let kept: Vec<_> = before.releases.iter().filter(stays).cloned().collect();
        self.kept = kept.iter().map(|release| release.version.clone()).collect();
        self.releases.releases.extend(kept);
    }
}

impl TagCounts {
    /// All tags.
    pub fn tags(self) -> usize {
        self.built + self.unchanged + self.skipped + self.failed + self.awaiting
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            built: self.built + other.built,
            unchanged: self.unchanged + other.unchanged,
            skipped: self.skipped + other.skipped,
            failed: self.failed + other.failed,
            awaiting: self.awaiting + other.awaiting,
        }
    }
}

/// How a security release is taken away.
const WITHHOLD_SECURITY: &str = "only those go that `withhold` of the entry names";

/// Asks whether `gone` of the `held` releases of a plugin may go. `hint` ends with a blank, or is empty.
fn removes(gone: &[&Version], held: usize, hint: &str) -> String {
    format!(
        "a build would remove {} of {}: {}; {hint}if you mean it, run `countersign build --accept-removed`",
        gone.len(),
        counted(held, "published release"),
        listed(gone)
    )
}

/// The versions of releases.
pub(super) fn versions(releases: &[Release]) -> Vec<Version> {
    releases.iter().map(|release| release.version.clone()).collect()
}
