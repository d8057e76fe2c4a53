//! The rollouts of releases, in memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use countersign_model::rollout::{PluginRollouts, Rollout};
use countersign_model::slug::Slug;

use crate::log::RolloutEntry;

/// The rollouts of each plugin that has some.
#[derive(Debug, Default)]
pub(crate) struct RolloutTable(BTreeMap<Slug, Arc<PluginRollouts>>);

impl RolloutTable {
    /// Takes the entry of the next line.
    pub(crate) fn take(&mut self, entry: &RolloutEntry) {
        let rollouts = self.0.entry(entry.slug.clone()).or_default();
        Arc::make_mut(rollouts).take(&entry.version, entry.mark.clone());
    }

    /// Copies what memory has of the plugin of a line, unless it is here already: a line has only one step.
    pub(crate) fn assume(&mut self, slug: &Slug, memory: &Self) {
        if !self.0.contains_key(slug)
            && let Some(rollouts) = memory.of(slug)
        {
            self.0.insert(slug.clone(), rollouts);
        }
    }

    /// Those of a plugin; `None` if it has none.
    pub(crate) fn of(&self, slug: &Slug) -> Option<Arc<PluginRollouts>> {
        self.0.get(slug).cloned()
    }

    /// Every step; those of one release in their order.
    pub(crate) fn entries(&self) -> Vec<RolloutEntry> {
        let mut entries = Vec::new();
        for (slug, rollouts) in &self.0 {
            for rollout in rollouts.iter() {
                entries.extend(rollout.marks.iter().map(|mark| RolloutEntry {
                    slug: slug.clone(),
                    version: rollout.version.clone(),
                    mark: mark.clone(),
                }));
            }
        }
        entries
    }

    /// The steps that `other` lacks.
    pub(crate) fn lost(&self, other: &Self) -> Vec<RolloutEntry> {
        let mut entries = self.entries();
        let mut seen: HashMap<_, usize> = HashMap::new();
        entries.retain(|entry| {
            let known = other.of(&entry.slug);
            let known = known.as_ref().and_then(|rollouts| rollouts.of(&entry.version));
            let of_step = |rollout: &Rollout| rollout.marks.iter().filter(|mark| mark.step == entry.mark.step).count();
            // A step that was appended again has another time, so steps of a kind are counted.
            let count = seen
                .entry((entry.slug.clone(), entry.version.clone(), entry.mark.step))
                .or_default();
            *count += 1;
            *count > known.map_or(0, of_step)
        });
        entries
    }
}
