//! The line of what became known of a sale, in the order of RFC 8785; and the lines of versions that kept a state instead of
//! facts, which are read only.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use countersign_model::digest::Digest;
use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_model::license_key::LicenseId;
use countersign_model::offer::ShopId;
use countersign_model::sale::fact::{Fact, SalePlace, ShopKey};
use countersign_model::sale::facts::SaleFacts;
use countersign_model::sale::terms::Terms;

use crate::log::line_event::{ChangesBy, EventLine, LineEvent, append};
use crate::log::position::Position;

/// A line about a sale: what became known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaleEntry {
    /// The sale: the name that it was first called by.
    pub sale: Hex128,
    /// Facts.
    pub facts: Vec<Fact<Hex128>>,
    /// Names of this sale from now on. A name may be the id of another sale, if both are one sale.
    pub names: Vec<Hex128>,
    /// The places of a subscription from now on.
    pub places: BTreeMap<Hex128, Vec<SalePlace<Hex128>>>,
    /// What prices of a subscription or a payment grant from now on.
    pub terms: Vec<SoldTerms>,
    /// Whether deliveries of it were applied before facts were kept.
    pub is_earlier: bool,
    /// What is known of the sale after this line. Only the node that wrote the line has it; it is in no file.
    pub after: Option<Arc<SaleFacts<Hex128>>>,
    /// The shop.
    pub scope: Arc<ChangeScope>,
    /// When it was written.
    pub time: DateTime<Utc>,
}

/// What a price grants that a sale named.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SoldTerms {
    /// What was sold.
    pub price: ShopId,
    /// The subscription or the payment.
    pub sale: Hex128,
    /// What it grants.
    pub terms: Terms,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SaleLine {
    event: SaleTag,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    facts: Vec<Fact<Hex128>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    names: Vec<Hex128>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    old: bool,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    places: BTreeMap<Hex128, Vec<SalePlace<Hex128>>>,
    previous: Digest,
    sale: Hex128,
    scope: ChangeScope,
    sequence: u64,
    synced: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    terms: Vec<SoldTerms>,
    time: DateTime<Utc>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SaleTag {
    Sold,
}

/// A line of a version that kept a state of each sale. What the state said is in its licenses; only its names are read.
#[derive(Deserialize)]
pub(super) struct EarlierSaleLine {
    key: Option<LicenseId>,
    names: Vec<Hex128>,
    previous: Digest,
    sale: Hex128,
    scope: ChangeScope,
    sequence: u64,
    synced: u64,
    time: DateTime<Utc>,
}

impl SaleLine {
    /// The line of this entry after `previous`.
    pub(super) fn new(entry: &SaleEntry, previous: Position, synced: u64) -> Self {
        let entry = entry.clone();
        Self {
            event: SaleTag::Sold,
            facts: entry.facts,
            names: entry.names,
            old: entry.is_earlier,
            places: entry.places,
            previous: previous.digest,
            sale: entry.sale,
            scope: ChangeScope::clone(&entry.scope),
            sequence: previous.sequence + 1,
            synced,
            terms: entry.terms,
            time: entry.time,
        }
    }
}

impl EventLine for SaleLine {
    type Event = Arc<SaleEntry>;

    fn place(&self) -> (u64, Digest, u64) {
        (self.sequence, self.previous, self.synced)
    }

    fn event(self) -> serde_json::Result<Self::Event> {
        let entry = SaleEntry {
            sale: self.sale,
            facts: self.facts,
            names: self.names,
            places: self.places,
            terms: self.terms,
            is_earlier: self.old,
            after: None,
            scope: Arc::new(self.scope),
            time: self.time,
        };
        Ok(Arc::new(entry))
    }
}

impl LineEvent for SaleEntry {
    fn write(&self, bytes: &mut Vec<u8>, previous: Position, synced: u64) -> serde_json::Result<()> {
        append(bytes, &SaleLine::new(self, previous, synced))
    }

    fn time(&self) -> DateTime<Utc> {
        self.time
    }

    fn scope(&self) -> Option<&ChangeScope> {
        Some(&self.scope)
    }

    fn words(&self) -> (&'static str, Vec<String>) {
        ("sold", vec!["a sale changed".to_owned()])
    }

    fn change(&self) -> Option<ChangesBy> {
        None
    }
}

impl EventLine for EarlierSaleLine {
    type Event = Arc<SaleEntry>;

    fn place(&self) -> (u64, Digest, u64) {
        (self.sequence, self.previous, self.synced)
    }

    fn event(self) -> serde_json::Result<Self::Event> {
        let key = self.key.map(|license| Fact::Key(ShopKey { license, of: self.sale }));
        let entry = SaleEntry {
            sale: self.sale,
            facts: key.into_iter().collect(),
            names: self.names,
            places: BTreeMap::new(),
            terms: Vec::new(),
            is_earlier: true,
            after: None,
            scope: Arc::new(self.scope),
            time: self.time,
        };
        Ok(Arc::new(entry))
    }
}

/// How long the line of this entry can be at most, with its line feed.
pub(crate) fn longest(entry: &SaleEntry) -> usize {
    let last = Position {
        sequence: u64::MAX - 1,
        ..Position::genesis()
    };
    let latest = SaleEntry {
        time: DateTime::<Utc>::MAX_UTC,
        ..entry.clone()
    };
    // What cannot be written is too long.
    serde_json::to_vec(&SaleLine::new(&latest, last, u64::MAX)).map_or(usize::MAX, |line| line.len() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::record::LedgerEvent;
    use crate::testing::{sale_fact, written};
    use countersign_model::sale::fact::{PlaceName, SoldItem};

    #[test]
    fn a_sale_is_canonical_json_and_reads_as_itself() {
        let fact = sale_fact(1, 5);
        let Fact::Payment(payment) = &fact else { panic!() };
        let item = SoldItem {
            item: Hex128([4; 16]),
            offer: None,
            price: payment.lines[0].price.clone(),
            product: payment.lines[0].product.clone(),
            quantity: 2,
        };
        let name = Some(PlaceName::Line {
            number: 0,
            payment: Hex128([5; 16]),
            price: item.price.clone(),
        });
        let whole = SaleEntry {
            sale: Hex128([1; 16]),
            names: vec![Hex128([2; 16])],
            places: BTreeMap::from([(Hex128([3; 16]), vec![SalePlace { item, name }])]),
            terms: vec![crate::testing::sold_terms(1)],
            facts: vec![fact],
            is_earlier: true,
            after: None,
            scope: Arc::new("shop:stripe".parse().unwrap()),
            time: DateTime::from_timestamp(7, 0).unwrap(),
        };
        let least = SaleEntry {
            facts: Vec::new(),
            names: Vec::new(),
            places: BTreeMap::new(),
            terms: Vec::new(),
            is_earlier: false,
            ..whole.clone()
        };
        for entry in [whole, least] {
            written(LedgerEvent::Sale(Arc::new(entry)));
        }
    }
}
