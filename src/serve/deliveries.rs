//! Applies the deliveries of shops that the spool keeps: each is folded into the state of its sale, and the licenses of the
//! sale follow that state.
//!
//! A delivery is applied again after a crash, and by any node: nothing is issued twice, because a license is issued for a place
//! in a sale ([`sale_licenses`]). What a machine cannot decide is parked, and told.

mod buyer_address;
mod delivered;
mod error;
mod fold;
mod key_debt;
mod known_sale;
mod sale_licenses;
mod sale_places;
mod sale_requests;
mod sale_words;
mod spool_work;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tokio::task::spawn_blocking;

use crate::config::KeyIssuer;
use crate::serve::state::Service;
use crate::shop::event::{DeliveryError, ShopAction};
use crate::spool::{SpoolError, WaitingDelivery};

use delivered::Delivered;
use error::{ApplyError, ParkReason};
use spool_work::in_spool;

/// Deliveries that are applied at once, so that they share commits.
const AT_ONCE: usize = 32;

/// The time until those that could not be applied are tried again, and until those of a command are seen.
const PAUSE: Duration = Duration::from_secs(5);

/// Applies deliveries for as long as the server runs.
pub(super) async fn run(service: Arc<Service>) {
    if service.hooks.spool().is_none() {
        return;
    }
    loop {
        if let Err(error) = apply_all(&service).await {
            service.hooks.delay(&error);
        }
        let _ = tokio::time::timeout(PAUSE, service.hooks.arrived()).await;
    }
}

/// Applies what waits, the oldest first.
async fn apply_all(service: &Arc<Service>) -> Result<(), SpoolError> {
    let Some(spool) = service.hooks.spool() else {
        return Ok(());
    };
    let listed = Arc::clone(spool);
    let waiting = spawn_blocking(move || listed.waiting())
        .await
        .unwrap_or_else(|_| Ok(Vec::new()))?;
    // While the database is away, each would wait for its time limit.
    let is_store_away = AtomicBool::new(false);
    let each = |waiting: WaitingDelivery| {
        let is_store_away = &is_store_away;
        async move {
            if is_store_away.load(Ordering::Relaxed) {
                return;
            }
            match apply(service, &waiting).await {
                Ok(()) => {}
                Err(ApplyError::Parked(reason)) => {
                    tracing::warn!(delivery = waiting.name.as_str(), %reason, "a delivery is parked: see `countersign shop parked list`");
                    let parked = park(service, waiting, reason.to_string()).await;
                    if let Err(error) = parked {
                        service.hooks.delay(&error);
                    }
                }
                Err(error) if error.is_expected() => {}
                Err(error) => {
                    is_store_away.store(matches!(error, ApplyError::Store(_)), Ordering::Relaxed);
                    service.hooks.delay(&error);
                }
            }
        }
    };
    stream::iter(waiting).for_each_concurrent(AT_ONCE, each).await;
    Ok(())
}

async fn park(service: &Arc<Service>, waiting: WaitingDelivery, reason: String) -> Result<(), SpoolError> {
    in_spool(service, move |spool| spool.park(&waiting, &reason)).await
}

/// Applies one delivery, and deletes it.
async fn apply(service: &Arc<Service>, waiting: &WaitingDelivery) -> Result<(), ApplyError> {
    let read = waiting.clone();
    let delivery = match in_spool(service, move |spool| spool.read(&read)).await {
        Err(SpoolError::Damaged(_)) => return Err(ParkReason::Delivery(DeliveryError::NotJson).into()),
        read => read?,
    };
    let (hook, _) = service
        .hooks
        .find(delivery.shop.as_str())
        .ok_or(ParkReason::UnknownShop)?;
    let parsed = crate::shop::read(hook.config.kind, &delivery.body)?;
    let mut has_news = false;
    match &parsed.action {
        ShopAction::Park(subject) => return Err(ParkReason::Shop(subject.reason).into()),
        ShopAction::Ignore { .. } => {}
        // The licenses have keys of ours.
        ShopAction::Key(_) if hook.config.keys == KeyIssuer::Own => {}
        _ => {
            let delivered = Delivered {
                hook,
                waiting,
                parsed: &parsed,
                received: delivery.received,
            };
            has_news = fold::fold(service, &delivered).await?;
        }
    }
    let name = waiting.name.clone();
    in_spool(service, move |spool| spool.remove(&name)).await?;
    if has_news {
        service.hooks.announce();
    }
    Ok(())
}
