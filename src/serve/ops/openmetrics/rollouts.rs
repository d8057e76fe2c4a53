//! The metrics of rollouts, by plugin. There are none without a plugin whose releases come in steps.

use std::fmt;

use prometheus_client::metrics::gauge::ConstGauge;

use crate::serve::ops::openmetrics::writer::{MetricWriter, Series};
use crate::serve::rollouts;
use crate::serve::state::Service;
use countersign_model::rollout::RolloutPhase;

pub(super) fn write(page: &mut MetricWriter<'_>, service: &Service) -> fmt::Result {
    let snapshot = service.gate.snapshot();
    let alarmed = rollouts::alarmed(service, &snapshot);
    let mut open = Vec::new();
    let mut alarms = Vec::new();
    for plugin in snapshot.registry.plugins().filter(|plugin| plugin.rollout.is_some()) {
        let slug = plugin.slug.as_str();
        let rollouts = service.gate.bindings().rollouts(&plugin.slug).unwrap_or_default();
        let current = || rollouts.iter().filter(|rollout| rollouts.superseded(rollout).is_none());
        for phase in [RolloutPhase::Running, RolloutPhase::Paused] {
            let count = current().filter(|rollout| rollout.phase() == phase).count() as u64;
            open.push(([("plugin", slug), ("phase", phase.into())], ConstGauge::new(count)));
        }
        let count = alarmed.iter().filter(|(of, _)| *of == plugin.slug).count() as u64;
        alarms.push(([("plugin", slug)], ConstGauge::new(count)));
    }
    let help = "Releases on their way to sites in steps";
    page.add("countersign_rollouts", help, &Series(open))?;
    let help = "Newest releases that many sites took and do not run";
    page.add("countersign_rollout_alarms", help, &Series(alarms))
}
