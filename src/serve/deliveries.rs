//! Applies the deliveries of shops that the spool keeps: the ledger keeps the facts of each, and the licenses of the sale are what
//! the facts grant.
//!
//! A delivery is applied again after a crash, and by any node: nothing is issued twice, because a license is issued for a place
//! in a sale ([`sale_licenses`]). A delivery that needs a person's decision is parked and logged.

pub(in crate::serve) mod attaching;
mod bought_license;
mod delivered;
mod error;
pub(in crate::serve) mod fold;
mod key_debt;
pub(in crate::serve) mod later_offers;
pub(in crate::serve) mod regranting;
mod sale_licenses;
mod sale_places;
mod sale_requests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tokio::time::{Instant, timeout_at};

use crate::serve::hooks::Hook;
use crate::serve::hooks::shop_client::ShopError;
use crate::serve::state::Service;
use countersign_files::queue::WholeItem;
use countersign_files::spool::{AwaitedThing, Delivery, Spool, SpoolError};
use countersign_model::issued_license::Hex128;
use countersign_shops::event::Content;
use countersign_shops::shop::ShopQuestion;
use serde_json::Value;

use delivered::{Delivered, in_spool};
use error::{ApplyError, ParkReason};
use later_offers::LaterOffers;

/// Deliveries that are applied at once, so that they share commits.
const AT_ONCE: usize = 32;

/// The time until those that could not be applied are tried again, and until those of a command are seen.
const PAUSE: Duration = Duration::from_secs(5);

/// Applies deliveries for as long as the server runs.
pub(super) async fn run(service: Arc<Service>) {
    if service.hooks.spool().is_none() {
        return;
    }
    let mut next_look = Instant::now();
    let mut offers = LaterOffers::default();
    loop {
        // What the server itself changes it knows.
        let is_look_due = Instant::now() >= next_look;
        let are_offers_new = is_look_due && offers.are_new(&service);
        if are_offers_new && let Err(error) = LaterOffers::retry_parked(&service).await {
            service.hooks.delay(&error);
        }
        match waiting(&service, is_look_due).await {
            Ok(waiting) => while_store_answers(waiting, |id| apply_or_park(&service, id)).await,
            Err(error) => service.hooks.delay(&error),
        }
        if are_offers_new {
            offers.find(&service).await;
        }
        if is_look_due {
            offers.grant(&service).await;
            next_look = Instant::now() + PAUSE;
        }
        let _ = timeout_at(next_look, service.hooks.arrived()).await;
    }
}

/// What waits, the oldest first; after a look at what commands changed, if one is due.
async fn waiting(service: &Arc<Service>, is_look_due: bool) -> Result<Vec<Hex128>, SpoolError> {
    let counting = Arc::clone(service);
    let list = move |spool: &Spool| {
        if is_look_due {
            spool.look(|error| counting.hooks.delay(error))?;
        }
        Ok(spool.waiting())
    };
    in_spool(service, list).await
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
async fn apply_or_park(service: &Arc<Service>, id: Hex128) -> StoreAnswer {
    let delivery = match in_spool(service, move |spool| spool.read(id)).await {
        Ok(Some(delivery)) => delivery,
        // A person dropped it meanwhile.
        Ok(None) => return StoreAnswer::Here,
        Err(error) => {
            service.hooks.delay(&error);
            return StoreAnswer::Here;
        }
    };
    let tried = delivery.queued.next;
    match apply(service, &delivery).await {
        Ok(()) => {}
        Err(ApplyError::Parked(reason)) => {
            let written = reason.to_string();
            match in_spool(service, move |spool| spool.park(id, tried, written)).await {
                Ok(true) => {
                    tracing::warn!(delivery = %id, %reason, "a delivery is parked: see `countersign shop parked list`");
                }
                // A person dropped it meanwhile, or has it tried again.
                Ok(false) => {}
                Err(error) => service.hooks.delay(&error),
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

/// Applies one delivery, and deletes it.
async fn apply(service: &Arc<Service>, delivery: &WholeItem<Delivery>) -> Result<(), ApplyError> {
    let WholeItem { queued, body } = delivery;
    let id = queued.item.id;
    let (hook, _) = service
        .hooks
        .find(queued.item.shop.as_str())
        .ok_or(ParkReason::UnknownShop)?;
    let answers = match answers(service, hook, body) {
        Ok(answers) => answers,
        Err(error) => {
            note_wait(service, &queued.item, Some(AwaitedThing::Answer)).await?;
            return Err(error.into());
        }
    };
    let parsed = countersign_shops::read_with(hook.config.kind, body, answers)?;
    let mut has_news = false;
    match &parsed.content {
        Content::Park { reason, .. } => return Err(ParkReason::Shop(reason).into()),
        Content::Ignore { .. } => {}
        Content::Record(record) => {
            let delivered = Delivered {
                hook,
                queued,
                mode: parsed.mode,
                record,
            };
            let folded = fold::fold(service, &delivered).await;
            if let Err(error) = &folded {
                note_wait(service, &queued.item, error.waits_for()).await?;
            }
            has_news = folded?;
        }
    }
    in_spool(service, move |spool| spool.remove(id)).await?;
    if has_news {
        service.hooks.announce();
    }
    Ok(())
}

/// Notes what a delivery waits for.
async fn note_wait(
    service: &Arc<Service>,
    delivery: &Delivery,
    waits_for: Option<AwaitedThing>,
) -> Result<(), SpoolError> {
    if delivery.waits_for == waits_for {
        return Ok(());
    }
    let id = delivery.id;
    in_spool(service, move |spool| {
        spool.update(id, |delivery| delivery.waits_for = waits_for)
    })
    .await
}

/// What the shop answers to the questions of a delivery; nothing where there is no API key.
///
/// # Errors
/// The shop did not answer yet. The delivery is applied again once it has.
fn answers(service: &Arc<Service>, hook: &Hook, body: &[u8]) -> Result<Vec<(ShopQuestion, Value)>, ShopError> {
    let Some(shop) = &hook.questions else {
        return Ok(Vec::new());
    };
    let questions = countersign_shops::questions(hook.config.kind, body);
    if questions.is_empty() {
        return Ok(Vec::new());
    }
    let paths = questions.iter().map(|question| question.path.clone()).collect();
    let service = Arc::clone(service);
    let answers = shop.answers(paths, move || service.hooks.announce())?;
    let known = questions.into_iter().zip(answers);
    Ok(known
        .filter_map(|(question, answer)| Some((question, answer?)))
        .collect())
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
