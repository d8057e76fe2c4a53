//! The metrics of deliveries of shops.

use std::fmt;
use std::time::UNIX_EPOCH;

use prometheus_client::metrics::gauge::ConstGauge;

use crate::serve::ops::openmetrics::writer::{MetricWriter, Series};
use crate::serve::state::Service;
use countersign_files::spool::{Spool, SpoolError, WaitingDelivery};

pub(super) fn write(page: &mut MetricWriter<'_>, service: &Service) -> fmt::Result {
    let spool = service.hooks.spool();
    let listed = |list: fn(&Spool) -> Result<Vec<WaitingDelivery>, SpoolError>| {
        let all = spool.and_then(|spool| list(spool).ok());
        all.unwrap_or_default()
    };
    let states = [("waiting", listed(Spool::waiting)), ("parked", listed(Spool::parked))];
    let help = "Deliveries of shops that are not applied";
    let counts = states
        .each_ref()
        .map(|(state, all)| ([("state", *state)], ConstGauge::new(all.len() as u64)));
    page.add("countersign_shop_deliveries", help, &Series(counts.into()))?;
    let help = "Time when the oldest delivery that is not applied came, 0 for none";
    let oldest = states.map(|(state, all)| {
        let came = all
            .first()
            .and_then(|oldest| oldest.changed().duration_since(UNIX_EPOCH).ok());
        ([("state", state)], ConstGauge::new(came.unwrap_or_default().as_secs()))
    });
    let name = "countersign_shop_delivery_oldest_timestamp_seconds";
    page.add(name, help, &Series(oldest.into()))
}
