//! Steps 2 to 4 for one plugin: its repository and its tags. [`release_builder`](crate::build::release_builder)
//! builds the release of each tag.

use std::collections::HashSet;

use crate::build::fetch::{self, Fetched};
use crate::build::git::repository::{Repository, SHALLOW};
use crate::build::git::tag::Tag;
use crate::build::manifest_sink::ManifestSink;
use crate::build::packing::PackingOptions;
use crate::build::progress::Progress;
use crate::build::release_builder::ReleaseBuilder;
use crate::build::report::listing::{counted, listed};
use crate::build::report::plugin_report::{PluginReport, PluginState};
use crate::build::source::source_tree::SourceTree as _;
use crate::build::tags;
use countersign_model::plugin::Plugin;
use countersign_model::text::ErrorChain;
use countersign_package::catalog::Releases;
use countersign_registry::plugins::PluginEntry;

/// Builds the plugin of a registry entry.
pub(super) fn build_entry<S: ManifestSink>(
    entry: &PluginEntry,
    fetched: &Fetched,
    sink: &S,
    packing: Option<&PackingOptions>,
    parse_php: bool,
    progress: &dyn Progress,
) -> Result<PluginReport, S::Error> {
    let mut report = PluginReport::new(entry);
    match &entry.plugin {
        Err(diagnostics) => report.state = PluginState::Broken(diagnostics.iter().map(ToString::to_string).collect()),
        Ok(Plugin { source: None, .. }) => report.state = PluginState::NoSource,
        Ok(plugin) => match fetch::open(plugin, fetched) {
            Err(problem) => report.state = PluginState::Broken(vec![problem]),
            Ok(repository) => build_plugin(plugin, &repository, sink, packing, parse_php, progress, &mut report)?,
        },
    }
    Ok(report)
}

/// Builds every release of a plugin; adds the outcomes to `report`.
fn build_plugin<S: ManifestSink>(
    plugin: &Plugin,
    repository: &Repository,
    sink: &S,
    packing: Option<&PackingOptions>,
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
    if let Some(problem) = published.and_then(|published| lost_tags(plugin, repository, &tags, published)) {
        report.state = PluginState::Broken(vec![problem]);
        return Ok(());
    }
    progress.tags_found(&plugin.slug, tags.len());
    let (candidates, skipped) = tags::sort_out(plugin, repository.name(), tags);
    progress.tags_done(skipped.len());
    report.tags = skipped;

    let mut builder = ReleaseBuilder::new(plugin, repository, sink, packing, parse_php, report);
    for candidate in candidates {
        progress.tags_done(candidate.len());
        builder.release(candidate)?;
    }
    builder.finish();
    Ok(())
}

/// The problem of a repository that lacks the tags of published releases because they were not fetched.
fn lost_tags(plugin: &Plugin, repository: &Repository, tags: &[Tag], published: &Releases) -> Option<String> {
    let incomplete = repository.incomplete();
    if tags.is_empty() {
        let hint = incomplete
            .map(|how| format!(" (the clone is {how})"))
            .unwrap_or_default();
        return Some(format!(
            "the repository has no tags{hint}, but releases are published: fetch the tags"
        ));
    }
    let how = incomplete?;
    // git refuses to unshallow a clone that has its history.
    let command = if how == SHALLOW {
        "git fetch --unshallow --tags"
    } else {
        "git fetch --tags"
    };
    let names: HashSet<_> = tags.iter().map(|tag| &*tag.name).collect();
    let releases = published.releases.iter();
    let lost: Vec<_> = releases
        .filter(|release| !names.contains(&*release.tag) && !plugin.withholds(&release.version))
        .map(|release| release.tag.clone())
        .collect();
    (!lost.is_empty()).then(|| {
        format!(
            "the clone is {how} and lacks {} of published releases ({}): fetch the tags: `{command}`",
            counted(lost.len(), "tag"),
            listed(&lost)
        )
    })
}
