//! What sales wait for: in the ledger, or in this node's spool. For `countersign shop sales list --waiting` and the desk.

use std::path::Path;

use chrono::{DateTime, Utc};
use serde::Serialize;

use countersign_files::json_folder::JsonFolderError;
use countersign_files::queue::{Queue, QueueState};
use countersign_files::spool::{self, AwaitedThing, Delivery};
use countersign_ledger::KnownSale;
use countersign_model::issued_license::Hex128;
use countersign_model::sale::grants::Remainder;

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
}

/// What the deliveries of this node wait for; `store` is its own folder. One without an offer is parked, and its sale is in the ledger.
/// Blocks.
///
/// # Errors
/// The folder cannot be listed.
pub fn in_spool(store: &Path) -> Result<Vec<ListedWait>, JsonFolderError> {
    let mut listed = Vec::new();
    let Some(queue) = Queue::<Delivery>::existing(spool::folder(store)) else {
        return Ok(listed);
    };
    for (id, _) in queue.list()? {
        // `shop parked list` tells of one that cannot be read.
        let Ok(Some(queued)) = queue.read(id) else { continue };
        // A parked renewal has no sale in the ledger.
        if queued.state != QueueState::Waiting && queued.item.waits_for != Some(AwaitedThing::FirstPayment) {
            continue;
        }
        listed.extend(queued.item.waits_for.map(|waits_for| ListedWait {
            shop: Some(queued.item.shop.to_string()),
            sale: None,
            delivery: Some(id),
            waits_for,
            since: Some(queued.queued),
        }));
    }
    Ok(listed)
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
    })
}

/// The name of a sale's shop.
pub fn shop_of(sale: &KnownSale) -> Option<String> {
    Some(sale.shop.as_ref()?.shop()?.to_string())
}
