//! The five steps of a build: from the registry's entries to a [`BuildReport`] and a folder of releases.
//!
//! [`plugin_build`] builds plugins in parallel, and the tags of each one in turn.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::build::error::BuildError;
use crate::build::fetch::{self, Fetched};
use crate::build::git::mirror::Mirrors;
use crate::build::packing::PackingOptions;
use crate::build::plugin_build;
use crate::build::progress::Progress;
use crate::build::publish::Publisher;
use crate::build::report::BuildReport;
use crate::build::report::plugin_report::{PluginReport, PluginState};
use crate::build::side_by_side::side_by_side;
use countersign_files::time_limit;
use countersign_model::slug::Slug;
use countersign_registry::plugins::PluginEntry;

/// What to build, and where to publish it.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder to publish to.
    pub releases: PathBuf,
    /// Write nothing, only report what would change.
    pub check: bool,
    /// Read every tag, even if the index says that it was read.
    pub all: bool,
    /// Whether releases may be removed that no entry withholds.
    pub accepts_removed: bool,
    /// Parse the PHP of the newest release even if it is published already.
    pub parse_php: bool,
    /// Build only these plugins; empty for all.
    pub only: BTreeSet<Slug>,
    /// The mirrors of remote repositories, which `check` updates, too.
    pub mirrors: Mirrors,
    /// How releases are packed.
    pub packing: PackingOptions,
    /// Time limit for reading one repository, and for waiting for another build that publishes.
    pub read_timeout: Duration,
}

/// Builds and publishes the releases of all plugins in `options`.
pub fn run(entries: &[PluginEntry], options: &Options, progress: Arc<dyn Progress>) -> Result<BuildReport, BuildError> {
    // 1 plugins
    let chosen = chosen(entries, &options.only)?;
    known(entries, options.packing.replace.iter().map(|(slug, _)| slug))?;
    let publisher = Arc::new(Publisher::open(&options.releases, options.check, options.all)?);
    let built = build(&chosen, options, &publisher, &progress);
    publisher.close();
    built
}

fn build(
    chosen: &[&PluginEntry],
    options: &Options,
    publisher: &Arc<Publisher>,
    progress: &Arc<dyn Progress>,
) -> Result<BuildReport, BuildError> {
    // 2 tags, 3 the plugin's own files, 4 compose
    let fetched = Arc::new(fetch::fetch(chosen, &options.mirrors, &**progress)?);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let plugins = side_by_side(chosen, cores, |&entry| {
        let report = build_in_time(entry, &fetched, publisher, options, progress)?;
        progress.plugin_done(&report);
        Ok(report)
    })?;

    // 5 publish
    let scope = (!options.only.is_empty()).then_some(&options.only);
    let publication = publisher.lock(scope, options.read_timeout)?;
    let (report, index) = BuildReport::conclude(
        options.check,
        options.accepts_removed,
        plugins,
        publisher,
        &publication,
        scope,
    );
    publisher.publish(&publication, &index, report.damaged.is_empty(), scope)?;
    Ok(report)
}

/// Builds one plugin on a thread of its own. The thread is abandoned if it takes too long: libgit2 opens whatever it
/// finds, even a pipe.
fn build_in_time(
    entry: &PluginEntry,
    fetched: &Arc<Fetched>,
    publisher: &Arc<Publisher>,
    options: &Options,
    progress: &Arc<dyn Progress>,
) -> Result<PluginReport, BuildError> {
    let own = entry.clone();
    let fetched = Arc::clone(fetched);
    let publisher = Arc::clone(publisher);
    let progress = Arc::clone(progress);
    let packing = options.packing.clone();
    let parse_php = options.all || options.parse_php;
    let work = move || plugin_build::build_entry(&own, &fetched, &*publisher, Some(&packing), parse_php, &*progress);
    match time_limit::within(options.read_timeout, work) {
        Ok(report) => report,
        Err(error) => {
            let problem = format!("{}: {error}; --read-timeout allows more", fetch::repository_of(entry));
            Ok(PluginReport {
                state: PluginState::Broken(vec![problem]),
                ..PluginReport::new(entry)
            })
        }
    }
}

/// The entries to build, sorted by slug; entries without one come last.
fn chosen<'a>(entries: &'a [PluginEntry], only: &BTreeSet<Slug>) -> Result<Vec<&'a PluginEntry>, BuildError> {
    known(entries, only.iter())?;
    let wanted = |entry: &&PluginEntry| only.is_empty() || entry.slug.as_ref().is_some_and(|slug| only.contains(slug));
    let mut chosen: Vec<_> = entries.iter().filter(wanted).collect();
    chosen.sort_by_key(|entry| (entry.slug.is_none(), &entry.slug, &entry.file));
    Ok(chosen)
}

/// Fails if a plugin on the command line has no entry.
fn known<'a>(entries: &[PluginEntry], mut named: impl Iterator<Item = &'a Slug>) -> Result<(), BuildError> {
    let known: BTreeSet<_> = entries.iter().filter_map(|entry| entry.slug.as_ref()).collect();
    match named.find(|slug| !known.contains(slug)) {
        Some(unknown) => Err(BuildError::UnknownPlugin(unknown.clone())),
        None => Ok(()),
    }
}
