//! The metrics of parts of the server: licenses, rollouts, deliveries of shops, mails and webhooks. A part that is not set up has
//! none, or all are 0.
// SECURITY: labels are names of the configuration and of plugins; none has an address, a URL, a license, a host or an event.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use chrono::{NaiveDate, Utc};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::serve::ops::openmetrics::writer::{MetricWriter, Series};
use crate::serve::state::Service;
use crate::serve::webhooks::endpoint::EndpointCounts;
use crate::serve::{found_license, rollouts};
use countersign_files::queue::QueueState;
use countersign_mail::queue::MailCounts;
use countersign_model::license::{License, LicenseState};
use countersign_model::rollout::RolloutPhase;

/// How many licenses of the ledger to take at once: a commit waits for no more than that.
const AT_ONCE: usize = 10_000;

#[derive(Default)]
struct LicenseCounts {
    active: u64,
    expired: u64,
    suspended: u64,
    revoked: u64,
}

impl LicenseCounts {
    fn add(&mut self, license: &License, today: NaiveDate) {
        let count = match license.state(today) {
            LicenseState::Active => &mut self.active,
            LicenseState::Expired => &mut self.expired,
            LicenseState::Suspended => &mut self.suspended,
            LicenseState::Revoked => &mut self.revoked,
        };
        *count += 1;
    }
}

/// Looks at every license: a million take some tens of milliseconds.
pub(super) fn write_licenses(page: &mut MetricWriter<'_>, service: &Service) -> fmt::Result {
    let today = Utc::now().date_naive();
    let snapshot = service.gate.snapshot();
    let mut counts = LicenseCounts::default();
    let bindings = service.gate.bindings();
    found_license::declared_alone(&snapshot.registry, bindings).for_each(|license| counts.add(license, today));
    let mut last = None;
    loop {
        let licenses = bindings.issued_after(last.as_ref(), AT_ONCE, &|_| true);
        licenses.iter().for_each(|issued| counts.add(&issued.license, today));
        match licenses.last() {
            Some(issued) if licenses.len() == AT_ONCE => last = Some(issued.license.id),
            _ => break,
        }
    }
    let standings = [
        ("active", counts.active),
        ("expired", counts.expired),
        ("suspended", counts.suspended),
        ("revoked", counts.revoked),
    ];
    let series = standings.map(|(standing, count)| ([("standing", standing)], ConstGauge::new(count)));
    let help = "Licenses that files declare and licenses of the ledger, each id once";
    page.add("countersign_licenses", help, &Series(series.into()))?;
    let differing = ConstGauge::new(service.declarations.count() as u64);
    let help = "Declarations that grant something else than the ledger's license with their id, which is in force";
    page.add("countersign_declarations_differing", help, &differing)
}

pub(super) fn write_rollouts(page: &mut MetricWriter<'_>, service: &Service) -> fmt::Result {
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

pub(super) fn write_deliveries(page: &mut MetricWriter<'_>, service: &Service) -> fmt::Result {
    let states = [("waiting", QueueState::Waiting), ("parked", QueueState::Parked)].map(|(name, state)| {
        let spool = service.hooks.spool();
        (
            [("state", name)],
            spool.map(|spool| spool.count(state)).unwrap_or_default(),
        )
    });
    let counts = states.map(|(labels, (count, _))| (labels, ConstGauge::new(count as u64)));
    let help = "Deliveries of shops that are not applied";
    page.add("countersign_shop_deliveries", help, &Series(counts.into()))?;
    let oldest = states.map(|(labels, (_, oldest))| {
        let came = oldest.map(|came| came.timestamp().unsigned_abs());
        (labels, ConstGauge::new(came.unwrap_or_default()))
    });
    let help = "Time when the oldest delivery that is not applied came, 0 for none";
    let name = "countersign_shop_delivery_oldest_timestamp_seconds";
    page.add(name, help, &Series(oldest.into()))
}

/// Writes them; all are 0 where there is no mail server.
pub(super) fn write_mails(page: &mut MetricWriter<'_>, counts: Option<&MailCounts>) -> fmt::Result {
    let number = |of: fn(&MailCounts) -> &AtomicU64| counts.map_or(0, |counts| of(counts).load(Ordering::Relaxed));
    let states: Series<_, _> = [
        ("waiting", number(|counts| &counts.waiting)),
        ("parked", number(|counts| &counts.parked)),
    ]
    .into_iter()
    .map(|(state, count)| ([("state", state)], ConstGauge::new(count)))
    .collect();
    page.add("countersign_mails", "Mails to buyers that are not sent yet", &states)?;
    let help = "Time when the oldest mail that waits was ordered, 0 if none waits";
    let oldest = ConstGauge::new(number(|counts| &counts.oldest));
    page.add("countersign_mail_oldest_timestamp_seconds", help, &oldest)?;
    let sent = ConstCounter::new(number(|counts| &counts.sent));
    page.add("countersign_mails_sent", "Mails that the mail server took", &sent)?;
    let help = "Attempts to send that failed, those to reach the mail server included";
    let failures = ConstCounter::new(number(|counts| &counts.failures));
    page.add("countersign_mail_failures", help, &failures)
}

/// Writes them; there are none without endpoints.
pub(super) fn write_webhooks(page: &mut MetricWriter<'_>, endpoints: &[Arc<EndpointCounts>]) -> fmt::Result {
    type Results = [(&'static str, fn(&EndpointCounts) -> &AtomicU64); 3];
    const RESULTS: Results = [
        ("sent", |counts| &counts.sent),
        ("refused", |counts| &counts.refused),
        ("failed", |counts| &counts.failures),
    ];
    let mut messages = Vec::new();
    let mut kept = Vec::new();
    let mut sequences = Vec::new();
    let mut failing = Vec::new();
    for counts in endpoints {
        let name = counts.name.as_str();
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        for (result, of) in RESULTS {
            messages.push((
                [("webhook", name), ("result", result)],
                ConstCounter::new(load(of(counts))),
            ));
        }
        for (state, number) in [("waiting", &counts.waiting), ("parked", &counts.parked)] {
            kept.push(([("webhook", name), ("state", state)], ConstGauge::new(load(number))));
        }
        sequences.push(([("webhook", name)], ConstGauge::new(load(&counts.sequence))));
        failing.push(([("webhook", name)], ConstGauge::new(load(&counts.failing_since))));
    }
    let help = "Attempts to send a message to an endpoint, by result";
    page.add("countersign_webhook_messages", help, &Series::from_iter(messages))?;
    let help = "Messages that an endpoint did not take yet, besides those of the ledger";
    page.add("countersign_webhook_kept", help, &Series::from_iter(kept))?;
    let help = "The last line of the ledger that an endpoint got a message about";
    page.add("countersign_webhook_sequence", help, &Series::from_iter(sequences))?;
    let help = "Since when an endpoint takes nothing, 0 if it does";
    page.add(
        "countersign_webhook_failing_since_timestamp_seconds",
        help,
        &Series::from_iter(failing),
    )
}
