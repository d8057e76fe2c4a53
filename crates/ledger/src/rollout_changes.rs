//! Steps of rollouts: what servers see and people order, and what the committing thread decides.
//!
//! The first writer wins: however many nodes see a new release, its rollout starts once.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use countersign_model::remarks::Author;
use countersign_model::rollout::{PluginRollouts, RolloutMark, RolloutStep};
use countersign_model::slug::Slug;
use countersign_model::version::Version;

use crate::command::{CommitTurn, LedgerCommand};
use crate::draft::CommitDraft;
use crate::log::RolloutEntry;
use crate::log::record::LedgerEvent;

/// A step of a rollout that somebody orders, or whose time has come.
#[derive(Clone, Debug)]
pub struct RolloutChange {
    /// The plugin.
    pub slug: Slug,
    /// The release.
    pub version: Version,
    /// What happens.
    pub step: RolloutStep,
    /// The running time that it needs, if its time has to have come.
    pub least: Option<TimeDelta>,
    /// Who does it, and why.
    pub author: Author,
    /// When. A shared ledger uses its own clock.
    pub now: DateTime<Utc>,
}

/// A server sees that a release is the newest of a channel.
#[derive(Clone, Debug)]
pub struct NewestRelease {
    /// The plugin.
    pub slug: Slug,
    /// The release.
    pub version: Version,
    /// Whether sites got it before without a rollout.
    pub was_served: bool,
    /// The newest releases of the other channels, if the server knew of no rollout of the plugin when it looked.
    pub first_look: Option<Vec<Version>>,
    /// When. A shared ledger uses its own clock.
    pub now: DateTime<Utc>,
}

/// The rollouts of a plugin after a step, and whether it changed something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutOutcome {
    /// All of them.
    pub rollouts: Arc<PluginRollouts>,
    /// Whether this step was the first of its kind.
    pub is_changed: bool,
}

impl LedgerCommand for RolloutChange {
    type Outcome = RolloutOutcome;
    const TURN: CommitTurn = CommitTurn::Token;
    const MOST_LINES: usize = 1;

    fn decide(&self, draft: &mut CommitDraft<'_>) -> RolloutOutcome {
        let now = draft.now(self.now);
        let known = known(draft, &self.slug);
        let is_due = self.least.is_none_or(|least| {
            let rollout = known.of(&self.version);
            rollout.is_some_and(|rollout| rollout.running(now) >= least)
        });
        if !is_due {
            return RolloutOutcome {
                rollouts: known,
                is_changed: false,
            };
        }
        let mark = RolloutMark {
            step: self.step,
            time: now,
            who: self.author.number(),
            reason: self.author.reason_name(),
        };
        let outcome = append(draft, &self.slug, &self.version, mark);
        if outcome.is_changed {
            draft.texts.keep_author(&self.author);
        }
        outcome
    }
}

impl LedgerCommand for NewestRelease {
    type Outcome = RolloutOutcome;
    const TURN: CommitTurn = CommitTurn::Token;
    const MOST_LINES: usize = 1;

    fn decide(&self, draft: &mut CommitDraft<'_>) -> RolloutOutcome {
        let known = known(draft, &self.slug);
        // Rollouts of this plugin begin with what sites had before.
        let is_first = self.first_look.as_ref().is_some_and(|beside| {
            let is_newest = |version: &Version| *version == self.version || beside.contains(version);
            known.iter().all(|rollout| is_newest(&rollout.version))
        });
        let step = match known.of(&self.version) {
            Some(_) => RolloutStep::Restarted,
            None if is_first || self.was_served => RolloutStep::Finished,
            None => RolloutStep::Started,
        };
        let mark = RolloutMark {
            step,
            time: draft.now(self.now),
            who: None,
            reason: None,
        };
        append(draft, &self.slug, &self.version, mark)
    }
}

/// The rollouts of a plugin as they are before this request.
fn known(draft: &CommitDraft<'_>, slug: &Slug) -> Arc<PluginRollouts> {
    let ahead = draft.events.rollouts.of(slug);
    ahead
        .or_else(|| draft.memory.events().rollouts.of(slug))
        .unwrap_or_default()
}

/// Appends the line of a step that changes something.
fn append(draft: &mut CommitDraft<'_>, slug: &Slug, version: &Version, mark: RolloutMark) -> RolloutOutcome {
    let mut rollouts = known(draft, slug);
    let is_changed = Arc::make_mut(&mut rollouts).take(version, mark.clone());
    if is_changed {
        draft.append(LedgerEvent::Rollout(RolloutEntry {
            slug: slug.clone(),
            version: version.clone(),
            mark,
        }));
    }
    RolloutOutcome { rollouts, is_changed }
}

impl From<RolloutEntry> for RolloutChange {
    fn from(entry: RolloutEntry) -> Self {
        Self {
            slug: entry.slug,
            version: entry.version,
            step: entry.mark.step,
            least: None,
            author: Author::default(),
            now: entry.mark.time,
        }
    }
}
