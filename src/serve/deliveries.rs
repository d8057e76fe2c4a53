//! Applies the deliveries of shops that the spool keeps: each is folded into the state of its sale, and the licenses of the
//! sale follow that state.
//!
//! A delivery is applied again after a crash, and by any node: nothing is issued twice, because a license is issued for a place
//! in a sale ([`sale_licenses`]). What a machine cannot decide is parked, and told.

mod error;
mod key_mail;
mod sale_licenses;
mod sale_requests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::{StreamExt as _, stream};
use tokio::task::spawn_blocking;

use crate::config::ShopConfig;
use crate::model::issued_license::Hex128;
use crate::model::license::LicenseStatus;
use crate::model::license_key::LicenseId;
use crate::model::offer::SalesMode;
use crate::model::sale_state::{SaleEvent, SaleState};
use crate::serve::gate::Snapshot;
use crate::serve::state::Service;
use crate::shop::event::{DeliveryError, Sale, ShopAction, ShopDelivery, StatusCause};
use crate::shop::grant::{GrantedLicense, grant};
use crate::spool::{DeliveryStage, SpoolError, SpooledDelivery, WaitingDelivery};
use crate::store::{MAX_NAMES, SaleChange, SaleOutcome};

use error::{ApplyError, ParkReason};
use sale_licenses::{PaidEnd, SaleLicenses};
use sale_requests::SaleRequests;

/// Deliveries that are applied at once, so that they share commits.
const AT_ONCE: usize = 32;

/// The time until those that could not be applied are tried again, and until those of a command are seen.
const PAUSE: Duration = Duration::from_secs(5);

/// How long a change of a sale that is not issued yet waits for it: as long as shops deliver.
const EARLY: TimeDelta = TimeDelta::days(3);

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
                // The delivery of its sale comes later.
                Err(ApplyError::Early) => {}
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

/// Does work of the disk on a thread that may wait.
async fn in_spool<T: Send + 'static>(
    service: &Arc<Service>,
    work: impl FnOnce(&crate::spool::Spool) -> Result<T, SpoolError> + Send + 'static,
) -> Result<T, SpoolError> {
    let Some(spool) = service.hooks.spool().cloned() else {
        return Err(SpoolError::Stopped("there is no shop".to_owned()));
    };
    let done = spawn_blocking(move || work(&spool)).await;
    done.unwrap_or_else(|error| Err(SpoolError::Stopped(error.to_string())))
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
    if let ShopAction::Park(subject) = &parsed.action {
        return Err(ParkReason::Shop(subject.reason).into());
    }
    if !matches!(parsed.action, ShopAction::Ignore { .. }) {
        fold(service, waiting, &hook.config, &parsed, &delivery).await?;
    }
    let name = waiting.name.clone();
    Ok(in_spool(service, move |spool| spool.remove(&name)).await?)
}

/// Records what a delivery says of its sale, and has the licenses follow.
async fn fold(
    service: &Arc<Service>,
    waiting: &WaitingDelivery,
    shop: &ShopConfig,
    parsed: &ShopDelivery,
    delivery: &SpooledDelivery,
) -> Result<(), ApplyError> {
    let gate = &service.gate;
    let snapshot = gate.snapshot();
    let secrets = snapshot.secrets.licensing.as_deref().ok_or(ApplyError::NoSecrets)?;
    let mode = parsed.mode.or(shop.mode).unwrap_or(SalesMode::Live);
    let requests = SaleRequests::new(secrets, &shop.name, mode);
    // Before anything is written: what grants nothing is parked as a whole.
    let granted = match &parsed.action {
        ShopAction::Issue(sale) | ShopAction::Renew(sale) | ShopAction::Change(sale) => grants(
            &snapshot,
            shop,
            mode,
            sale,
            parsed.changed_at.unwrap_or(delivery.received),
        )?,
        _ => Vec::new(),
    };
    let names = requests.hide(parsed.action.names());
    if names.is_empty() {
        return Err(ParkReason::NoName.into());
    }
    let is_known = |name: &Hex128| gate.bindings().sale(*name).is_some_and(|sale| sale.is_issued);
    if waiting.stage == DeliveryStage::Early && !names.iter().any(is_known) {
        // Shops deliver for three days. What comes later was sold before the shop was connected.
        if Utc::now() - delivery.received <= EARLY {
            return Err(ApplyError::Early);
        }
        tracing::info!(
            delivery = waiting.name.as_str(),
            "a change is dropped: its sale did not come"
        );
        return Ok(());
    }
    let change = SaleChange {
        names: names.into_iter().take(MAX_NAMES).collect(),
        event: event(&parsed.action),
        at: parsed.changed_at,
        scope: Arc::clone(requests.scope()),
        now: Utc::now(),
    };
    let (state, counts) = match gate.bindings().record_sale(change).await? {
        SaleOutcome::Recorded { state, counts } => (state, counts),
        SaleOutcome::TwoSales => return Err(ParkReason::TwoSales.into()),
    };
    let is_early = matches!(parsed.action, ShopAction::Change(_)) && counts && !state.is_issued;
    let stage = if is_early {
        DeliveryStage::Early
    } else {
        DeliveryStage::Begun
    };
    let advanced = waiting.clone();
    in_spool(service, move |spool| spool.advance(&advanced, stage)).await?;
    if is_early {
        return Err(ApplyError::Early);
    }
    let first_name = parsed.action.names().first();
    let has_begun = waiting.stage == DeliveryStage::Begun;
    let licenses = SaleLicenses::new(gate, &requests, state.id, first_name, has_begun);
    let is_newest = parsed.changed_at >= state.subscription.at.max(state.changed_at);
    let issued = follow(&licenses, &parsed.action, state, granted, counts, is_newest).await?;
    if !issued.is_empty() {
        key_mail::send(service, state.id, &parsed.action, issued).await?;
        // Changes that were early have their sale now.
        service.hooks.announce();
    }
    Ok(())
}

/// What each line of a sale grants.
fn grants(
    snapshot: &Snapshot,
    shop: &ShopConfig,
    mode: SalesMode,
    sale: &Sale,
    sold_at: DateTime<Utc>,
) -> Result<Vec<(u32, GrantedLicense)>, ParkReason> {
    if sale.lines.is_empty() {
        return Err(ParkReason::NoLines);
    }
    let offers = snapshot.registry.offers();
    let lines = sale.lines.iter().zip(1..).map(|(line, number)| {
        let offer = offers.of_line(
            &shop.name,
            mode,
            line.offer.as_deref(),
            line.price.as_ref(),
            line.product.as_ref(),
        );
        grant(sale, line, offer, sold_at).map_err(|reason| ParkReason::NoGrant { line: number, reason })
    });
    lines.collect()
}

/// What a delivery says of the state of its sale.
fn event(action: &ShopAction) -> SaleEvent {
    match action {
        ShopAction::Issue(sale) | ShopAction::Renew(sale) => sale.until.map_or(SaleEvent::Paid, SaleEvent::PaidUntil),
        ShopAction::Change(sale) => sale.until.map_or(SaleEvent::Changed, SaleEvent::ChangedUntil),
        ShopAction::Revoke(subject) => match subject.cause {
            StatusCause::Dispute => SaleEvent::Disputed(LicenseStatus::Revoked),
            StatusCause::Own | StatusCause::Refund => SaleEvent::Status(LicenseStatus::Revoked),
        },
        ShopAction::Suspend(subject) | ShopAction::Resume(subject) => {
            let status = match action {
                ShopAction::Suspend(_) => LicenseStatus::Suspended,
                _ => LicenseStatus::Active,
            };
            match subject.cause {
                StatusCause::Own => SaleEvent::Subscription(status),
                StatusCause::Dispute => SaleEvent::Disputed(status),
                StatusCause::Refund => SaleEvent::Status(status),
            }
        }
        // The license ends on its last day by itself.
        ShopAction::LetExpire(_) | ShopAction::Record(_) | ShopAction::Park(_) | ShopAction::Ignore { .. } => {
            SaleEvent::Named
        }
    }
}

/// Issues, extends and changes the licenses of a sale, so that they are as the sale is. Gives those that were issued. `counts`:
/// nothing newer of its kind is known. `is_newest`: nothing newer is known of the subscription at all.
async fn follow(
    licenses: &SaleLicenses<'_>,
    action: &ShopAction,
    state: SaleState,
    mut granted: Vec<(u32, GrantedLicense)>,
    counts: bool,
    is_newest: bool,
) -> Result<Vec<LicenseId>, ApplyError> {
    // The end that the shop named, in whichever delivery, precedes the period of the offer.
    if let Some(until) = state.until() {
        granted
            .iter_mut()
            .for_each(|(_, license)| license.expires = until.date_naive());
    }
    let issued = match action {
        ShopAction::Issue(sale) | ShopAction::Renew(sale) => {
            let issued = licenses.issue(&granted).await?;
            let end = match action {
                _ if sale.until.is_none() => PaidEnd::Unknown,
                ShopAction::Issue(_) => PaidEnd::Exact,
                _ => PaidEnd::AtLeast,
            };
            licenses.pay(&granted, end, is_newest).await?;
            issued
        }
        ShopAction::Change(sale) if counts && state.is_issued => {
            licenses.change(&granted, sale.until.is_some()).await?
        }
        _ => Vec::new(),
    };
    // A sale that is active leaves those as they are that are suspended because fewer are sold.
    if state.license_status() != LicenseStatus::Active || matches!(action, ShopAction::Resume(_)) {
        licenses.follow_status().await?;
    }
    Ok(issued)
}
