//! What `preview --print` finds of each plugin: the version that was asked for, or why there is none.
//!
//! [`terminal`](crate::preview::terminal) makes text of it, [`json`](mod@crate::preview::json) a document.

use crate::build::{PluginState, ReleaseOutcome};
use crate::preview::site::Site;
use crate::preview::snapshot::Previewed;
use crate::preview::target::Target;
use crate::preview::view::{Pick, RenderedRelease, Selection, VersionView};

/// Releases that are named where there is no such version.
const LATEST: usize = 5;

/// What is printed, and whether all of it is a preview of something.
pub struct Printed {
    /// Lines for people, or one JSON document, with a final newline.
    pub text: String,
    /// Whether nothing is broken and every plugin has the version.
    pub is_whole: bool,
}

/// What is looked at; or why there is nothing to look at, in lines.
pub(super) fn found<'a>(
    plugin: &'a Previewed,
    target: &Target,
    selection: &Selection,
) -> Result<(Pick, RenderedRelease<'a>, Site), Vec<String>> {
    match &plugin.draft.tagged.report.state {
        PluginState::Broken(lines) => return Err(lines.clone()),
        PluginState::NoSource => return Err(vec!["no source configured".into()]),
        PluginState::Read => {}
    }
    match VersionView::at(plugin, target.releases.as_deref(), selection) {
        None => Err(vec![match &selection.version {
            Some(version) => no_version(plugin, version),
            None => "there is no release, and nothing that could become one".into(),
        }]),
        Some(VersionView {
            release: Err(remark), ..
        }) => Err(vec![format!("would not be a release: {remark}")]),
        Some(VersionView {
            pick,
            release: Ok(rendered),
            site,
        }) => Ok((pick, rendered, site)),
    }
}

/// That there is no such version, and what can be asked for in its place.
fn no_version(plugin: &Previewed, version: &str) -> String {
    let next = plugin.draft.next.iter().map(|next| Pick::Next(next.origin));
    let tagged = plugin
        .draft
        .tagged
        .releases
        .iter()
        .map(|release| Pick::Tagged(release.version.clone()));
    let there: Vec<_> = next.chain(tagged.take(LATEST)).map(|pick| pick.key()).collect();
    match &there[..] {
        [] => format!("there is no version {version}, and no other"),
        _ => format!("there is no version {version}; the latest are {}", there.join(", ")),
    }
}

/// The plugin's slug, or the file that should give one.
pub(super) fn name(plugin: &Previewed) -> String {
    plugin
        .entry
        .slug
        .as_ref()
        .map_or_else(|| plugin.entry.file.display().to_string(), ToString::to_string)
}

/// The tags that give no release, and why.
pub(super) fn left_out(plugin: &Previewed) -> impl Iterator<Item = (&str, String)> {
    plugin
        .draft
        .tagged
        .report
        .tags
        .iter()
        .filter_map(|tag| match &tag.outcome {
            ReleaseOutcome::Skipped(reason) | ReleaseOutcome::Failed(reason) => Some((&*tag.tag, reason.to_string())),
            ReleaseOutcome::AwaitsPackage => Some((&*tag.tag, "awaits its package".to_owned())),
            ReleaseOutcome::Built | ReleaseOutcome::Unchanged => None,
        })
}
