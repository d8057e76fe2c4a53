//! What happens if a release is withheld, and what a person writes for that. Nothing is changed here: only people write the entry of
//! a plugin.

use std::collections::BTreeSet;

use askama::Template;
use warp::http::StatusCode;

use crate::serve::desk::asked::Asked;
use crate::serve::desk::frame::{NavEntry, PageFrame};
use crate::serve::desk::kept_figures::{self, DAYS};
use crate::serve::gate;
use crate::serve::pages::answer::PageAnswer;
use crate::serve::pages::page_problem::PageProblem;
use crate::serve::pages::shown::counted;
use countersign_model::plugin::Plugin;
use countersign_model::release_rules::RuledRelease;
use countersign_model::rollout::RolloutPhase;
use countersign_model::text::outside_text::OutsideText;
use countersign_model::version::{Version, same_version};
use countersign_model::way_back::WayBack;

#[derive(Template)]
#[template(path = "desk/withhold.html")]
struct WithholdPage {
    frame: PageFrame,
    name: OutsideText,
    plugin: String,
    heading: String,
    version: String,
    /// The releases to choose from, newest first.
    published: Vec<String>,
    /// Each with its name.
    facts: Vec<(&'static str, OutsideText)>,
    state: WithholdState,
    /// The line of the entry.
    line: String,
    /// Whether the entry has such a line already.
    has_line: bool,
}

/// What the entry and the published releases say of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WithholdState {
    /// Sites get it.
    Published,
    /// The entry withholds it, and no build has taken it away yet.
    Leaving,
    /// It was taken back.
    Withheld,
}

/// The page of the release that the query names, or of the newest.
pub(super) async fn page(asked: &Asked<'_>) -> Result<PageAnswer, PageProblem> {
    let plugin = asked.plugin()?;
    let releases: Vec<_> = gate::ruled(asked.snapshot, plugin).collect();
    let wanted = asked.fields.get("version");
    let version = match wanted.is_empty() {
        true => asked
            .snapshot
            .catalog
            .newest(&plugin.slug)
            .or(releases.first().map(|release| release.version)),
        false => None,
    };
    let version = version.cloned().or_else(|| wanted.parse().ok());
    let version = version.ok_or_else(|| no_release(plugin))?;
    let is_published = releases.iter().any(|release| *release.version == version);
    let state = match (is_published, plugin.withholds(&version)) {
        (true, false) => WithholdState::Published,
        (true, true) => WithholdState::Leaving,
        (false, true) => WithholdState::Withheld,
        (false, false) => return Err(no_release(plugin)),
    };
    let usage = kept_figures::usage(asked, [plugin]).await?.pop().flatten();
    let versions = usage.iter().flat_map(|usage| &usage.versions);
    let running = versions.filter(|used| same_version(&used.version, version.as_str()));
    let sites = running.map(|used| used.sites).sum();
    let name = asked.plugin_name(plugin);
    let heading = match state {
        WithholdState::Published => format!("Take {name} {version} back?"),
        WithholdState::Leaving | WithholdState::Withheld => format!("{name} {version} is withheld"),
    };
    let mut facts = consequences(plugin, &releases, &version, sites);
    if state == WithholdState::Published && is_rolling_out(asked, plugin, &version) {
        facts.push((
            "Until then",
            "Its rollout goes on. Pause it on the page of the plugin: that acts at once.".to_owned(),
        ));
    }
    Ok(PageAnswer::ok(&WithholdPage {
        frame: asked.frame(&heading, NavEntry::Plugins),
        name,
        plugin: plugin.slug.to_string(),
        heading,
        published: releases.iter().map(|release| release.version.to_string()).collect(),
        facts: facts
            .into_iter()
            .map(|(name, said)| (name, OutsideText::of_sentence(&said)))
            .collect(),
        state,
        line: line(plugin, &version),
        has_line: !plugin.withhold.is_empty(),
        version: version.to_string(),
    }))
}

fn no_release(plugin: &Plugin) -> PageProblem {
    let words = "The plugin has no such release, neither published nor withheld.";
    PageProblem::new(StatusCode::NOT_FOUND, "No such release", words).back_to(format!("/plugins/{}", plugin.slug))
}

fn is_rolling_out(asked: &Asked<'_>, plugin: &Plugin, version: &Version) -> bool {
    let rollouts = asked.state.service.gate.bindings().rollouts(&plugin.slug);
    let rollout = rollouts.as_ref().and_then(|rollouts| rollouts.of(version));
    plugin.rollout.is_some() && rollout.is_some_and(|rollout| rollout.phase() == RolloutPhase::Running)
}

/// What happens to sites that do not have the release, to those that do, and then.
fn consequences(
    plugin: &Plugin,
    releases: &[RuledRelease<'_>],
    version: &Version,
    sites: usize,
) -> Vec<(&'static str, String)> {
    let others: Vec<_> = releases
        .iter()
        .copied()
        .filter(|release| release.version != version && !plugin.withholds(release.version))
        .collect();
    let channel = version.channel();
    let is_of_channel = |release: &&RuledRelease<'_>| release.version.channel().is_some_and(|its| Some(its) <= channel);
    let offered = match others.iter().find(is_of_channel).map(|release| release.version) {
        Some(newest) if newest.cmp_php(version).is_gt() => format!("{newest} stays the latest"),
        Some(newest) => format!("{newest} is the latest again"),
        None => "there is no other release to offer".to_owned(),
    };
    let way = WayBack::new(plugin, others.iter().copied(), version);
    let may_go_back = |release: &&RuledRelease<'_>| {
        plugin.hosts_packages() && way.refusal(release.version, &BTreeSet::new()).is_none()
    };
    let back = match others.iter().find(may_go_back) {
        Some(release) => format!(
            "Its owner can go back to {} on the page of the license in WordPress",
            release.version
        ),
        None => "There is no release that it may go back to".to_owned(),
    };
    let said = match sites {
        0 => format!("No site said in {DAYS} days that it runs {version}. One that does keeps it"),
        count => format!(
            "{} said in {DAYS} days that {} {version}. A site that has it keeps it",
            counted(count, "site"),
            if count == 1 { "it runs" } else { "they run" }
        ),
    };
    let mut facts = vec![
        ("Then", format!("No site is offered {version} any more; {offered}.")),
        ("Stay", format!("{said}. {back}; nothing is forced.")),
        (
            "Later",
            "A greater version reaches all sites as usual. The number of this one is used up.".to_owned(),
        ),
    ];
    if releases
        .iter()
        .any(|release| release.version == version && release.security)
    {
        let said = "It is a security release: sites that lack it stay open until a greater one is published.";
        facts.insert(1, ("Beware", said.to_owned()));
    }
    facts
}

/// The line that withholds this version and those that are withheld already.
fn line(plugin: &Plugin, version: &Version) -> String {
    let mut versions = plugin.withhold.clone();
    if !plugin.withholds(version) {
        versions.push(version.clone());
    }
    let quoted: Vec<_> = versions.iter().map(|version| format!("\"{version}\"")).collect();
    format!("withhold = [{}]", quoted.join(", "))
}
