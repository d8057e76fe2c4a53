//! Collects what the desk shows of sales: sales that wait, parked deliveries, and the latest sales with their licenses.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use tokio::task::spawn_blocking;

use crate::serve::deliveries::fold;
use crate::serve::desk::asked::Asked;
use crate::serve::pages::page_problem::PageProblem;
use crate::serve::reply::problem::Problem;
use crate::serve::state::Service;
use crate::serve::waiting_sales::{self, ListedWait, WaitingOrder};
use countersign_files::json_folder::JsonFolderError;
use countersign_files::queue::QueueState;
use countersign_files::spool::AwaitedThing;
use countersign_model::issued_license::Hex128;
use countersign_model::license_key::LicenseId;
use countersign_model::sale::terms::Terms;
use countersign_model::slug::Slug;
use countersign_model::text::outside_text::OutsideText;

/// How many of the latest sales are shown.
const LATEST: usize = 50;

/// The offer that terms of something left aside name.
pub(super) const LEFT_ASIDE: &str = "left-aside";

/// What waits and what was sold last.
pub(super) struct SalesLook {
    pub(super) waiting: WaitingSales,
    pub(super) latest: Vec<LatestSale>,
    /// The number of sales in the ledger.
    pub(super) all: usize,
}

/// What waits for something.
#[derive(Default)]
pub(super) struct WaitingSales {
    /// The sales of all nodes and the deliveries of this one, those that wait longest first.
    pub(super) sales: Vec<ListedWait>,
    /// This node's parked deliveries, the oldest first. A delivery whose sale is in `sales` only adds the order to that sale.
    pub(super) parked: Vec<ParkedDelivery>,
}

/// A delivery that is left to a person.
pub(super) struct ParkedDelivery {
    pub(super) id: Hex128,
    pub(super) shop: Slug,
    pub(super) order: WaitingOrder,
    pub(super) reason: Option<String>,
    pub(super) since: DateTime<Utc>,
    /// The sale that it belongs to, if it waits for an offer.
    sale: Option<Hex128>,
}

/// A sale among the latest.
pub(super) struct LatestSale {
    pub(super) began: Option<DateTime<Utc>>,
    pub(super) id: Hex128,
    pub(super) shop: Option<String>,
    /// The shop's id of the order, while the sale waits and a delivery of it is here.
    pub(super) order: Option<String>,
    /// Whether a person left something of the order aside.
    pub(super) is_left_aside: bool,
    pub(super) licenses: Vec<LicenseId>,
}

/// What was ordered, and by whom, as far as it is known and the visitor may see it.
pub(super) struct ShownOrder {
    pub(super) number: Option<OutsideText>,
    pub(super) sold: OutsideText,
    pub(super) amount: Option<OutsideText>,
    pub(super) buyer: Option<OutsideText>,
}

impl ShownOrder {
    pub(super) fn of(order: &WaitingOrder, sees_customers: bool) -> Self {
        let buyer = [&order.buyer.name, &order.buyer.address];
        let buyer: Vec<_> = buyer.into_iter().flatten().map(String::as_str).collect();
        Self {
            number: order.number.as_deref().map(order_number),
            sold: OutsideText::of(&order.sold.join(", ")),
            amount: order.amount.as_deref().map(OutsideText::of),
            buyer: (sees_customers && !buyer.is_empty()).then(|| OutsideText::of(&buyer.join(", "))),
        }
    }
}

/// An order as its buyer knows it: `5171` for `order:5171`, which tells orders of a shop from its subscriptions.
pub(super) fn order_number(order: &str) -> OutsideText {
    OutsideText::of(order.strip_prefix("order:").unwrap_or(order))
}

/// Whether a person left aside what these terms are for.
pub(super) fn is_left_aside(terms: &Terms) -> bool {
    terms.is_nothing && terms.offer.as_str() == LEFT_ASIDE
}

impl SalesLook {
    /// Reads the spool and the ledger.
    pub(super) async fn now(asked: &Asked<'_>) -> Result<Self, PageProblem> {
        blocking(asked, |service, store| {
            let waiting = WaitingSales::of(service, store)?;
            Ok(Self {
                latest: latest(service, &waiting),
                waiting,
                all: service.gate.bindings().sale_count(),
            })
        })
        .await
    }
}

impl WaitingSales {
    /// Reads the spool and the sales that wait.
    pub(super) async fn now(asked: &Asked<'_>) -> Result<Self, PageProblem> {
        blocking(asked, Self::of).await
    }

    fn of(service: &Service, store: &Path) -> Result<Self, JsonFolderError> {
        let shop = |name: &Slug| Some(&service.hooks.find(name.as_str())?.0.config);
        let mut waiting = Self::default();
        waiting_sales::each_in_spool(store, |delivery| {
            let config = shop(&delivery.whole.queued.item.shop);
            let kind = config.map(|config| config.kind);
            waiting.sales.extend(delivery.wait(kind));
            let queued = &delivery.whole.queued;
            if queued.state == QueueState::Parked {
                let config = config.filter(|_| queued.item.waits_for == Some(AwaitedThing::Offer));
                waiting.parked.push(ParkedDelivery {
                    id: delivery.id,
                    shop: queued.item.shop.clone(),
                    order: delivery.order(kind),
                    reason: queued.reason.clone(),
                    since: queued.queued,
                    sale: config.and_then(|config| fold::sale_of(service, config, &delivery.whole.body)),
                });
            }
        })?;
        let known = service.gate.bindings().sales_that_may_wait();
        waiting.sales.extend(known.iter().filter_map(waiting_sales::in_ledger));
        waiting.sales.sort_by_key(|wait| wait.since);
        waiting.parked.sort_by_key(|delivery| (delivery.since, delivery.id));
        let sales = &mut waiting.sales;
        let places: HashMap<Hex128, usize> = (0..)
            .zip(sales.iter())
            .filter_map(|(place, wait)| Some((wait.sale?, place)))
            .collect();
        waiting.parked.retain_mut(|delivery| {
            let wait = delivery.sale.and_then(|sale| sales.get_mut(*places.get(&sale)?));
            let is_alone = wait.is_none();
            if let Some(wait) = wait {
                wait.order = std::mem::take(&mut delivery.order);
            }
            is_alone
        });
        Ok(waiting)
    }
}

fn latest(service: &Service, waiting: &WaitingSales) -> Vec<LatestSale> {
    let bindings = service.gate.bindings();
    let order = |sale| {
        let wait = waiting.sales.iter().find(|wait| wait.sale == Some(sale))?;
        wait.order.number.clone()
    };
    let sales = bindings.newest_sales(LATEST).into_iter();
    sales
        .map(|sale| LatestSale {
            began: sale.facts.began(),
            id: sale.id,
            order: order(sale.id),
            shop: waiting_sales::shop_of(&sale),
            is_left_aside: sale.facts.terms().values().any(|terms| is_left_aside(terms)),
            licenses: bindings.issued_of_sale(&sale),
        })
        .collect()
}

/// Lets a thread look that may wait for the disk.
async fn blocking<T: Send + 'static>(
    asked: &Asked<'_>,
    look: impl FnOnce(&Service, &Path) -> Result<T, JsonFolderError> + Send + 'static,
) -> Result<T, PageProblem> {
    let service = Arc::clone(&asked.state.service);
    let store = asked.state.store.clone();
    let looked = spawn_blocking(move || look(&service, &store)).await;
    let looked = looked.map_err(|error| Problem::internal(&error))?;
    Ok(looked.map_err(|error| Problem::internal(&error))?)
}
