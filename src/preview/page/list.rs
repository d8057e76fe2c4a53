//! The lists beside a version: plugins, versions, and tags without a release.

use crate::build::draft::{NextRelease, Origin};
use crate::build::{PluginState, ReleaseOutcome};
use crate::preview::page::address::Address;
use crate::preview::page::version::date;
use crate::preview::snapshot::Previewed;
use crate::preview::view::Pick;

/// A link to a plugin.
pub(super) struct PluginLink {
    pub name: String,
    pub address: String,
    pub is_current: bool,
    pub is_broken: bool,
}

/// A link to a version.
pub(super) struct VersionLink {
    pub version: String,
    pub origin: &'static str,
    pub date: String,
    pub badge: &'static str,
    pub warnings: usize,
    pub address: String,
    pub is_current: bool,
}

/// A tag without a release, and why.
pub(super) struct LeftOut {
    pub tag: String,
    pub reason: String,
    pub failed: bool,
}

/// The name of a plugin: from its entry, else from its own newest files.
pub(super) fn name(plugin: &Previewed) -> String {
    let entry = &plugin.entry;
    let said = entry
        .plugin
        .as_ref()
        .ok()
        .map(|plugin| plugin.name.clone())
        .filter(|name| !name.is_empty());
    let newest = || {
        let next = plugin.draft.next.iter().find_map(|next| next.release.as_ref().ok());
        let release = next.or(plugin.draft.tagged.releases.first())?;
        Some(release.manifest.name.clone()).filter(|name| !name.is_empty())
    };
    let file = || {
        entry
            .slug
            .as_ref()
            .map_or_else(|| entry.file.display().to_string(), ToString::to_string)
    };
    said.or_else(newest).unwrap_or_else(file)
}

/// The link to a plugin.
pub(super) fn plugin(plugin: &Previewed, is_current: bool) -> PluginLink {
    PluginLink {
        name: name(plugin),
        address: plugin
            .entry
            .slug
            .as_ref()
            .map(|slug| format!("/plugins/{slug}"))
            .unwrap_or_default(),
        is_current,
        is_broken: matches!(plugin.draft.tagged.report.state, PluginState::Broken(_)),
    }
}

/// The links to a plugin's versions: untagged ones first, then the newest.
pub(super) fn versions(plugin: &Previewed, address: &Address, current: Option<&Pick>) -> Vec<VersionLink> {
    let Some(slug) = &plugin.entry.slug else {
        return Vec::new();
    };
    // The site stays the same when the version changes.
    let query = address.query(address.tab);
    let link = |pick: &Pick| format!("/plugins/{slug}/{}?{query}", pick.key());
    // In a clean checkout, HEAD has nothing of its own to show.
    let in_folder = plugin.draft.next.iter().find(|next| next.origin == Origin::WorkingTree);
    let is_shown = |next: &&NextRelease| {
        let is_same = in_folder.is_some_and(|folder| next.origin != folder.origin && next.release == folder.release);
        !is_same || current == Some(&Pick::Next(next.origin))
    };
    let next = plugin.draft.next.iter().filter(is_shown).map(|next| {
        let pick = Pick::Next(next.origin);
        let release = next.release.as_ref().ok();
        VersionLink {
            version: release.map(|release| release.version.to_string()).unwrap_or_default(),
            origin: pick.label(),
            date: String::new(),
            badge: match next {
                next if next.release.is_err() => "no release",
                next if next.is_released => "as tagged",
                _ => "next",
            },
            warnings: release.map_or(1, |release| release.remarks.len()),
            address: link(&pick),
            is_current: current == Some(&pick),
        }
    });
    let report = &plugin.draft.tagged.report;
    let tagged = plugin.draft.tagged.releases.iter().map(|release| {
        let pick = Pick::Tagged(release.version.clone());
        VersionLink {
            version: release.version.to_string(),
            origin: pick.label(),
            date: date(&release.manifest.last_updated, "%-d %b %Y"),
            badge: match &release.version {
                version if report.added.contains(version) && plugin.published.is_some() => "not published",
                version if report.changed.contains(version) => "changed",
                version if report.releases.latest.as_ref() == Some(version) => "latest",
                _ => "",
            },
            warnings: release.remarks.len(),
            address: link(&pick),
            is_current: current == Some(&pick),
        }
    });
    next.chain(tagged).collect()
}

/// Tags without a release of their own.
pub(super) fn left_out(plugin: &Previewed) -> Vec<LeftOut> {
    let tags = plugin.draft.tagged.report.tags.iter();
    tags.filter_map(|tag| {
        let (reason, failed) = match &tag.outcome {
            ReleaseOutcome::Skipped(reason) => (reason.to_string(), false),
            ReleaseOutcome::Failed(reason) => (reason.to_string(), true),
            ReleaseOutcome::AwaitsPackage => ("awaits its package".to_owned(), false),
            ReleaseOutcome::AwaitsSignatures { .. } | ReleaseOutcome::LeavesBehind(_) => {
                ("awaits signatures".to_owned(), false)
            }
            ReleaseOutcome::Built | ReleaseOutcome::Unchanged => return None,
        };
        Some(LeftOut {
            tag: tag.tag.clone(),
            reason,
            failed,
        })
    })
    .collect()
}
