//! Rollouts of releases: starts one when a new release comes into force, ends it in time, and tells how far each is.
//!
//! What happens is a line of the ledger, so several nodes start one rollout once. [`gate`](crate::serve::gate) holds releases from
//! sites; [`rollout_answers`](crate::serve::ops::rollout_answers) carries out what people order.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::timeout;

use crate::serve::gate::Snapshot;
use crate::serve::rollout_alarm;
use crate::serve::state::Service;
use countersign_ledger::{Ledger, NewestRelease, RolloutChange, StoreError};
use countersign_model::channel::Channel;
use countersign_model::plugin::Plugin;
use countersign_model::remarks::Author;
use countersign_model::rollout::{PluginRollouts, Rollout, RolloutPhase, RolloutSettings, RolloutStep};
use countersign_model::slug::Slug;
use countersign_model::version::Version;
use countersign_package::catalog::Catalog;

/// The time between two looks where no file changed.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// The time between two looks at what sites run that took a release.
const ALARM_EVERY: TimeDelta = TimeDelta::minutes(10);

/// Looks at the releases in force again and again.
pub(super) async fn run(service: Arc<Service>) {
    let mut seen: Option<Arc<Catalog>> = None;
    let mut is_failing = false;
    let mut judged = Utc::now();
    loop {
        let now = Utc::now();
        let snapshot = service.gate.snapshot();
        let looked = look(service.gate.bindings(), &snapshot, seen.as_deref(), now).await;
        if let Err(error) = &looked
            && !is_failing
        {
            tracing::warn!(%error, "rollouts wait for the ledger");
        }
        is_failing = looked.is_err();
        if !is_failing {
            // A release whose line was not written is still a new one.
            seen = Some(Arc::clone(&snapshot.catalog));
        }
        drop(snapshot);
        // By the time of day, as what sites took: it may jump either way.
        if (now - judged).abs() > ALARM_EVERY {
            judged = now;
            if let Err(error) = rollout_alarm::look(&service, now).await {
                tracing::warn!(%error, "an alarm of a rollout waits for the ledger");
            }
        }
        let _ = timeout(LOOK_EVERY, service.rollouts.woken()).await;
    }
}

/// The releases that many sites took and do not run, unless they were taken back or a newer one took their place.
pub(super) fn alarmed(service: &Service, snapshot: &Snapshot) -> Vec<(Slug, Version)> {
    let mut alarmed = Vec::new();
    for plugin in snapshot.registry.plugins().filter(|plugin| plugin.rollout.is_some()) {
        let rollouts = service.gate.bindings().rollouts(&plugin.slug).unwrap_or_default();
        let current = rollouts.iter().filter(|rollout| {
            let is_out = rollout.phase() != RolloutPhase::Withheld && rollouts.superseded(rollout).is_none();
            is_out && rollout.is_alarmed()
        });
        alarmed.extend(current.map(|rollout| (plugin.slug.clone(), rollout.version.clone())));
    }
    alarmed
}

/// Writes what the releases in force change about rollouts. `seen` are those that were in force before, if this server had some.
///
/// # Errors
/// Something was not written. Looking again is safe.
async fn look(
    ledger: &Ledger,
    snapshot: &Snapshot,
    seen: Option<&Catalog>,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    for plugin in snapshot.registry.plugins() {
        let Some(settings) = &plugin.rollout else { continue };
        let known = ledger.rollouts(&plugin.slug).unwrap_or_default();
        let newest = newest_of(&snapshot.catalog, &plugin.slug);
        for step in due_steps(plugin, settings, &snapshot.catalog, seen, &known, now) {
            let (version, step) = match step {
                DueStep::Newest { version, was_served } => {
                    let first_look = known.is_empty().then(|| newest.clone());
                    let seen = NewestRelease {
                        slug: plugin.slug.clone(),
                        version: version.clone(),
                        was_served,
                        first_look,
                        now,
                    };
                    let outcome = ledger.see_newest(seen).await?;
                    let last = outcome.rollouts.of(&version).and_then(Rollout::last);
                    (version, last.filter(|_| outcome.is_changed).map(|mark| mark.step))
                }
                DueStep::Other { version, step, least } => {
                    let change = RolloutChange {
                        slug: plugin.slug.clone(),
                        version: version.clone(),
                        step,
                        least,
                        author: Author::default(),
                        now,
                    };
                    let outcome = ledger.change_rollout(change).await?;
                    (version, outcome.is_changed.then_some(step))
                }
            };
            if let Some(step) = step {
                tracing::info!(plugin = %plugin.slug, %version, step = step.as_str(), "a rollout");
            }
        }
    }
    Ok(())
}

/// The latest releases of all channels, each once.
fn newest_of(catalog: &Catalog, slug: &Slug) -> Vec<Version> {
    let mut newest = Vec::new();
    for channel in Channel::ALL {
        if let Some(version) = catalog.newest_of(slug, channel)
            && !newest.contains(version)
        {
            newest.push(version.clone());
        }
    }
    newest
}

/// A step that is due.
#[derive(Debug, PartialEq, Eq)]
enum DueStep {
    /// This release is the newest of a channel, and has no rollout, or one that ended because it was taken back.
    Newest { version: Version, was_served: bool },
    /// This one's time has come, or it was taken back.
    Other {
        version: Version,
        step: RolloutStep,
        /// The running time that it needs.
        least: Option<TimeDelta>,
    },
}

/// What the ledger lacks about the rollouts of a plugin.
fn due_steps(
    plugin: &Plugin,
    settings: &RolloutSettings,
    catalog: &Catalog,
    seen: Option<&Catalog>,
    known: &PluginRollouts,
    now: DateTime<Utc>,
) -> Vec<DueStep> {
    let slug = &plugin.slug;
    let newest = newest_of(catalog, slug);
    let is_security = |version: &Version| {
        let mut published = catalog.published(slug).iter();
        published.any(|release| release.version == *version && release.security)
    };
    let is_published = |version: &Version| catalog.releases().has(slug, version);
    let mut steps = Vec::new();
    // Releases that could not be read were not taken back.
    if newest.is_empty() {
        return steps;
    }
    for rollout in known.iter() {
        // What is older than the newest may have been removed because nobody goes back to it.
        let is_newest = newest.iter().all(|newest| newest.cmp_php(&rollout.version).is_lt());
        let is_taken_back = !is_published(&rollout.version) && (is_newest || plugin.withholds(&rollout.version));
        if is_taken_back && rollout.phase() != RolloutPhase::Withheld {
            steps.push(DueStep::Other {
                version: rollout.version.clone(),
                step: RolloutStep::Withheld,
                least: None,
            });
        }
    }
    for version in newest {
        match known.of(&version) {
            Some(rollout) if rollout.phase() == RolloutPhase::Running => {
                let least = (!is_security(&version)).then(|| settings.whole());
                if least.is_none() || rollout.is_over(settings, now) {
                    steps.push(DueStep::Other {
                        version,
                        step: RolloutStep::Finished,
                        least,
                    });
                }
            }
            Some(rollout) if rollout.phase() != RolloutPhase::Withheld => {}
            _ => {
                // Before the entry had a rollout, or while a newer one was in force. A security release is for everybody.
                let was_served = seen.is_some_and(|seen| seen.releases().has(slug, &version)) || is_security(&version);
                steps.push(DueStep::Newest { version, was_served });
            }
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use countersign_model::digest::Digest;
    use countersign_model::rollout::RolloutMark;
    use countersign_registry::Registry;

    const SLUG: &str = "acme-forms";

    fn write(folder: &Path, name: &str, text: &str) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// The catalog of these versions, newest first. `!` marks a security release.
    fn catalog(versions: &[&str]) -> Catalog {
        let folder = tempfile::tempdir().unwrap();
        let mut channels = serde_json::Map::new();
        let releases = versions.iter().map(|text| {
            let version = text.trim_end_matches('!');
            let manifest = json!({ "version": version }).to_string();
            write(folder.path(), &format!("{SLUG}/{version}.json"), &manifest);
            let channel = version.parse::<Version>().unwrap().channel().unwrap();
            channels.entry(channel.as_str()).or_insert_with(|| json!(version));
            json!({ "version": version, "tag": version, "commit": "0".repeat(40),
                "sha256": Digest::of(manifest.as_bytes()).to_string(), "security": text.ends_with('!') })
        });
        let releases: Vec<_> = releases.collect();
        let latest = channels.remove("stable");
        let plugin = json!({ "latest": latest, "channels": channels, "releases": releases });
        write(
            folder.path(),
            "index.json",
            &json!({ "plugins": { SLUG: plugin } }).to_string(),
        );
        Catalog::load(folder.path()).unwrap()
    }

    fn at(hours: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::hours(hours)
    }

    fn rollouts(marks: &[(&str, RolloutStep, i64)]) -> PluginRollouts {
        let mut rollouts = PluginRollouts::default();
        for (version, step, hours) in marks {
            let mark = RolloutMark {
                step: *step,
                time: at(*hours),
                who: None,
                reason: None,
            };
            assert!(rollouts.take(&version.parse().unwrap(), mark), "{version} {step:?}");
        }
        rollouts
    }

    #[test]
    fn the_newest_of_each_channel_begins_and_ends_in_time_and_what_is_taken_back_ends() {
        use RolloutStep::{Finished, Paused, Started, Withheld};
        let folder = tempfile::tempdir().unwrap();
        let entry = "withhold = ['1.1']\n[rollout]\nsteps = ['0h 2%', '72h 100%']\n[channels]\nbeta = 'licensed'\n";
        write(folder.path(), &format!("plugins/{SLUG}.toml"), entry);
        write(folder.path(), "licenses/licenses.toml", "# none\n");
        let registry = Registry::load(folder.path()).unwrap();
        let plugin = registry.plugin(SLUG).unwrap();
        let settings = plugin.rollout.as_ref().unwrap();
        let whole = Some(TimeDelta::hours(72));
        let finished = ("1.0", Finished, -500);
        // What is published, what was, what the ledger has, and what is due at hour 100.
        let newest = |text: &str, was_served| DueStep::Newest {
            version: text.parse().unwrap(),
            was_served,
        };
        let other = |text: &str, step, least| DueStep::Other {
            version: text.parse().unwrap(),
            step,
            least,
        };
        for (published, before, known, expected) in [
            (&["1.0"][..], None, vec![finished], vec![]),
            (&["1.2", "1.0"], None, vec![finished], vec![newest("1.2", false)]),
            // Only the newest, and of each channel.
            (
                &["1.4-beta.1", "1.3", "1.2", "1.0"],
                None,
                vec![finished, ("1.2", Started, 0)],
                vec![newest("1.3", false), newest("1.4-beta.1", false)],
            ),
            // Before the entry had a rollout.
            (
                &["1.2", "1.0"],
                Some(&["1.2", "1.0"][..]),
                vec![],
                vec![newest("1.2", true)],
            ),
            // Security is for everybody, also if that is said later.
            (&["1.2!", "1.0"], None, vec![finished], vec![newest("1.2", true)]),
            (
                &["1.2!", "1.0"],
                None,
                vec![finished, ("1.2", Started, 99)],
                vec![other("1.2", Finished, None)],
            ),
            // In time.
            (
                &["1.2", "1.0"],
                None,
                vec![finished, ("1.2", Started, 28)],
                vec![other("1.2", Finished, whole)],
            ),
            (&["1.2", "1.0"], None, vec![finished, ("1.2", Started, 29)], vec![]),
            (
                &["1.2", "1.0"],
                None,
                vec![finished, ("1.2", Started, 0), ("1.2", Paused, 1)],
                vec![],
            ),
            // Taken back: by the entry, or because the newest is gone. An older one may be gone for other reasons.
            (
                &["1.2", "1.0"],
                None,
                vec![finished, ("1.1", Started, 0), ("1.2", Started, 99)],
                vec![other("1.1", Withheld, None)],
            ),
            (
                &["1.0"],
                None,
                vec![finished, ("1.2", Started, 99)],
                vec![other("1.2", Withheld, None)],
            ),
            (&["1.2"], None, vec![finished, ("1.2", Started, 99)], vec![]),
            // And back again.
            (
                &["1.2", "1.0"],
                None,
                vec![finished, ("1.2", Started, 0), ("1.2", Withheld, 9)],
                vec![newest("1.2", false)],
            ),
            // Nothing could be read.
            (&[], None, vec![finished, ("1.2", Started, 0)], vec![]),
        ] {
            let seen = before.map(catalog);
            let due = due_steps(
                plugin,
                settings,
                &catalog(published),
                seen.as_ref(),
                &rollouts(&known),
                at(100),
            );
            assert_eq!(due, expected, "{published:?} {known:?}");
        }
    }
}
