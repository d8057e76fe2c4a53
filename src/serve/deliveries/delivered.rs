//! A delivery while it is applied, and the file operations of the spool, which run on blocking threads.

use std::sync::Arc;

use chrono::TimeDelta;
use tokio::task::spawn_blocking;

use crate::serve::hooks::Hook;
use crate::serve::state::Service;
use countersign_files::queue::Queued;
use countersign_files::spool::{Delivery, Spool, SpoolError};
use countersign_model::offer::SalesMode;
use countersign_shops::event::ReportedSale;

/// How long shops deliver again what was not answered with 200. What a delivery waits for comes within this time or never.
pub(super) const SHOPS_TRY_FOR: TimeDelta = TimeDelta::days(3);

/// A delivery of the spool.
pub(super) struct Delivered<'a> {
    pub(super) hook: &'a Hook,
    pub(super) queued: &'a Queued<Delivery>,
    pub(super) mode: Option<SalesMode>,
    pub(super) record: &'a ReportedSale,
}

/// Does work of the disk on a thread that may wait.
pub(super) async fn in_spool<T: Send + 'static>(
    service: &Arc<Service>,
    work: impl FnOnce(&Spool) -> Result<T, SpoolError> + Send + 'static,
) -> Result<T, SpoolError> {
    let Some(spool) = service.hooks.spool().cloned() else {
        return Err(SpoolError::Stopped("there is no shop".to_owned()));
    };
    let done = spawn_blocking(move || work(&spool)).await;
    done.unwrap_or_else(|error| Err(SpoolError::Stopped(error.to_string())))
}
