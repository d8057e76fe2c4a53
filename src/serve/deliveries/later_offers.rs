//! Grants what had no offer when it was sold, once an offer is added for it.
//!
//! Deliveries that are parked for want of an offer are tried again first: they know the buyer's address. Then sales follow of which
//! something was granted before, because their deliveries are gone: their keys are mailed to the customer of what was granted, if the
//! address is kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::Utc;
use futures_util::{StreamExt as _, stream};
use tokio::task::spawn_blocking;

use crate::serve::deliveries::delivered::in_spool;
use crate::serve::deliveries::error::ApplyError;
use crate::serve::deliveries::key_debt;
use crate::serve::deliveries::sale_licenses::{SaleKey, SaleLicenses};
use crate::serve::deliveries::sale_places::SalePlaces;
use crate::serve::deliveries::sale_requests::SaleRequests;
use crate::serve::state::Service;
use countersign_files::spool::{AwaitedThing, SpoolError};
use countersign_ledger::{KnownFacts, KnownSale, SaleChange, SaleOutcome, StoreError};
use countersign_mail::address::MailAddress;
use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_model::license_key::LicenseId;
use countersign_model::offer::{SalesMode, ShopId};
use countersign_model::remarks::Author;
use countersign_model::sale::fact::{Fact, SoldAs};
use countersign_model::sale::terms::Terms;
use countersign_model::slug::Slug;
use countersign_registry::Registry;
use countersign_registry::offers::Offers;
use countersign_settings::config::KeyIssuer;

/// Sales that follow after one look, so that deliveries do not wait long.
const MOST_SALES: usize = 500;

/// Sales at once, so that they share commits.
const AT_ONCE: usize = 32;

/// Offers that were followed, and sales that are still to follow them.
#[derive(Default)]
pub(super) struct LaterOffers {
    followed: Option<Arc<Registry>>,
    left: Vec<LaterSale>,
}

/// A sale that has an offer for more than before.
struct LaterSale {
    sale: KnownSale,
    shop: Slug,
    mode: SalesMode,
    terms: BTreeMap<ShopId, Terms>,
    /// Prices of them that other terms were remembered for.
    regranted: Vec<ShopId>,
    /// Who says so, if a person does.
    author: Author,
    /// The buyer's address, if a person says it.
    address: Option<MailAddress>,
}

impl LaterOffers {
    /// Whether there are other offers than at the last look. The first look finds some.
    pub(super) fn are_new(&mut self, service: &Service) -> bool {
        let registry = Arc::clone(&service.gate.snapshot().registry);
        let offers = |registry: &Registry| -> Vec<_> {
            registry.offers().all().iter().map(|(offer, _)| offer.clone()).collect()
        };
        let is_same = self
            .followed
            .as_ref()
            .is_some_and(|followed| Arc::ptr_eq(followed, &registry) || offers(followed) == offers(&registry));
        self.followed = Some(registry);
        !is_same
    }

    /// Has parked deliveries tried again that wait for an offer.
    pub(super) async fn retry_parked(service: &Arc<Service>) -> Result<(), SpoolError> {
        in_spool(service, |spool| spool.retry_those_for(AwaitedThing::Offer, Utc::now())).await?;
        Ok(())
    }

    /// Finds the sales that have an offer for more than before.
    pub(super) async fn find(&mut self, service: &Arc<Service>) {
        let service = Arc::clone(service);
        // It looks at every sale.
        let found = spawn_blocking(move || {
            let snapshot = service.gate.snapshot();
            let sales = service.gate.bindings().sales().into_iter();
            sales
                .filter_map(|sale| later_sale(sale, snapshot.registry.offers()))
                .collect()
        });
        self.left = found.await.unwrap_or_default();
    }

    /// Has some of them follow. The log says how many.
    pub(super) async fn grant(&mut self, service: &Arc<Service>) {
        if self.left.is_empty() {
            return;
        }
        let rest = self.left.split_off(self.left.len().min(MOST_SALES));
        let some = std::mem::replace(&mut self.left, rest);
        let granted = stream::iter(some).map(async |later| {
            let by = Arc::new(ChangeScope::of_shop(&later.shop));
            let granted = grant(service, &later, by).await;
            (later, granted)
        });
        let mut granted = std::pin::pin!(granted.buffered(AT_ONCE));
        let mut unsent = Vec::new();
        let mut count = 0_usize;
        let mut sales = 0_usize;
        while let Some((later, granted)) = granted.next().await {
            match granted {
                Ok(LaterLicenses { issued, are_mailed }) => {
                    sales += 1;
                    count += issued.len();
                    unsent.extend(issued.into_iter().filter(|_| !are_mailed));
                }
                Err(error) => {
                    if matches!(error, ApplyError::Store(_)) {
                        self.left.push(later);
                    }
                    service.hooks.delay(&error);
                }
            }
        }
        if sales > 0 {
            tracing::info!(
                sales,
                licenses = count,
                "offers grant what was sold before they were added"
            );
        }
        key_debt::warn_keys_not_mailed(
            &unsent,
            "what they were sold for had no offer, and the buyer's mail address is not kept, or there is no mail server",
        );
    }
}

/// What a person says that a price of a sale is.
pub(in crate::serve) struct ChosenTerms {
    /// The sale.
    pub(in crate::serve) sale: KnownSale,
    /// The price, which no offer is for.
    pub(in crate::serve) price: ShopId,
    /// What it grants.
    pub(in crate::serve) terms: Terms,
    /// Live or test.
    pub(in crate::serve) mode: SalesMode,
    /// Whether it takes the place of what a person said before.
    pub(in crate::serve) is_again: bool,
    /// Who says so.
    pub(in crate::serve) author: Author,
    /// The buyer's address, where a person says it: the delivery that had it is gone.
    pub(in crate::serve) address: Option<MailAddress>,
}

/// Grants what a person says, as if an offer had been added for this price of this sale alone. Where nothing was granted yet, the
/// parked delivery, which knows the buyer's address, is tried again on this node.
///
/// # Errors
/// The ledger cannot be written, or a license cannot be issued: then the reason. The same may be said again.
pub(in crate::serve) async fn grant_chosen(
    service: &Arc<Service>,
    chosen: ChosenTerms,
    by: &Arc<ChangeScope>,
) -> Result<Result<(), String>, StoreError> {
    match try_chosen(service, chosen, by).await {
        Ok(()) => Ok(Ok(())),
        Err(ApplyError::Store(error)) => Err(error),
        Err(error) => Ok(Err(error.to_string())),
    }
}

async fn try_chosen(service: &Arc<Service>, chosen: ChosenTerms, by: &Arc<ChangeScope>) -> Result<(), ApplyError> {
    let is_first = chosen.sale.facts.terms().is_empty();
    let Some(shop) = chosen.sale.shop.as_ref().and_then(|shop| shop.shop()) else {
        return Ok(());
    };
    let later = LaterSale {
        shop,
        mode: chosen.mode,
        regranted: chosen.is_again.then(|| chosen.price.clone()).into_iter().collect(),
        terms: BTreeMap::from([(chosen.price, chosen.terms)]),
        sale: chosen.sale,
        author: chosen.author,
        address: chosen.address,
    };
    if is_first {
        remember(service, &later, Arc::clone(by)).await?;
        LaterOffers::retry_parked(service).await?;
        return Ok(());
    }
    let LaterLicenses { issued, are_mailed } = grant(service, &later, Arc::clone(by)).await?;
    if !are_mailed {
        key_debt::warn_keys_not_mailed(
            &issued,
            "the buyer's mail address is not kept, or there is no mail server",
        );
    }
    Ok(())
}

/// `None` if no offer is for more than before, or nothing was granted yet: then its delivery is parked.
fn later_sale(sale: KnownSale, offers: &Offers) -> Option<LaterSale> {
    if sale.facts.terms().is_empty() {
        return None;
    }
    let shop = sale.shop.as_ref()?.shop()?;
    let without = sale.facts.without_terms();
    if without.is_empty() {
        return None;
    }
    let mode = offers.mode_of(&shop, &sale.facts)?;
    let mut terms = BTreeMap::new();
    for (_, SoldAs { offer, price, product }) in without {
        let named = offer.map(ShopId::as_str);
        if let Ok(offer) = offers.of_line(&shop, mode, named, Some(price), Some(product)) {
            terms.entry(price.clone()).or_insert_with(|| Terms::from(offer));
        }
    }
    (!terms.is_empty()).then_some(LaterSale {
        sale,
        shop,
        mode,
        terms,
        regranted: Vec::new(),
        author: Author::default(),
        address: None,
    })
}

/// The licenses that are new.
#[derive(Default)]
struct LaterLicenses {
    issued: Vec<LicenseId>,
    /// Whether their keys are mailed to the customer.
    are_mailed: bool,
}

/// Remembers what the offers grant; the sale with all that is known.
async fn remember(
    service: &Service,
    later: &LaterSale,
    by: Arc<ChangeScope>,
) -> Result<Option<(Hex128, KnownFacts)>, ApplyError> {
    let mut change = SaleChange::new(Vec::new(), later.terms.clone(), by, Utc::now());
    change.sale = Some(later.sale.id);
    change.regranted.clone_from(&later.regranted);
    Ok(match service.gate.bindings().record_sale(change).await? {
        SaleOutcome::Recorded { sale, facts, .. } => Some((sale, facts)),
        SaleOutcome::TooLong | SaleOutcome::NoName => None,
    })
}

/// Remembers what the offers grant, and has the licenses follow.
async fn grant(service: &Arc<Service>, later: &LaterSale, by: Arc<ChangeScope>) -> Result<LaterLicenses, ApplyError> {
    let Some((hook, _)) = service.hooks.find(later.shop.as_str()) else {
        return Ok(LaterLicenses::default());
    };
    let snapshot = service.gate.snapshot();
    let secrets = snapshot.secrets.licensing.as_deref().ok_or(ApplyError::NoSecrets)?;
    let requests = SaleRequests::new(secrets, &later.shop, later.mode);
    let bindings = service.gate.bindings();
    let Some((sale, facts)) = remember(service, later, by).await? else {
        return Ok(LaterLicenses::default());
    };
    let places = SalePlaces {
        registry: &snapshot.registry,
        bindings,
        requests: &requests,
        sale,
        is_earlier: facts.is_earlier,
    };
    let key = match hook.config.keys {
        KeyIssuer::Own => SaleKey::Own,
        KeyIssuer::Shop => SaleKey::OfShop,
    };
    let _turn = service.hooks.turns.of(sale).await;
    let named = facts.facts();
    let objects = named.iter().flat_map(Fact::ids).copied().collect();
    let licenses = SaleLicenses::new(places, objects, None, key, later.author.clone());
    licenses.update_all().await?;
    // The buyer of what was granted before, unless a person says another one.
    let said = licenses
        .customer(later.address.as_ref(), None, service.customers)
        .await?;
    let holder = said.or_else(|| licenses.holder());
    let issued = licenses.issue_missing(holder).await?;
    let are_mailed = match (&later.address, holder) {
        _ if key == SaleKey::OfShop || issued.is_empty() => false,
        (Some(address), _) => key_debt::mail_to(service, sale, address.clone(), &issued).await?,
        (None, Some(holder)) => key_debt::mail_to_customer(service, sale, holder, &issued).await?,
        (None, None) => false,
    };
    Ok(LaterLicenses { issued, are_mailed })
}
