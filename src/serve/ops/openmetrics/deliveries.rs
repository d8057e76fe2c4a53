//! The metrics of deliveries of shops.

use std::fmt;

use prometheus_client::metrics::gauge::ConstGauge;

use crate::serve::ops::openmetrics::writer::{MetricWriter, Series};
use crate::serve::state::Service;
use crate::spool::{Spool, SpoolError, WaitingDelivery};

pub(super) fn write(page: &mut MetricWriter<'_>, service: &Service) -> fmt::Result {
    let spool = service.hooks.spool();
    let listed = |list: fn(&Spool) -> Result<Vec<WaitingDelivery>, SpoolError>| {
        let all = spool.and_then(|spool| list(spool).ok());
        ConstGauge::new(all.map_or(0, |all| all.len() as u64))
    };
    let states = [("waiting", listed(Spool::waiting)), ("parked", listed(Spool::parked))];
    let help = "Deliveries of shops that are not applied";
    let states = states.map(|(state, count)| ([("state", state)], count));
    page.add("countersign_shop_deliveries", help, &Series(states.into()))
}
