//! Steps 2 to 4 for one plugin: every tag becomes an outcome in its report, and most a manifest for the [`ManifestSink`].

use std::collections::HashMap;

use crate::build::compose::{self, Facts};
use crate::build::fetch::{self, Fetched};
use crate::build::git::repository::Repository;
use crate::build::git::tag::Tag;
use crate::build::inputs::Inputs;
use crate::build::manifest_sink::{BuiltRelease, ManifestSink};
use crate::build::progress::Progress;
use crate::build::report::outcome::{Reason, ReleaseOutcome, TagOutcome};
use crate::build::report::plugin_report::{PluginReport, PluginState, ReleaseWarning};
use crate::build::review;
use crate::build::source::source_reader::SourceReader;
use crate::build::source::source_tree::SourceTree as _;
use crate::build::tags::{self, Candidate, Chosen};
use crate::build::version_check;
use crate::catalog::Release;
use crate::model::digest::Digest;
use crate::model::manifest::is_security_notice;
use crate::model::plugin::Plugin;
use crate::model::version::Version;
use crate::registry::plugins::PluginEntry;
use crate::text::error_chain::ErrorChain;

/// Builds what a registry entry describes.
pub(super) fn build_entry<S: ManifestSink>(
    entry: &PluginEntry,
    fetched: &Fetched,
    sink: &S,
    parse_php: bool,
    progress: &dyn Progress,
) -> Result<PluginReport, S::Error> {
    let mut report = PluginReport::new(entry);
    match &entry.plugin {
        Err(diagnostics) => report.state = PluginState::Broken(diagnostics.iter().map(ToString::to_string).collect()),
        Ok(Plugin { source: None, .. }) => report.state = PluginState::NoSource,
        Ok(plugin) => match fetch::open(plugin, fetched) {
            Err(problem) => report.state = PluginState::Broken(vec![problem]),
            Ok(repository) => build_plugin(plugin, &repository, sink, parse_php, progress, &mut report)?,
        },
    }
    Ok(report)
}

/// Builds every release of a plugin; each becomes an outcome in `report`.
fn build_plugin<S: ManifestSink>(
    plugin: &Plugin,
    repository: &Repository,
    sink: &S,
    parse_php: bool,
    progress: &dyn Progress,
    report: &mut PluginReport,
) -> Result<(), S::Error> {
    // 2 tags
    let tags = match repository.tags() {
        Ok(tags) => tags,
        Err(error) => {
            report.state = PluginState::Broken(vec![ErrorChain(&error).to_string()]);
            return Ok(());
        }
    };
    let published = sink.published(&plugin.slug);
    if tags.is_empty() && published.is_some() {
        let hint = if repository.is_shallow() {
            " (the clone is shallow)"
        } else {
            ""
        };
        let problem = format!("the repository has no tags{hint}, but releases are published: fetch the tags");
        report.state = PluginState::Broken(vec![problem]);
        return Ok(());
    }
    progress.tags_found(&plugin.slug, tags.len());
    let (candidates, skipped) = tags::sort_out(plugin, repository.name(), tags);
    progress.tags_done(skipped.len());
    report.tags = skipped;

    let mut build = PluginBuild {
        plugin,
        repository,
        sink,
        published: published
            .iter()
            .flat_map(|old| &old.releases)
            .map(|release| (&release.version, release))
            .collect(),
        known: published
            .iter()
            .flat_map(|old| &old.releases)
            .filter_map(|release| Some((release.inputs?, release)))
            .collect(),
        inputs: Inputs::of(plugin, repository.name()),
        reader: SourceReader::new(repository, plugin),
        looked_elsewhere: false,
        by_commit: HashMap::new(),
        parse_php,
        reviewed: Reviewed::default(),
        report,
    };
    for candidate in candidates {
        progress.tags_done(candidate.len());
        build.release(candidate)?;
    }
    Ok(())
}

/// One plugin under way.
struct PluginBuild<'a, S> {
    plugin: &'a Plugin,
    repository: &'a Repository,
    sink: &'a S,
    published: HashMap<&'a Version, &'a Release>,
    /// The same by what they follow from.
    known: HashMap<Digest, &'a Release>,
    inputs: Inputs,
    reader: SourceReader<'a, Repository>,
    looked_elsewhere: bool,
    /// The last release of each commit, by its id in hex: `1.2` and `1.2.0` are one where they tag the same commit.
    by_commit: HashMap<String, (Version, String)>,
    /// Whether the PHP of releases that are published already is parsed.
    parse_php: bool,
    reviewed: Reviewed,
    report: &'a mut PluginReport,
}

/// Which releases of a plugin have been reviewed: the newest, and the newest that is no pre-release.
#[derive(Default)]
struct Reviewed {
    any: bool,
    stable: bool,
}

impl Reviewed {
    /// Whether this is one of them; asked from the newest version on.
    fn is_due(&mut self, version: &Version) -> bool {
        let is_stable = !version.is_prerelease();
        let is_due = !self.any || is_stable && !self.stable;
        self.any = true;
        self.stable |= is_stable;
        is_due
    }
}

impl<'a, S: ManifestSink> PluginBuild<'a, S> {
    fn release(&mut self, candidate: Candidate) -> Result<(), S::Error> {
        if let Some(known) = candidate.only().and_then(|(version, tag)| self.known(tag, version)) {
            if self.keep(known)
                && let Some(chosen) = candidate.choose(self.repository, &mut Vec::new())
            {
                self.review_again(&chosen);
            }
            return Ok(());
        }
        let Some(chosen) = candidate.choose(self.repository, &mut self.report.tags) else {
            return Ok(());
        };
        if let Some(known) = self.known(&chosen.tag, &chosen.version) {
            if self.keep(known) {
                self.review_again(&chosen);
            }
            return Ok(());
        }

        // 3 the plugin's own files, 4 compose
        let mut built = match self.compose(&chosen) {
            Ok(built) => built,
            Err(reason) => {
                let reason = self.moved(&chosen, &reason).unwrap_or(reason);
                let Chosen { tag, version, .. } = chosen;
                let outcome = TagOutcome {
                    tag: tag.name,
                    version: Some(version),
                    outcome: reason.into(),
                    notes: Vec::new(),
                };
                self.report.tags.push(outcome);
                return Ok(());
            }
        };
        let version = built.version.clone();
        let notes = built.notes.clone();
        let commit = chosen.tagged.commit.to_string();
        if self.is_twin(&commit, &version, &chosen.tag.name) {
            return Ok(());
        }
        if self.reviewed.is_due(&version) {
            self.review(&chosen, &mut built, true);
        }

        // 5 publish: staged here, put in place when all plugins are done
        let security = is_security_notice(&built.manifest.upgrade_notice);
        let (sha256, held) = self.sink.take(&self.plugin.slug, built)?;
        let inputs = self.inputs.of_tag(&chosen.tag, &chosen.version);
        let release = Release {
            version,
            tag: chosen.tag.name,
            commit,
            inputs,
            security,
            sha256,
            package: None,
        };
        let unchanged = held
            && self
                .published
                .get(&release.version)
                .is_some_and(|old| old.shows_the_same(&release));
        let outcome = if unchanged {
            ReleaseOutcome::Unchanged
        } else {
            ReleaseOutcome::Built
        };
        self.push(release, outcome, notes);
        Ok(())
    }

    /// Looks for what the maker of a release should know.
    fn review(&mut self, chosen: &Chosen, built: &mut BuiltRelease, parse_php: bool) {
        let folder = self.plugin.source.as_ref().map_or("", |source| &source.path);
        built.inspected = review::inspect(self.plugin, self.repository, &chosen.tagged.tree, parse_php);
        let warning = |remark| ReleaseWarning {
            tag: chosen.tag.name.clone(),
            version: built.version.clone(),
            remark,
        };
        // The pre-release before it mostly has the same ones.
        let warnings = &mut self.report.warnings;
        let mut remarks = review::remarks(built, folder);
        remarks.retain(|remark| !warnings.iter().any(|told| told.remark == *remark));
        warnings.extend(remarks.into_iter().map(warning));
    }

    /// The same for a release that is taken over as it is published. Its maker has had these warnings, so what cannot be read
    /// now is none.
    fn review_again(&mut self, chosen: &Chosen) {
        if let Ok(mut built) = self.compose(chosen) {
            self.review(chosen, &mut built, self.parse_php);
        }
    }

    /// Where the plugin seems to be at its newest tag, which does not have it in its place.
    fn moved(&mut self, chosen: &Chosen, reason: &Reason) -> Option<Reason> {
        let is_newest = self.report.releases.releases.is_empty() && !self.looked_elsewhere;
        let is_absent = matches!(reason, Reason::NoPluginHeader | Reason::PathAbsent(_));
        if !is_newest || !is_absent || chosen.version.is_prerelease() {
            return None;
        }
        self.looked_elsewhere = true;
        self.reader.elsewhere(&chosen.tagged.tree).map(Reason::Moved)
    }

    /// The published release that a tag would give again.
    fn known(&self, tag: &Tag, version: &Version) -> Option<&'a Release> {
        let known = *self.known.get(&self.inputs.of_tag(tag, version)?)?;
        self.sink.stands(&self.plugin.slug, known).then_some(known)
    }

    /// Takes a release over as it is published; says whether it has to be reviewed.
    fn keep(&mut self, release: &Release) -> bool {
        if self.is_twin(&release.commit, &release.version, &release.tag) {
            return false;
        }
        self.push(release.clone(), ReleaseOutcome::Unchanged, Vec::new());
        self.reviewed.is_due(&release.version)
    }

    /// Whether an earlier tag gave this version of this commit already; if not, it is noted that this one does.
    fn is_twin(&mut self, commit: &str, version: &Version, tag: &str) -> bool {
        if let Some((twin, earlier)) = self.by_commit.get(commit)
            && twin.cmp_php(version).is_eq()
        {
            let outcome = Reason::SameAs(earlier.clone()).into();
            let version = Some(version.clone());
            self.report.tags.push(TagOutcome {
                tag: tag.to_owned(),
                version,
                outcome,
                notes: Vec::new(),
            });
            return true;
        }
        self.by_commit
            .insert(commit.to_owned(), (version.clone(), tag.to_owned()));
        false
    }

    fn push(&mut self, release: Release, outcome: ReleaseOutcome, notes: Vec<Reason>) {
        let version = Some(release.version.clone());
        self.report.tags.push(TagOutcome {
            tag: release.tag.clone(),
            version,
            outcome,
            notes,
        });
        self.report.releases.releases.push(release);
    }

    fn compose(&mut self, chosen: &Chosen) -> Result<BuiltRelease, Reason> {
        let mut files = self.reader.read(&chosen.tagged.tree)?;
        let (version, note) = version_check::published_version(
            &chosen.version,
            &files.main_file,
            &files.header.version,
            self.plugin.allow_version_mismatch,
        )?;
        let facts = Facts {
            version: &version,
            tag_version: &chosen.version,
            tag: &chosen.tag.name,
            time: chosen.tagged.time,
            message: chosen.tagged.message.as_deref(),
            files: &files,
        };
        let (manifest, built) = compose::manifest(self.plugin, &facts);
        let notes = std::mem::take(&mut files.notes)
            .into_iter()
            .chain(note)
            .chain(built)
            .collect();
        Ok(BuiltRelease {
            version,
            manifest,
            files,
            notes,
            inspected: Vec::new(),
        })
    }
}
