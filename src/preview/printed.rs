//! The version of each plugin that `preview --print` shows, or why there is none.
//!
//! [`terminal`](crate::preview::terminal) makes text of it, [`json`](mod@crate::preview::json) a document.

use crate::build::{PluginState, ReleaseOutcome};
use crate::preview::site::Site;
use crate::preview::snapshot::Previewed;
use crate::preview::target::Target;
use crate::preview::view::{Pick, RenderedRelease, Selection, VersionView};

/// How many releases a message lists if the version does not exist.
const LATEST: usize = 5;

/// The output, and whether it is complete.
pub struct Printed {
    /// Lines for people, or one JSON document, with a final newline.
    pub text: String,
    /// Whether nothing is broken and every plugin has the version.
    pub is_whole: bool,
}

/// The view to print, or lines that say why there is none.
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

/// The message for a missing version, with existing ones.
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

/// The plugin's slug, or the file that should have one.
pub(super) fn name(plugin: &Previewed) -> String {
    plugin
        .entry
        .slug
        .as_ref()
        .map_or_else(|| plugin.entry.file.display().to_string(), ToString::to_string)
}

/// The tags without a release, with the reasons.
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
            ReleaseOutcome::AwaitsSignatures { .. } | ReleaseOutcome::LeavesBehind(_) => {
                Some((&*tag.tag, "awaits signatures".to_owned()))
            }
            ReleaseOutcome::Built | ReleaseOutcome::Unchanged => None,
        })
}
