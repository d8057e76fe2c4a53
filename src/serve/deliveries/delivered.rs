//! A delivery that is applied.

use chrono::TimeDelta;

use crate::serve::hooks::Hook;
use countersign_files::queue::Queued;
use countersign_files::spool::Delivery;
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
