//! Plugins: which versions sites run now, and which releases are published.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use askama::Template;

use crate::serve::desk::asked::Asked;
use crate::serve::desk::frame::{NavEntry, PageFrame};
use crate::serve::desk::kept_figures::{self, DAYS};
use crate::serve::desk::plugin_history::{self, PERIODS, PluginHistory};
use crate::serve::desk::plugin_rollouts::{self, ShownRollout};
use crate::serve::pages::answer::PageAnswer;
use crate::serve::pages::page_problem::PageProblem;
use crate::serve::pages::shown::{ShownDay, ShownTime, address, counted, grouped, percent};
use crate::serve::plugin_usage::PluginUsage;
use countersign_model::plugin::Plugin;
use countersign_model::slug::Slug;
use countersign_model::text::outside_text::OutsideText;
use countersign_model::version::Version;

/// How many versions a page shows.
const MOST_VERSIONS: usize = 60;

/// How many releases of a plugin the page with all of them shows.
const MOST_RELEASES: usize = 5;

#[derive(Template)]
#[template(path = "desk/plugins.html")]
struct PluginsPage {
    frame: PageFrame,
    said: String,
    plugins: Vec<ShownPlugin>,
}

/// A plugin in the list.
struct ShownPlugin {
    slug: Slug,
    name: OutsideText,
    latest: Option<OutsideText>,
    sites: String,
    share: usize,
    withheld: usize,
    /// The newest release that not every site has yet.
    rollout: Option<ShownRollout>,
}

#[derive(Template)]
#[template(path = "desk/plugin.html")]
struct PluginPage {
    frame: PageFrame,
    name: OutsideText,
    slug: Slug,
    latest: Option<OutsideText>,
    has_releases: bool,
    sites: String,
    silent: usize,
    days: u16,
    rollouts: Vec<ShownRollout>,
    versions: Vec<ShownVersion>,
    more: usize,
    history: PluginHistory,
    /// The days of the history.
    period: u16,
    periods: [(u16, &'static str); 3],
}

/// A version that sites run.
struct ShownVersion {
    version: OutsideText,
    /// The address of the licenses of these sites.
    path: String,
    sites: String,
    share: usize,
    released: Option<ShownDay>,
    behind: Option<usize>,
    is_latest: bool,
    is_withheld: bool,
    seen: ShownTime,
}

#[derive(Template)]
#[template(path = "desk/releases.html")]
struct ReleasesPage {
    frame: PageFrame,
    said: String,
    plugins: Vec<PublishedPlugin>,
}

/// The releases of a plugin.
struct PublishedPlugin {
    slug: Slug,
    name: OutsideText,
    /// The newest first.
    versions: Vec<OutsideText>,
    more: usize,
    /// How many people must sign a release.
    signers: Option<usize>,
    /// The release that not every site has yet.
    rollout: Option<ShownRollout>,
}

/// The plugins of the registry, by name.
fn plugins<'a>(asked: &'a Asked<'_>) -> Vec<(OutsideText, &'a Plugin)> {
    let named = asked
        .snapshot
        .registry
        .plugins()
        .map(|plugin| (asked.plugin_name(plugin), plugin));
    let mut named: Vec<_> = named.collect();
    named.sort_by(|(one, a), (other, b)| (one, &a.slug).cmp(&(other, &b.slug)));
    named
}

/// The share of sites that run the newest release, in percent.
fn on_latest(usage: &PluginUsage) -> usize {
    let latest = usage.latest.as_ref().map(Version::as_str);
    let used = usage.versions.iter().find(|used| Some(used.version.as_str()) == latest);
    percent(used.map_or(0, |used| used.sites), usage.sites)
}

/// All plugins.
pub(super) async fn all(asked: &Asked<'_>) -> Result<PageAnswer, PageProblem> {
    let plugins = plugins(asked);
    let usages = kept_figures::usage(asked, plugins.iter().map(|(_, plugin)| *plugin)).await?;
    let mut shown = Vec::new();
    for ((name, plugin), usage) in plugins.into_iter().zip(&usages) {
        let rollouts = plugin_rollouts::of_plugin(asked, plugin).await?;
        let latest = usage.as_ref().and_then(|usage| usage.latest.as_ref());
        shown.push(ShownPlugin {
            slug: plugin.slug.clone(),
            name,
            latest: latest.map(|latest| OutsideText::of(latest.as_str())),
            sites: grouped(usage.as_ref().map_or(0, |usage| usage.sites)),
            share: usage.as_ref().map_or(0, on_latest),
            withheld: plugin.withhold.len(),
            rollout: rollouts.into_iter().find(|rollout| rollout.is_open),
        });
    }
    Ok(PageAnswer::ok(&PluginsPage {
        frame: asked.frame("Plugins", NavEntry::Plugins),
        said: format!(
            "{}. Sites count that asked within {DAYS} days.",
            counted(shown.len(), "plugin")
        ),
        plugins: shown,
    }))
}

/// One plugin.
pub(super) async fn one(asked: &Asked<'_>) -> Result<PageAnswer, PageProblem> {
    let plugin = asked.plugin()?;
    let usage = kept_figures::usage(asked, [plugin]).await?.pop().flatten();
    let period = plugin_history::period(asked.fields.get("days"));
    let service = &asked.state.service;
    let report = service
        .history
        .report(Some(plugin.slug.clone()), period, service.tally.lines(), asked.now)
        .await?;
    let latest = usage.as_ref().and_then(|usage| usage.latest.as_ref());
    let history = PluginHistory::of(&report, latest, asked.today());
    let name = asked.plugin_name(plugin);
    let versions = usage.iter().flat_map(|usage| &usage.versions);
    let latest = usage.as_ref().and_then(|usage| usage.latest.clone());
    let shown = versions.clone().take(MOST_VERSIONS).map(|used| ShownVersion {
        version: OutsideText::of(&used.version),
        path: running_path(&plugin.slug, &used.version),
        sites: grouped(used.sites),
        share: percent(used.sites, usage.as_ref().map_or(0, |usage| usage.sites)),
        released: used.released.map(|day| ShownDay::of(day, asked.today())),
        behind: used.releases_behind,
        is_latest: latest.as_ref().is_some_and(|latest| latest.as_str() == used.version),
        is_withheld: used.withheld,
        seen: ShownTime::of(used.last_seen, asked.now),
    });
    Ok(PageAnswer::ok(&PluginPage {
        frame: asked.frame(name.as_str(), NavEntry::Plugins),
        name,
        slug: plugin.slug.clone(),
        has_releases: !asked.snapshot.catalog.published(&plugin.slug).is_empty(),
        sites: counted(usage.as_ref().map_or(0, |usage| usage.sites), "site"),
        silent: usage.as_ref().map_or(0, |usage| usage.silent),
        days: DAYS,
        rollouts: plugin_rollouts::of_plugin(asked, plugin).await?,
        versions: shown.collect(),
        more: versions.count().saturating_sub(MOST_VERSIONS),
        latest: latest.map(|latest| OutsideText::of(latest.as_str())),
        history,
        period,
        periods: PERIODS,
    }))
}

/// The address of the list of licenses whose sites run a version, which is what sites say it is.
fn running_path(plugin: &Slug, version: &str) -> String {
    address("/licenses", &[("plugin", plugin.as_str()), ("runs", version)])
}

/// What is published.
pub(super) async fn releases(asked: &Asked<'_>) -> Result<PageAnswer, PageProblem> {
    let mut published: BTreeMap<&Slug, Vec<&Version>> = BTreeMap::new();
    let releases = asked.snapshot.catalog.releases();
    for (slug, version) in releases.iter() {
        published.entry(slug).or_default().push(version);
    }
    let mut shown = Vec::new();
    for (name, plugin) in plugins(asked) {
        let rollouts = plugin_rollouts::of_plugin(asked, plugin).await?;
        let mut versions = published.remove(&plugin.slug).unwrap_or_default();
        versions.sort_by(|one, other| other.cmp_php(one));
        shown.push(PublishedPlugin {
            slug: plugin.slug.clone(),
            name,
            more: versions.len().saturating_sub(MOST_RELEASES),
            versions: versions
                .into_iter()
                .take(MOST_RELEASES)
                .map(|version| OutsideText::of(version.as_str()))
                .collect(),
            signers: plugin.signing.as_ref().map(|signing| signing.threshold),
            rollout: rollouts.into_iter().find(|rollout| rollout.is_open),
        });
    }
    shown.sort_by_key(|plugin| Reverse(plugin.signers.is_some()));
    Ok(PageAnswer::ok(&ReleasesPage {
        frame: asked.frame("Releases", NavEntry::Releases),
        said: format!("{} published", counted(releases.count(), "release")),
        plugins: shown,
    }))
}
