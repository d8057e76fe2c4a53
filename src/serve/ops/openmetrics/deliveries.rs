//! The metrics of deliveries of shops.

use std::fmt;

use prometheus_client::metrics::gauge::ConstGauge;

use crate::serve::ops::openmetrics::writer::{MetricWriter, Series};
use crate::serve::state::Service;
use countersign_files::queue::QueueState;

pub(super) fn write(page: &mut MetricWriter<'_>, service: &Service) -> fmt::Result {
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
