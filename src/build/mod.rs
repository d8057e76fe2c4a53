//! `countersign build`: registry entries → tags → the plugin's own files at each tag → manifests → `releases/`.
//!
//! [`run`] is the whole of it, in five steps; plugins are built side by side, the tags of one after the other. What becomes
//! of each tag is data, collected in a [`Report`]. The server reads what was published through the catalog.

mod compose;
pub mod draft;
#[cfg(test)]
mod fixture;
pub mod git;
mod inputs;
mod manifest_sink;
mod publish;
mod report;
mod review;
pub mod source;
mod tags;
#[cfg(test)]
mod tests;
mod version_check;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use url::Url;

use crate::build::compose::Facts;
pub use crate::build::git::credentials::{Credentials, CredentialsError};
pub use crate::build::git::mirror::Mirrors;
use crate::build::git::repository::{Repository, Tag};
pub use crate::build::git::repository::{RepositoryError, can_be_read};
pub use crate::build::inputs::FORMAT;
use crate::build::inputs::Inputs;
pub use crate::build::manifest_sink::Remark;
use crate::build::manifest_sink::{Composed, Shelf};
use crate::build::publish::Publisher;
use crate::build::report::outcome::Reason;
pub use crate::build::report::outcome::{Outcome, TagOutcome};
pub use crate::build::report::summary::{counted, summary};
pub use crate::build::report::{PluginReport, Report, State, Warning};
use crate::build::source::source_reader::SourceReader;
use crate::build::source::source_tree::Files as _;
use crate::build::tags::{Candidate, Chosen};
use crate::catalog::{CatalogError, Release};
use crate::model::digest::Digest;
use crate::model::plugin::{self, Plugin};
use crate::model::slug::Slug;
use crate::model::version::Version;
use crate::registry::plugins::Entry;
use crate::text::error_chain::ErrorChain;
use crate::time_limit;

/// What to build, and where to.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder that is published to.
    pub releases: PathBuf,
    /// Write nothing, only say what would change.
    pub check: bool,
    /// Read every tag, also those that the index says were read already.
    pub all: bool,
    /// Parse the PHP of the newest release also where it is published already.
    pub parse_php: bool,
    /// Build these plugins only; empty for all.
    pub only: BTreeSet<Slug>,
    /// Where remote repositories are fetched to, also where nothing else is written.
    pub mirrors: Mirrors,
    /// How long the reading of one repository, and the publishing of another build, may take.
    pub read_timeout: Duration,
}

/// How many remote repositories are fetched at a time.
const FETCHES: usize = 4;

/// Remote repositories by address: the folder of the mirror, or why there is none, in one line.
type Fetched = HashMap<Url, Result<PathBuf, String>>;

/// Hears how far the build is; called from several threads.
pub trait Progress: Send + Sync {
    /// A remote repository is about to be fetched.
    fn fetching(&self, address: &str);
    /// So many tags of a plugin are about to be read.
    fn tags_found(&self, plugin: &Slug, tags: usize);
    /// So many tags, of whichever plugin, are done.
    fn tags_done(&self, tags: usize);
    /// A plugin is done.
    fn plugin_done(&self, report: &PluginReport);
}

/// Why nothing was published. What was published before is untouched, except where the message names a file.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// `--plugin` names no entry.
    #[error("there is no plugin {0} in the registry")]
    UnknownPlugin(Slug),
    /// The index cannot be read.
    #[error("what is published cannot be read")]
    Index(#[source] CatalogError),
    /// Another build writes there.
    #[error("{}: another build is publishing here", path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
    },
    /// Another build has published something else meanwhile.
    #[error("{}: another build has published here since this one began", path.display())]
    Overtaken {
        /// The folder.
        path: PathBuf,
    },
    /// A file or folder cannot be written.
    #[error("{}: cannot be written", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl BuildError {
    fn write(path: &Path, source: io::Error) -> Self {
        Self::Write { path: path.to_owned(), source }
    }
}

/// Builds the releases of all plugins that `options` asks for, and publishes them.
pub fn run(entries: &[Entry], options: &Options, progress: Arc<dyn Progress>) -> Result<Report, BuildError> {
    // 1 plugins
    let chosen = chosen(entries, &options.only)?;
    let publisher = Arc::new(Publisher::open(&options.releases, options.check, options.all)?);
    let built = build(&chosen, options, &publisher, &progress);
    publisher.close();
    built
}

fn build(
    chosen: &[&Entry],
    options: &Options,
    publisher: &Arc<Publisher>,
    progress: &Arc<dyn Progress>,
) -> Result<Report, BuildError> {
    // 2 tags, 3 the plugin's own files, 4 compose
    let fetched = Arc::new(fetch(chosen, &options.mirrors, &**progress)?);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let plugins = side_by_side(chosen, cores, |&entry| {
        let report = build_in_time(entry, &fetched, publisher, options, progress)?;
        progress.plugin_done(&report);
        Ok(report)
    })?;

    // 5 publish
    let scope = (!options.only.is_empty()).then_some(&options.only);
    let publication = publisher.lock(scope, options.read_timeout)?;
    let (report, index) = Report::settle(options.check, plugins, publisher, &publication, scope);
    publisher.publish(&publication, &index, report.damaged.is_empty(), scope)?;
    Ok(report)
}

/// Builds one plugin on a thread of its own, which is left alone where its repository does not let itself be read in time:
/// libgit2 opens what it finds there, be it a pipe.
fn build_in_time(
    entry: &Entry,
    fetched: &Arc<Fetched>,
    publisher: &Arc<Publisher>,
    options: &Options,
    progress: &Arc<dyn Progress>,
) -> Result<PluginReport, BuildError> {
    let own = entry.clone();
    let fetched = Arc::clone(fetched);
    let publisher = Arc::clone(publisher);
    let progress = Arc::clone(progress);
    let parse_php = options.all || options.parse_php;
    let work = move || build_entry(&own, &fetched, &*publisher, parse_php, &*progress);
    match time_limit::within(options.read_timeout, work) {
        Ok(report) => report,
        Err(error) => {
            let problem = format!("{}: {error}; --read-timeout gives it more", repository_of(entry));
            Ok(PluginReport { state: State::Broken(vec![problem]), ..PluginReport::new(entry) })
        }
    }
}

/// The plugin's repository as a message names it.
fn repository_of(entry: &Entry) -> String {
    let source = entry.plugin.as_ref().ok().and_then(|plugin| plugin.source.as_ref());
    match source.map(|source| &source.repository) {
        Some(plugin::Repository::Folder(folder)) => folder.display().to_string(),
        Some(plugin::Repository::Url(url)) => git::mirror::shown(url),
        None => entry.file.display().to_string(),
    }
}

/// The entries to build, sorted by slug; entries without one come last.
fn chosen<'a>(entries: &'a [Entry], only: &BTreeSet<Slug>) -> Result<Vec<&'a Entry>, BuildError> {
    let known: BTreeSet<_> = entries.iter().filter_map(|entry| entry.slug.as_ref()).collect();
    if let Some(unknown) = only.iter().find(|slug| !known.contains(slug)) {
        return Err(BuildError::UnknownPlugin(unknown.clone()));
    }
    let wanted = |entry: &&Entry| only.is_empty() || entry.slug.as_ref().is_some_and(|slug| only.contains(slug));
    let mut chosen: Vec<_> = entries.iter().filter(wanted).collect();
    chosen.sort_by_key(|entry| (entry.slug.is_none(), &entry.slug, &entry.file));
    Ok(chosen)
}

/// Brings the mirrors of all remote repositories up to date; plugins of a monorepo share one.
fn fetch(entries: &[&Entry], mirrors: &Mirrors, progress: &dyn Progress) -> Result<Fetched, BuildError> {
    let sources = entries.iter().filter_map(|entry| entry.plugin.as_ref().ok()?.source.as_ref());
    let addresses: BTreeSet<&Url> = sources
        .filter_map(|source| match &source.repository {
            plugin::Repository::Url(url) => Some(url),
            plugin::Repository::Folder(_) => None,
        })
        .collect();
    let addresses: Vec<_> = addresses.into_iter().collect();
    let fetched = side_by_side(&addresses, FETCHES, |&url| {
        let address = git::mirror::shown(url);
        if !mirrors.offline {
            progress.fetching(&address);
        }
        let mirror = mirrors.update(url).map_err(|error| format!("{address}: {}", ErrorChain(&error)));
        Ok((url.clone(), mirror))
    })?;
    Ok(fetched.into_iter().collect())
}

/// Does `work` for every item, some at a time; the results stand in the items' order.
fn side_by_side<T: Sync, R: Send, E: Send>(
    items: &[T],
    at_a_time: usize,
    work: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(items.len()));
    std::thread::scope(|scope| {
        for _ in 0..at_a_time.min(items.len()) {
            scope.spawn(|| {
                loop {
                    let position = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(position) else { return };
                    let result = work(item);
                    if result.is_err() {
                        next.store(items.len(), Ordering::Relaxed);
                    }
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((position, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(position, _)| *position);
    done.into_iter().map(|(_, result)| result).collect()
}

fn build_entry<S: Shelf>(
    entry: &Entry,
    fetched: &Fetched,
    shelf: &S,
    parse_php: bool,
    progress: &dyn Progress,
) -> Result<PluginReport, S::Error> {
    let mut report = PluginReport::new(entry);
    match &entry.plugin {
        Err(complaints) => report.state = State::Broken(complaints.iter().map(ToString::to_string).collect()),
        Ok(Plugin { source: None, .. }) => report.state = State::NoSource,
        Ok(plugin) => match open(plugin, fetched) {
            Err(problem) => report.state = State::Broken(vec![problem]),
            Ok(repository) => build_plugin(plugin, &repository, shelf, parse_php, progress, &mut report)?,
        },
    }
    Ok(report)
}

/// The plugin's repository, or why there is none, in one line.
fn open(plugin: &Plugin, fetched: &Fetched) -> Result<Repository, String> {
    let repository = plugin.source.as_ref().map(|source| &source.repository);
    let is_mirror = matches!(repository, Some(plugin::Repository::Url(_)));
    let folder = match repository {
        Some(plugin::Repository::Folder(folder)) => folder,
        Some(plugin::Repository::Url(url)) => fetched.get(url).ok_or("not fetched")?.as_ref().map_err(String::clone)?,
        None => return Err("no source configured".into()),
    };
    let opened = if is_mirror { Repository::open_mirror(folder) } else { Repository::open(folder) };
    opened.map_err(|error| ErrorChain(&error).to_string())
}

/// Builds every release of a plugin; each becomes an outcome in `report`.
fn build_plugin<S: Shelf>(
    plugin: &Plugin,
    repository: &Repository,
    shelf: &S,
    parse_php: bool,
    progress: &dyn Progress,
    report: &mut PluginReport,
) -> Result<(), S::Error> {
    // 2 tags
    let tags = match repository.tags() {
        Ok(tags) => tags,
        Err(error) => {
            report.state = State::Broken(vec![ErrorChain(&error).to_string()]);
            return Ok(());
        }
    };
    let published = shelf.published(&plugin.slug);
    if tags.is_empty() && published.is_some() {
        let hint = if repository.is_shallow() { " (the clone is shallow)" } else { "" };
        let problem = format!("the repository has no tags{hint}, but releases are published: fetch the tags");
        report.state = State::Broken(vec![problem]);
        return Ok(());
    }
    progress.tags_found(&plugin.slug, tags.len());
    let (candidates, skipped) = tags::sort_out(plugin, repository.name(), tags);
    progress.tags_done(skipped.len());
    report.tags = skipped;

    let mut build = PluginBuild {
        plugin,
        repository,
        shelf,
        published: published.iter().flat_map(|old| &old.releases).map(|release| (&release.version, release)).collect(),
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
    shelf: &'a S,
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

impl<'a, S: Shelf> PluginBuild<'a, S> {
    fn release(&mut self, candidate: Candidate) -> Result<(), S::Error> {
        if let Some(known) = candidate.only().and_then(|(version, tag)| self.known(tag, version)) {
            if self.keep(known)
                && let Some(chosen) = candidate.choose(self.repository, &mut Vec::new())
            {
                self.review_again(&chosen);
            }
            return Ok(());
        }
        let Some(chosen) = candidate.choose(self.repository, &mut self.report.tags) else { return Ok(()) };
        if let Some(known) = self.known(&chosen.tag, &chosen.version) {
            if self.keep(known) {
                self.review_again(&chosen);
            }
            return Ok(());
        }

        // 3 the plugin's own files, 4 compose
        let mut composed = match self.compose(&chosen) {
            Ok(composed) => composed,
            Err(reason) => {
                let reason = self.moved(&chosen, &reason).unwrap_or(reason);
                let Chosen { tag, version, .. } = chosen;
                let outcome =
                    TagOutcome { tag: tag.name, version: Some(version), outcome: reason.into(), notes: Vec::new() };
                self.report.tags.push(outcome);
                return Ok(());
            }
        };
        let version = composed.version.clone();
        let notes = composed.notes.clone();
        let commit = chosen.tagged.commit.to_string();
        if self.is_twin(&commit, &version, &chosen.tag.name) {
            return Ok(());
        }
        if self.reviewed.is_due(&version) {
            self.review(&chosen, &mut composed, true);
        }

        // 5 publish: staged here, put in place when all plugins are done
        let (sha256, held) = self.shelf.take(&self.plugin.slug, composed)?;
        let inputs = self.inputs.of_tag(&chosen.tag, &chosen.version);
        let release = Release { version, tag: chosen.tag.name, commit, inputs, sha256 };
        let unchanged = held && self.published.get(&release.version).is_some_and(|old| old.shows_the_same(&release));
        let outcome = if unchanged { Outcome::Unchanged } else { Outcome::Built };
        self.push(release, outcome, notes);
        Ok(())
    }

    /// Looks for what the maker of a release should know.
    fn review(&mut self, chosen: &Chosen, composed: &mut Composed, parse_php: bool) {
        let folder = self.plugin.source.as_ref().map_or("", |source| &source.path);
        composed.inspected = review::inspect(self.plugin, self.repository, &chosen.tagged.tree, parse_php);
        let warning = |remark| Warning { tag: chosen.tag.name.clone(), version: composed.version.clone(), remark };
        // The pre-release before it mostly has the same ones.
        let warnings = &mut self.report.warnings;
        let mut remarks = composed.remarks(folder);
        remarks.retain(|remark| !warnings.iter().any(|told| told.remark == *remark));
        warnings.extend(remarks.into_iter().map(warning));
    }

    /// The same for a release that is taken over as it is published. Its maker has had these warnings, so what cannot be read
    /// now is none.
    fn review_again(&mut self, chosen: &Chosen) {
        if let Ok(mut composed) = self.compose(chosen) {
            self.review(chosen, &mut composed, self.parse_php);
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
        self.shelf.stands(&self.plugin.slug, known).then_some(known)
    }

    /// Takes a release over as it is published; says whether it has to be reviewed.
    fn keep(&mut self, release: &Release) -> bool {
        if self.is_twin(&release.commit, &release.version, &release.tag) {
            return false;
        }
        self.push(release.clone(), Outcome::Unchanged, Vec::new());
        self.reviewed.is_due(&release.version)
    }

    /// Whether an earlier tag gave this version of this commit already; if not, it is noted that this one does.
    fn is_twin(&mut self, commit: &str, version: &Version, tag: &str) -> bool {
        if let Some((twin, earlier)) = self.by_commit.get(commit)
            && twin.cmp_php(version).is_eq()
        {
            let outcome = Reason::SameAs(earlier.clone()).into();
            let version = Some(version.clone());
            self.report.tags.push(TagOutcome { tag: tag.to_owned(), version, outcome, notes: Vec::new() });
            return true;
        }
        self.by_commit.insert(commit.to_owned(), (version.clone(), tag.to_owned()));
        false
    }

    fn push(&mut self, release: Release, outcome: Outcome, notes: Vec<Reason>) {
        let version = Some(release.version.clone());
        self.report.tags.push(TagOutcome { tag: release.tag.clone(), version, outcome, notes });
        self.report.releases.releases.push(release);
    }

    fn compose(&mut self, chosen: &Chosen) -> Result<Composed, Reason> {
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
        let (manifest, composed) = compose::manifest(self.plugin, &facts);
        let notes = std::mem::take(&mut files.notes).into_iter().chain(note).chain(composed).collect();
        Ok(Composed { version, manifest, files, notes, inspected: Vec::new() })
    }
}
