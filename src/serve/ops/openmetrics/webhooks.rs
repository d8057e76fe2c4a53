//! The metrics of webhooks.
// SECURITY: the labels are names of the configuration; none has a URL, a license or a host.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::serve::ops::openmetrics::writer::{MetricWriter, Series};
use crate::serve::webhooks::endpoint_counts::EndpointCounts;

/// Writes them; there are none without endpoints.
pub(super) fn write(page: &mut MetricWriter<'_>, endpoints: &[Arc<EndpointCounts>]) -> fmt::Result {
    type Results = [(&'static str, fn(&EndpointCounts) -> &AtomicU64); 3];
    const RESULTS: Results = [
        ("sent", |counts| &counts.sent),
        ("refused", |counts| &counts.refused),
        ("failed", |counts| &counts.failures),
    ];
    let mut messages = Vec::new();
    let mut kept = Vec::new();
    let mut told = Vec::new();
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
        told.push(([("webhook", name)], ConstGauge::new(load(&counts.sequence))));
        failing.push(([("webhook", name)], ConstGauge::new(load(&counts.failing_since))));
    }
    let help = "Attempts to send a message to an endpoint, by result";
    page.add("countersign_webhook_messages", help, &Series::from_iter(messages))?;
    let help = "Messages that an endpoint did not take yet, besides those of the ledger";
    page.add("countersign_webhook_kept", help, &Series::from_iter(kept))?;
    let help = "The last line of the ledger that an endpoint was told";
    page.add("countersign_webhook_sequence", help, &Series::from_iter(told))?;
    let help = "Since when an endpoint takes nothing, 0 if it does";
    page.add(
        "countersign_webhook_failing_since_timestamp_seconds",
        help,
        &Series::from_iter(failing),
    )
}
