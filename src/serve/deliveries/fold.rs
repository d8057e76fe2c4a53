//! Folds one delivery into the state of its sale, and has the licenses of the sale follow.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::serve::gate::Snapshot;
use crate::serve::hooks::Hook;
use crate::serve::state::Service;
use countersign_ledger::{MAX_NAMES, SaleChange, SaleOutcome};
use countersign_model::issued_license::Hex128;
use countersign_model::license::LicenseStatus;
use countersign_model::license_key::LicenseId;
use countersign_model::offer::SalesMode;
use countersign_model::sale_state::{SaleEvent, SaleState};
use countersign_settings::config::KeyIssuer;
use countersign_shops::event::{Sale, ShopAction, StatusCause};
use countersign_shops::grant::{GrantedLicense, grant, one_license};

use crate::serve::deliveries::delivered::{Delivered, SHOPS_TRY_FOR};
use crate::serve::deliveries::error::{ApplyError, ParkReason};
use crate::serve::deliveries::key_debt::KeyDebt;
use crate::serve::deliveries::known_sale::KnownSale;
use crate::serve::deliveries::sale_licenses::SaleLicenses;
use crate::serve::deliveries::sale_places::SalePlaces;
use crate::serve::deliveries::sale_requests::SaleRequests;
use crate::serve::deliveries::sale_words::{PaidEnd, SaleKey};
use crate::serve::deliveries::spool_work::in_spool;

/// Records what a delivery says of its sale, and has the licenses follow. Whether others may have waited for it.
pub(super) async fn fold(service: &Arc<Service>, delivered: &Delivered<'_>) -> Result<bool, ApplyError> {
    let Delivered { hook, queued, parsed } = delivered;
    let received = queued.queued;
    let id = queued.item.id;
    let shop = &hook.config;
    let gate = &service.gate;
    let snapshot = gate.snapshot();
    let secrets = snapshot.secrets.licensing.as_deref().ok_or(ApplyError::NoSecrets)?;
    let mode = parsed.mode.or(shop.mode).unwrap_or(SalesMode::Live);
    let requests = SaleRequests::new(secrets, &shop.name, mode);
    let names = requests.hide(parsed.action.names());
    if names.is_empty() {
        return Err(ParkReason::NoName.into());
    }
    let is_issued = |name: &Hex128| gate.bindings().sale(*name).is_some_and(|sale| sale.is_issued);
    let is_known = names.iter().any(is_issued);
    // Before anything is written: what grants nothing is parked as a whole.
    let granted = match parsed.action.sale() {
        Some(sale) => grants(&snapshot, hook, mode, sale, parsed.changed_at.unwrap_or(received))?,
        None => Vec::new(),
    };
    if shop.keys == KeyIssuer::Shop && !granted.is_empty() && !is_known {
        one_license(granted.iter().map(|(count, _)| *count)).map_err(ParkReason::from)?;
    }
    if queued.item.is_early && !is_known {
        // A change whose sale never comes is of one from before the shop was connected.
        if Utc::now() - received <= SHOPS_TRY_FOR {
            return Err(ApplyError::Early);
        }
        tracing::info!(delivery = %id, "a change is dropped: its sale did not come");
        return Ok(false);
    }
    let change = SaleChange {
        names: names.into_iter().take(MAX_NAMES).collect(),
        event: event(&parsed.action)?,
        at: parsed.changed_at,
        scope: Arc::clone(requests.scope()),
        now: Utc::now(),
    };
    let (state, counts) = match gate.bindings().record_sale(change).await? {
        SaleOutcome::Recorded { state, counts } => (state, counts),
        SaleOutcome::TwoSales => return Err(ParkReason::TwoSales.into()),
    };
    let key = match shop.keys {
        KeyIssuer::Own => SaleKey::Own,
        KeyIssuer::Shop => SaleKey::OfShop(state.key),
    };
    let places = SalePlaces {
        gate,
        requests: &requests,
        sale: state.id,
    };
    if let ShopAction::Key(_) = parsed.action {
        return match counts {
            true => Ok(places.is_first_of(state.key)),
            false => Err(ParkReason::SecondKey.into()),
        };
    }
    if matches!(parsed.action, ShopAction::Change(_)) && counts && !state.is_issued {
        if !queued.item.is_early {
            in_spool(service, move |spool| {
                spool.update(id, |delivery| delivery.is_early = true)
            })
            .await?;
        }
        return Err(ApplyError::Early);
    }
    let _turn = service.hooks.turns.of(state.id).await;
    // Another delivery of the sale may have come first.
    let state = gate.bindings().sale(state.id).unwrap_or(state);
    let counts = counts && (parsed.changed_at.is_none() || parsed.changed_at >= state.changed_at);
    let sale = KnownSale {
        gate,
        id: state.id,
        delivered_at: parsed.changed_at,
    };
    let licenses = SaleLicenses::new(places, parsed.action.names().first(), key, sale);
    let debt = KeyDebt::of(
        service,
        delivered,
        &licenses,
        granted_now(&parsed.action, counts, &granted),
    )
    .await?;
    let issued = follow(&licenses, &parsed.action, state, granted, counts).await;
    let issued = issued.map_err(|error| error.of_delivery(received))?;
    debt.pay(&licenses, &issued).await?;
    // Changes that were early have their sale now.
    Ok(!issued.is_empty())
}

/// What a delivery has issued if it is missing.
fn granted_now<'g>(
    action: &ShopAction,
    counts: bool,
    granted: &'g [(u32, GrantedLicense)],
) -> &'g [(u32, GrantedLicense)] {
    match action {
        ShopAction::Issue(_) | ShopAction::Renew(_) => granted,
        ShopAction::Change(_) if counts => granted,
        _ => &[],
    }
}

/// What each line of a sale grants.
fn grants(
    snapshot: &Snapshot,
    hook: &Hook,
    mode: SalesMode,
    sale: &Sale,
    sold_at: DateTime<Utc>,
) -> Result<Vec<(u32, GrantedLicense)>, ParkReason> {
    if sale.lines.is_empty() {
        return Err(ParkReason::NoLines);
    }
    let shop = &hook.config;
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
fn event(action: &ShopAction) -> Result<SaleEvent, ParkReason> {
    Ok(match action {
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
        ShopAction::Key(key) => SaleEvent::Key(key.license.map_err(ParkReason::Key)?),
        // The license ends on its last day by itself.
        ShopAction::LetExpire(_) | ShopAction::Record(_) | ShopAction::Park(_) | ShopAction::Ignore { .. } => {
            SaleEvent::Named
        }
    })
}

/// Issues, extends and changes the licenses of a sale, so that they are as the sale is. Gives those that were issued. `counts`:
/// nothing newer of its kind is known.
async fn follow(
    licenses: &SaleLicenses<'_>,
    action: &ShopAction,
    state: SaleState,
    mut granted: Vec<(u32, GrantedLicense)>,
    counts: bool,
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
            licenses.pay(&granted, end).await?;
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
