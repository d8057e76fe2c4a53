//! Rollouts for people: tells how far they are, and pauses, resumes and finishes them. Commands, the management API and the desk
//! share it.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::serve::ledger_licenses::refresh;
use crate::serve::ops::command_user::GivenOrder;
use crate::serve::state::Service;
use countersign_ledger::{Ledger, RolloutChange, StoreError, named_at_random};
use countersign_model::issued_license::Hex128;
use countersign_model::plugin::Plugin;
use countersign_model::remarks::{Author, MAX_REASON, NamedText, check_remark};
use countersign_model::rollout::{PluginRollouts, Rollout, RolloutPhase, RolloutSettings, RolloutStep};
use countersign_model::slug::Slug;
use countersign_model::version::Version;

/// The most releases of a report, the newest ones.
const MOST_RELEASES: usize = 20;

/// What a person may do to a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::EnumString, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum RolloutVerb {
    /// No further site gets the release by its turn.
    Pause,
    /// It goes on where it was.
    Resume,
    /// Everybody gets the release at once.
    Finish,
}

impl RolloutVerb {
    /// The step of the ledger.
    fn step(self) -> RolloutStep {
        match self {
            Self::Pause => RolloutStep::Paused,
            Self::Resume => RolloutStep::Resumed,
            Self::Finish => RolloutStep::Finished,
        }
    }

    /// Whether a rollout that is so far can be changed so.
    fn fits(self, phase: RolloutPhase) -> bool {
        match self {
            Self::Pause => phase == RolloutPhase::Running,
            Self::Resume => phase == RolloutPhase::Paused,
            Self::Finish => matches!(phase, RolloutPhase::Running | RolloutPhase::Paused),
        }
    }
}

/// What a command orders.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RolloutOrder {
    /// The plugin.
    pub slug: Slug,
    /// The release; `None` for the only one whose rollout this verb can change.
    pub version: Option<Version>,
    /// What to do; `None` to tell how far the rollouts are.
    pub verb: Option<RolloutVerb>,
    /// Why.
    pub reason: Option<String>,
}

/// The result of an order.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RolloutReply {
    /// The rollouts as they are now.
    Done(RolloutReport),
    /// No plugin has this slug, or its entry has no rollout. Why.
    Unknown(String),
    /// Nothing was changed. Why.
    Refused(String),
}

/// How far the rollouts of a plugin are.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RolloutReport {
    /// The plugin.
    pub plugin: Slug,
    /// The steps of its entry.
    pub steps: Vec<String>,
    /// The release that an order changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<Version>,
    /// The newest release first.
    pub releases: Vec<ReleaseRollout>,
}

/// How far the rollout of a release is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReleaseRollout {
    /// The release.
    pub version: Version,
    /// How far it is.
    pub phase: RolloutPhase,
    /// Whether a newer release took its place.
    pub superseded: bool,
    /// When it began.
    pub started: DateTime<Utc>,
    /// The hours that count, without pauses.
    pub hours: f64,
    /// The share of the sites that get it, in percent.
    pub share: f64,
    /// What comes next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<NextShare>,
    /// What happened, in order.
    pub events: Vec<RolloutEvent>,
}

/// The next step of a rollout.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NextShare {
    /// When.
    pub time: DateTime<Utc>,
    /// The share from then on, in percent.
    pub share: f64,
}

/// Something that happened to a rollout.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RolloutEvent {
    /// What.
    pub step: RolloutStep,
    /// When.
    pub time: DateTime<Utc>,
    /// Who did it; absent if the server did, or if the name was erased.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The author of an order.
///
/// # Errors
/// The reason is not taken. Why.
pub fn author(who: Option<NamedText>, reason: Option<&str>) -> Result<Author, String> {
    let reason = reason.map(|reason| {
        check_remark(reason, MAX_REASON).map_err(|error| format!("the reason is not taken: {error}"))?;
        named_at_random(reason).map_err(|error| error.to_string())
    });
    Ok(Author {
        who,
        reason: reason.transpose()?,
    })
}

/// Carries out an order about a plugin of the registry.
///
/// # Errors
/// Nothing was written. The same order may be given again.
pub async fn carry_out(
    ledger: &Ledger,
    plugin: Option<&Plugin>,
    order: &RolloutOrder,
    who: Option<NamedText>,
    now: DateTime<Utc>,
) -> Result<RolloutReply, StoreError> {
    let slug = &order.slug;
    let Some(plugin) = plugin else {
        return Ok(RolloutReply::Unknown(format!("no plugin is called {slug}")));
    };
    let Some(settings) = &plugin.rollout else {
        let why = format!("the entry of {slug} has no [rollout]: all sites get its releases at once");
        return Ok(RolloutReply::Unknown(why));
    };
    refresh(ledger).await?;
    let mut rollouts = ledger.rollouts(slug).unwrap_or_default();
    let mut changed = None;
    if let Some(verb) = order.verb {
        let author = match author(who, order.reason.as_deref()) {
            Ok(author) => author,
            Err(why) => return Ok(RolloutReply::Refused(why)),
        };
        let version = match chosen(&rollouts, verb, order.version.as_ref(), settings, now) {
            Ok(version) => version,
            Err(why) => return Ok(RolloutReply::Refused(why)),
        };
        let change = RolloutChange {
            slug: slug.clone(),
            version: version.clone(),
            step: verb.step(),
            least: None,
            author,
            now,
        };
        let outcome = ledger.change_rollout(change).await?;
        if !outcome.is_changed {
            let why = format!("somebody else changed the rollout of {slug} {version} a moment ago");
            return Ok(RolloutReply::Refused(why));
        }
        tracing::info!(plugin = %slug, %version, step = verb.step().as_str(), "somebody changed a rollout");
        rollouts = outcome.rollouts;
        changed = Some(version);
    }
    let texts = texts(ledger, &rollouts).await?;
    let releases = rollouts.iter().take(MOST_RELEASES);
    Ok(RolloutReply::Done(RolloutReport {
        plugin: slug.clone(),
        steps: settings.steps().iter().map(ToString::to_string).collect(),
        changed,
        releases: releases
            .map(|rollout| shown_rollout(rollout, &rollouts, settings, &texts, now))
            .collect(),
    }))
}

/// The release that an order changes, or why there is none.
fn chosen(
    rollouts: &PluginRollouts,
    verb: RolloutVerb,
    version: Option<&Version>,
    settings: &RolloutSettings,
    now: DateTime<Utc>,
) -> Result<Version, String> {
    let word: &str = verb.into();
    if let Some(version) = version {
        let rollout = rollouts
            .of(version)
            .ok_or_else(|| format!("the release {version} has no rollout"))?;
        let phase: &str = rollout.phase().into();
        return match verb.fits(rollout.phase()) {
            true => Ok(rollout.version.clone()),
            false => Err(format!("the rollout of {version} is {phase}")),
        };
    }
    let may_change = |rollout: &&Rollout| {
        verb.fits(rollout.phase()) && rollouts.superseded(rollout).is_none() && !rollout.is_over(settings, now)
    };
    let fitting: Vec<_> = rollouts
        .iter()
        .filter(may_change)
        .map(|rollout| &rollout.version)
        .collect();
    match fitting[..] {
        [] => Err(format!("there is no rollout to {word}")),
        [version] => Ok(version.clone()),
        _ => {
            let versions: Vec<_> = fitting.iter().map(|version| version.as_str()).collect();
            Err(format!("there are several rollouts to {word}: {}", versions.join(", ")))
        }
    }
}

async fn texts(ledger: &Ledger, rollouts: &PluginRollouts) -> Result<HashMap<Hex128, String>, StoreError> {
    let marks = rollouts.iter().take(MOST_RELEASES).flat_map(|rollout| &rollout.marks);
    let names: Vec<Hex128> = marks.flat_map(|mark| [mark.who, mark.reason]).flatten().collect();
    if names.is_empty() {
        return Ok(HashMap::new());
    }
    let found = ledger.texts(names).await?.into_iter();
    Ok(found
        .filter_map(|(name, stored)| Some((name, stored.text()?.to_owned())))
        .collect())
}

fn shown_rollout(
    rollout: &Rollout,
    rollouts: &PluginRollouts,
    settings: &RolloutSettings,
    texts: &HashMap<Hex128, String>,
    now: DateTime<Utc>,
) -> ReleaseRollout {
    let superseded = rollouts.superseded(rollout);
    // One that a newer release took the place of goes no further.
    let until = superseded.unwrap_or(now);
    let next = rollout.next(settings, now).filter(|_| superseded.is_none());
    let text = |name: Option<Hex128>| texts.get(&name?).cloned();
    ReleaseRollout {
        version: rollout.version.clone(),
        phase: rollout.phase(),
        superseded: superseded.is_some(),
        started: rollout.started,
        hours: rollout.running(until).num_minutes() as f64 / 60.0,
        share: rollout.share(settings, until).percent(),
        next: next.map(|(time, share)| NextShare {
            time,
            share: share.percent(),
        }),
        events: rollout
            .marks
            .iter()
            .map(|mark| RolloutEvent {
                step: mark.step,
                time: mark.time,
                who: text(mark.who),
                reason: text(mark.reason),
            })
            .collect(),
    }
}

/// The result of an order to the running server.
pub(super) async fn order(service: Arc<Service>, given: GivenOrder<RolloutOrder>) -> Result<RolloutReply, StoreError> {
    of_service(&service, &given.order, given.user.as_str()).await
}

/// The result of an order that somebody gives to this server.
///
/// # Errors
/// As [`carry_out`].
pub(in crate::serve) async fn of_service(
    service: &Service,
    order: &RolloutOrder,
    user: &str,
) -> Result<RolloutReply, StoreError> {
    let snapshot = service.gate.snapshot();
    let who = snapshot.secrets.licensing.as_ref().map(|secrets| secrets.person(user));
    let plugin = snapshot.registry.plugin(order.slug.as_str());
    carry_out(service.gate.bindings(), plugin, order, who, Utc::now()).await
}
