//! Records the facts of one delivery, and has the licenses of the sale follow.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{TimeDelta, Utc};

use crate::serve::hooks::Hook;
use crate::serve::state::Service;
use countersign_files::spool::SaidOfDelivery;
use countersign_ledger::{HiddenId, MAX_NAMES, SaleChange, SaleOutcome, named_at_random};
use countersign_model::issued_license::Hex128;
use countersign_model::offer::{SalesMode, ShopId};
use countersign_model::remarks::Author;
use countersign_model::sale::fact::{Fact, ShopKey, SoldAs};
use countersign_model::sale::terms::Terms;
use countersign_registry::offers::Offers;
use countersign_settings::config::{KeyIssuer, ShopConfig};
use countersign_settings::keys::license_secrets::LicenseSecrets;

use crate::serve::deliveries::bought_license::BoughtLicense;
use crate::serve::deliveries::delivered::Delivered;
use crate::serve::deliveries::error::{ApplyError, ParkReason};
use crate::serve::deliveries::key_debt::KeyDebt;
use crate::serve::deliveries::sale_licenses::{SaleKey, SaleLicenses, SaleMails};
use crate::serve::deliveries::sale_places::SalePlaces;
use crate::serve::deliveries::sale_requests::SaleRequests;
use crate::serve::ledger_licenses::refresh;

/// How long a renewal waits for the first payment of its subscription: deliveries overtake each other by minutes.
const OVERTAKEN_FOR: TimeDelta = TimeDelta::hours(1);

/// The sale in the ledger that a delivery belongs to; `None` if there is none, or the delivery cannot be read.
pub(in crate::serve) fn sale_of(service: &Service, shop: &ShopConfig, body: &[u8]) -> Option<Hex128> {
    let parsed = countersign_shops::read(shop.kind, body).ok()?;
    let snapshot = service.gate.snapshot();
    let mode = parsed.mode.or(shop.mode).unwrap_or(SalesMode::Live);
    let requests = SaleRequests::new(snapshot.secrets.licensing.as_deref()?, &shop.name, mode);
    let ids = parsed.content.record()?.facts.iter().flat_map(Fact::ids);
    let mut sales = ids.filter_map(|id| service.gate.bindings().sale(requests.hide(id).current));
    sales.next().map(|(sale, _)| sale)
}

/// Records what a delivery says of its sale, and has the licenses follow. Whether others may have waited for it.
pub(super) async fn fold(service: &Arc<Service>, delivered: &Delivered<'_>) -> Result<bool, ApplyError> {
    let Delivered {
        hook,
        queued,
        mode,
        record,
    } = delivered;
    let received = queued.queued;
    let shop = &hook.config;
    let gate = &service.gate;
    let snapshot = gate.snapshot();
    let secrets = snapshot.secrets.licensing.as_deref().ok_or(ApplyError::NoSecrets)?;
    let mode = mode.or(shop.mode).unwrap_or(SalesMode::Live);
    if record.bad_key.is_some() && shop.keys == KeyIssuer::Own {
        // The licenses have keys of ours.
        return Ok(false);
    }
    if let Some(bad) = record.bad_key {
        return Err(ParkReason::Key(bad).into());
    }
    let requests = SaleRequests::new(secrets, &shop.name, mode);
    let hidden = record.facts.iter().cloned();
    let mut hidden: Vec<Fact<HiddenId>> = hidden.map(|fact| fact.map(&mut |id| requests.hide(&id))).collect();
    let (terms, unsold) = terms(snapshot.registry.offers(), hook, mode, &record.facts);
    let own: Vec<HiddenId> = hidden.iter().flat_map(Fact::ids).cloned().collect();
    if let Some(token) = record.bought_for {
        // Another node may have issued the license a moment ago: without this look, the customer would get a second one.
        refresh(gate.bindings()).await?;
        let keys = snapshot.secrets.downloads.as_deref();
        let finder = BoughtLicense::new(&snapshot.registry, gate.bindings(), &requests, shop.keys);
        finder.name(&mut hidden, token, keys, &terms);
    }
    let said = queued.item.said.as_ref();
    let key_said = said.and_then(|said| said.key).filter(|_| shop.keys == KeyIssuer::Shop);
    if let (Some(license), Some(of)) = (key_said, own.first()) {
        let of = of.clone();
        hidden.push(Fact::Key(ShopKey { license, of }));
    }
    let author = said.map(|said| author(secrets, said)).transpose()?.unwrap_or_default();
    let ids: Vec<&HiddenId> = hidden.iter().flat_map(Fact::ids).collect();
    if ids.len() > MAX_NAMES {
        return Err(ParkReason::TooLong.into());
    }
    let known = ids
        .iter()
        .flat_map(|id| std::iter::once(&id.current).chain(&id.retired));
    let is_known = known.into_iter().any(|id| {
        let sale = gate.bindings().sale(*id);
        sale.is_some_and(|(_, facts)| facts.is_sold() || facts.bought_for(id).is_some())
    });
    let is_bought = hidden.iter().any(|fact| fact.bought_for().is_some());
    if record.is_renewal && !is_known && !is_bought && !queued.item.is_sale {
        if Utc::now() - received > OVERTAKEN_FOR {
            return Err(ParkReason::UnknownSubscription.into());
        }
        return Err(ApplyError::Early);
    }
    // What a person says has the person's name: another delivery of the sale must not issue between the fact and the license.
    let known_sale = said.and_then(|_| ids.iter().find_map(|id| gate.bindings().sale(id.current)));
    let said_turn = match known_sale {
        Some((sale, _)) => Some((sale, service.hooks.turns.of(sale).await)),
        None => None,
    };
    let change = SaleChange::new(hidden, terms.clone(), Arc::clone(requests.scope()), Utc::now());
    let (sale, facts, is_news) = match gate.bindings().record_sale(change).await? {
        SaleOutcome::Recorded { sale, facts, is_news } => (sale, facts, is_news),
        SaleOutcome::TooLong => return Err(ParkReason::TooLong.into()),
        SaleOutcome::NoName => return Err(ParkReason::NoName.into()),
    };
    let keys = record.facts.iter().filter_map(|fact| match fact {
        Fact::Key(key) => Some(key.license),
        _ => None,
    });
    if shop.keys == KeyIssuer::Shop && keys.chain(key_said).any(|key| Some(key) != facts.key()) {
        return Err(ParkReason::SecondKey.into());
    }
    let key = match shop.keys {
        KeyIssuer::Own => SaleKey::Own,
        KeyIssuer::Shop => SaleKey::OfShop,
    };
    let places = SalePlaces {
        registry: &snapshot.registry,
        bindings: gate.bindings(),
        requests: &requests,
        sale,
        is_earlier: facts.is_earlier,
    };
    let _turn = match said_turn {
        Some((known, turn)) if known == sale => turn,
        // The sale became part of another one.
        other => {
            drop(other);
            service.hooks.turns.of(sale).await
        }
    };
    let objects = own
        .iter()
        .flat_map(|id| std::iter::once(id.current).chain(id.retired.iter().copied()));
    let licenses = SaleLicenses::new(places, objects.collect(), record.order.as_ref(), key, author);
    // What needs no address does not wait for one.
    licenses.update_all().await?;
    let debt = KeyDebt::of(service, delivered, &licenses).await?;
    let of_buyer = record.buyer.address.as_ref().and_then(|address| address.parse().ok());
    let address = debt.address().or(of_buyer.as_ref());
    let name = record.buyer.name.as_deref();
    let customer = licenses.customer(address, name, service.customers).await?;
    let issued = licenses.issue_missing(customer).await;
    let issued = issued.map_err(|error| error.of_delivery(received))?;
    let mails = SaleMails {
        language: record.buyer.language.as_ref(),
        words: &record.words,
        terms: &terms,
        rule: service.customers,
    };
    licenses.keep_mails(&debt.owed(&licenses, &issued), &mails).await?;
    debt.pay(&licenses, &issued).await?;
    // What is sold beside is granted; the rest is the remainder. What a price granted is remembered without its offer.
    let without = facts.without_terms();
    let lacks_terms = |thing: SoldAs<'_>| without.iter().any(|(_, unknown)| unknown.price == thing.price);
    match unsold {
        Some(reason) if record.facts.iter().flat_map(Fact::sold).all(lacks_terms) => Err(reason.into()),
        _ => Ok(is_news),
    }
}

/// The person who said what the delivery does not.
fn author(secrets: &LicenseSecrets, said: &SaidOfDelivery) -> Result<Author, ApplyError> {
    let reason = said.reason.as_deref().map(named_at_random);
    Ok(Author {
        who: Some(secrets.person(&said.who)),
        reason: reason.transpose().map_err(ApplyError::Random)?,
    })
}

/// What each price of these facts grants, and why the first one that grants nothing does not.
fn terms(
    offers: &Offers,
    hook: &Hook,
    mode: SalesMode,
    facts: &[Fact<String>],
) -> (BTreeMap<ShopId, Terms>, Option<ParkReason>) {
    let mut terms = BTreeMap::new();
    let mut unsold = None;
    for (thing, line) in facts.iter().flat_map(Fact::sold).zip(1..) {
        let SoldAs { offer, price, product } = thing;
        let named = offer.map(ShopId::as_str);
        match offers.of_line(&hook.config.name, mode, named, Some(price), Some(product)) {
            Ok(offer) => {
                terms.entry(price.clone()).or_insert_with(|| Terms::from(offer));
            }
            Err(reason) => {
                unsold.get_or_insert(ParkReason::NoOffer { line, reason });
            }
        }
    }
    (terms, unsold)
}
