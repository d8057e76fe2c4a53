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

use crate::serve::state::Service;
use countersign_files::spool::{SpoolError, WaitingDelivery};
use countersign_settings::config::KeyIssuer;
use countersign_shops::event::{DeliveryError, ShopAction};

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
    while_store_answers(waiting, |waiting| apply_or_park(service, waiting)).await;
    Ok(())
}

/// Passes deliveries on, some at once, until one says that the store is away: each of the others would wait for its time limit.
async fn while_store_answers<D, F: Future<Output = StoreAnswer>>(deliveries: Vec<D>, apply: impl Fn(D) -> F) {
    // Never unset: others that began before may end after it was set.
    let is_store_away = AtomicBool::new(false);
    let each = |delivery| {
        let is_store_away = &is_store_away;
        let apply = &apply;
        async move {
            if !is_store_away.load(Ordering::Relaxed) && apply(delivery).await == StoreAnswer::Away {
                is_store_away.store(true, Ordering::Relaxed);
            }
        }
    };
    stream::iter(deliveries).for_each_concurrent(AT_ONCE, each).await;
}

/// Whether the store answered when a delivery was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoreAnswer {
    /// It did, or was not asked.
    Here,
    /// It did not.
    Away,
}

/// Applies one delivery, or leaves it to a person.
async fn apply_or_park(service: &Arc<Service>, waiting: WaitingDelivery) -> StoreAnswer {
    match apply(service, &waiting).await {
        Ok(()) => {}
        Err(ApplyError::Parked(reason)) => {
            tracing::warn!(delivery = waiting.name.as_str(), %reason, "a delivery is parked: see `countersign shop parked list`");
            if let Err(error) = park(service, waiting, reason.to_string()).await {
                service.hooks.delay(&error);
            }
        }
        Err(error) if error.is_expected() => {}
        Err(error) => {
            service.hooks.delay(&error);
            if matches!(error, ApplyError::Store(_)) {
                return StoreAnswer::Away;
            }
        }
    }
    StoreAnswer::Here
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
    let parsed = countersign_shops::read(hook.config.kind, &delivery.body)?;
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[tokio::test]
    async fn once_the_store_is_away_no_delivery_begins_whatever_those_that_run_say() {
        let begun = AtomicUsize::new(0);
        while_store_answers((0..1_000).collect(), async |number| {
            begun.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            if number == 0 {
                return StoreAnswer::Away;
            }
            tokio::task::yield_now().await;
            StoreAnswer::Here
        })
        .await;
        assert_eq!(begun.into_inner(), AT_ONCE);
    }
}
