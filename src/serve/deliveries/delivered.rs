//! A delivery that is applied.

use chrono::{DateTime, Utc};

use crate::serve::hooks::Hook;
use crate::shop::event::ShopDelivery;
use crate::spool::WaitingDelivery;

/// A delivery of the spool.
pub(super) struct Delivered<'a> {
    pub(super) hook: &'a Hook,
    pub(super) waiting: &'a WaitingDelivery,
    pub(super) parsed: &'a ShopDelivery,
    pub(super) received: DateTime<Utc>,
}
