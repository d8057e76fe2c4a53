//! What sales wait for: in the ledger, or in this node's spool, and what a person says of a delivery. For `countersign shop` and
//! the desk.

use std::collections::BTreeSet;
use std::path::Path;

use chrono::{DateTime, Utc};
use serde::Serialize;

use countersign_files::json_folder::JsonFolderError;
use countersign_files::queue::{Queue, QueueState, WholeItem};
use countersign_files::spool::{self, AwaitedThing, Delivery, SaidOfDelivery};
use countersign_ledger::KnownSale;
use countersign_model::issued_license::Hex128;
use countersign_model::offer::{SalesMode, ShopId};
use countersign_model::sale::fact::Fact;
use countersign_model::sale::grants::Remainder;
use countersign_model::text::contains_folded;
use countersign_settings::config::ShopConfig;
use countersign_shops::event::Buyer;
use countersign_shops::shop::Shop;

/// What waits.
#[derive(Clone, Debug, Serialize)]
pub struct ListedWait {
    /// The shop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shop: Option<String>,
    /// The sale, if the ledger has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sale: Option<Hex128>,
    /// The delivery, if it waits on this node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Hex128>,
    /// What it waits for.
    pub waits_for: AwaitedThing,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<DateTime<Utc>>,
    /// What was ordered, as far as it is known.
    #[serde(flatten)]
    pub order: WaitingOrder,
}

/// What a person has to know of an order to decide about it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WaitingOrder {
    /// The shop's id of the order, if a delivery of it is here.
    #[serde(rename = "order", skip_serializing_if = "Option::is_none")]
    pub number: Option<String>,
    /// What was sold: as the shop calls it where a delivery is here, else by price.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sold: Vec<String>,
    /// What was to be paid, if a delivery of it is here and says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amount: Option<String>,
    /// Who bought it, if a delivery of it is here.
    // SECURITY: personal. A list that scripts read and that may be kept does not have it.
    #[serde(skip)]
    pub buyer: Buyer,
}

impl WaitingOrder {
    /// What a delivery says of its order; nothing if it cannot be read.
    pub fn of_delivery(shop: &Shop, body: &[u8]) -> Self {
        let Ok(parsed) = countersign_shops::read(shop, body) else {
            return Self::default();
        };
        let Some(record) = parsed.content.record() else {
            return Self::default();
        };
        let lines = record.facts.iter().flat_map(|fact| match fact {
            Fact::Payment(payment) => payment.lines.iter().map(|line| &line.price).collect(),
            Fact::Subscription(subscription) => subscription.items.iter().map(|item| &item.price).collect(),
            _ => Vec::new(),
        });
        let lines: BTreeSet<_> = lines.collect();
        let word = |price: &ShopId| {
            record
                .words
                .get(price)
                .map_or_else(|| price.to_string(), ToString::to_string)
        };
        Self {
            number: record.order.clone(),
            sold: lines.into_iter().map(word).collect(),
            amount: record.amount.clone(),
            buyer: record.buyer.clone(),
        }
    }

    /// Whether the number, the buyer or what was sold contains a text that is [`folded`](countersign_model::text::folded). Every order contains the empty
    /// text, also one of which nothing is known.
    pub(crate) fn contains(&self, wanted: &str, sees_customers: bool) -> bool {
        let buyer = [&self.buyer.name, &self.buyer.address];
        let buyer = buyer.into_iter().flatten().filter(|_| sees_customers);
        let mut texts = self.number.iter().chain(&self.sold).chain(buyer);
        wanted.is_empty() || texts.any(|text| contains_folded(text, wanted))
    }

    /// The prices of a sale of the ledger that no offer is for.
    fn of_sale(sale: &KnownSale) -> Self {
        let unknown = sale.facts.without_terms();
        let prices: BTreeSet<_> = unknown.iter().map(|(_, thing)| thing.price.to_string()).collect();
        Self {
            sold: prices.into_iter().collect(),
            ..Self::default()
        }
    }
}

/// A delivery of this node.
pub struct SpooledDelivery {
    /// Its id.
    pub id: Hex128,
    /// The delivery.
    pub whole: WholeItem<Delivery>,
}

impl SpooledDelivery {
    /// What it says of its order; nothing if its shop is unknown.
    pub fn order(&self, kind: Option<&Shop>) -> WaitingOrder {
        kind.map_or_else(WaitingOrder::default, |kind| {
            WaitingOrder::of_delivery(kind, &self.whole.body)
        })
    }

    /// What it waits for; `None` for a delivery without an offer, which is parked: its sale in the ledger waits.
    pub fn wait(&self, kind: Option<&Shop>) -> Option<ListedWait> {
        let queued = &self.whole.queued;
        let waits_for = queued.item.waits_for?;
        // A parked renewal has no sale in the ledger, and a key that did not come is still to come.
        let is_missed = matches!(waits_for, AwaitedThing::RenewedLicense | AwaitedThing::Key);
        (queued.state == QueueState::Waiting || is_missed).then(|| ListedWait {
            shop: Some(queued.item.shop.to_string()),
            sale: None,
            delivery: Some(self.id),
            waits_for,
            since: Some(queued.queued),
            order: self.order(kind),
        })
    }
}

/// Passes on every delivery of this node that can be read; `shop parked list` tells of the others. `store` is its own folder. Blocks.
///
/// # Errors
/// The folder cannot be listed.
pub fn each_in_spool(store: &Path, mut each: impl FnMut(SpooledDelivery)) -> Result<(), JsonFolderError> {
    let Some(queue) = Queue::<Delivery>::existing(spool::folder(store)) else {
        return Ok(());
    };
    for (id, _) in queue.list()? {
        if let Ok(Some(whole)) = queue.read_with_body(id) {
            each(SpooledDelivery { id, whole });
        }
    }
    Ok(())
}

/// What a sale of the ledger waits for.
pub fn in_ledger(sale: &KnownSale) -> Option<ListedWait> {
    let mut lacking = sale.facts.grants().remainder;
    lacking.retain(|remainder| matches!(remainder, Remainder::NoOffer(_)));
    let since = lacking
        .iter()
        .filter_map(|remainder| sale.facts.remains_since(remainder));
    let (waits_for, since) = match since.min() {
        _ if sale.facts.awaits_payment() => (AwaitedThing::FirstPayment, sale.facts.began()),
        None if lacking.is_empty() => return None,
        since => (AwaitedThing::Offer, since),
    };
    Some(ListedWait {
        shop: shop_of(sale),
        sale: Some(sale.id),
        delivery: None,
        waits_for,
        since,
        order: WaitingOrder::of_sale(sale),
    })
}

/// The name of a sale's shop.
pub fn shop_of(sale: &KnownSale) -> Option<String> {
    Some(sale.shop.as_ref()?.shop()?.to_string())
}

/// The subscription that a delivery renews, as the facts name it, and whether it is a sale or a test; `None` if it renews none.
pub fn renewed(shop: &ShopConfig, body: &[u8]) -> Option<(String, SalesMode)> {
    let parsed = countersign_shops::read(shop.kind, body).ok()?;
    let mut facts = parsed.content.record()?.facts.iter();
    let name = facts.find_map(|fact| match fact {
        Fact::Payment(payment) => payment.subscription.as_ref().or(payment.renews.first()),
        Fact::Subscription(subscription) => Some(&subscription.id),
        _ => None,
    })?;
    let mode = parsed.mode.or(shop.mode).unwrap_or(SalesMode::Live);
    Some((name.clone(), mode))
}

/// Has a delivery of this node tried again with what a person says of it; `false` if it is gone. `store` is the node's own folder.
/// Blocks.
///
/// # Errors
/// The disk fails, or the delivery cannot be read.
pub fn say(store: &Path, delivery: Hex128, said: SaidOfDelivery, now: DateTime<Utc>) -> Result<bool, JsonFolderError> {
    let Some(queue) = Queue::<Delivery>::existing(spool::folder(store)) else {
        return Ok(false);
    };
    queue.retry_with(delivery, now, |delivery| delivery.said = Some(said))
}

/// Has parked renewals tried again whose subscription nobody knew. Those of others are parked again. Blocks.
///
/// # Errors
/// The disk fails.
pub fn retry_renewals(store: &Path, now: DateTime<Utc>) -> Result<(), JsonFolderError> {
    let Some(queue) = Queue::<Delivery>::existing(spool::folder(store)) else {
        return Ok(());
    };
    for (name, _) in queue.list()? {
        // `shop parked list` tells of one that cannot be read.
        let Ok(Some(queued)) = queue.read(name) else { continue };
        if queued.item.waits_for == Some(AwaitedThing::RenewedLicense) {
            queue.retry_changed(name, now, |_| {})?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_of_which_nothing_is_known_is_left_out_by_a_search_alone() {
        let unknown = WaitingOrder::default();
        assert!(unknown.contains("", true) && !unknown.contains("anna", true));
        let known = WaitingOrder {
            number: Some("#1042".to_owned()),
            buyer: Buyer {
                address: Some("anna@buyer.example".to_owned()),
                ..Buyer::default()
            },
            ..WaitingOrder::default()
        };
        assert!(known.contains("1042", false) && known.contains("anna", true));
        assert!(!known.contains("anna", false));
    }
}
