//! What a delivery says, in the same words for every shop.
//!
//! A delivery is turned into facts about objects of the shop. What they grant does not depend on their order, because shops
//! deliver in any order and more than once.

use std::collections::BTreeMap;
use std::fmt;

use countersign_model::foreign_key::ForeignKeyError;
use countersign_model::language::Language;
use countersign_model::offer::{SalesMode, ShopId};
use countersign_model::renewal_token::{NotARenewalToken, RenewalToken};
use countersign_model::sale::fact::Fact;

/// Size limit of a delivery in bytes. Orders of shops have some kilobytes.
pub const MAX_DELIVERY: usize = 1 << 20;

/// Why a delivery is not one. Nothing of it is quoted: it has addresses of buyers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeliveryError {
    /// It is larger than [`MAX_DELIVERY`].
    #[error("the delivery is larger than {MAX_DELIVERY} bytes")]
    TooLarge,
    /// It is not JSON, or not an object.
    #[error("the delivery is not a JSON object")]
    NotJson,
    /// It is not what this shop sends.
    #[error("the delivery is not one of this shop: it has no {0:?}")]
    Missing(&'static str),
}

/// A delivery.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct ShopDelivery {
    /// The shop's word for the event; for WooCommerce, which signs none, the kind and state of the object.
    pub event: String,
    /// The shop's id of the event, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Live or test; `None` if the shop does not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<SalesMode>,
    /// What it says.
    #[serde(flatten)]
    pub content: Content,
}

/// What a delivery says.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Content {
    /// Facts of one sale.
    Record(ReportedSale),
    /// A person has to decide. Nothing of it is recorded.
    Park {
        /// The shop's ids that it names.
        names: Vec<String>,
        /// Why.
        reason: &'static str,
    },
    /// No license depends on it.
    Ignore {
        /// Why.
        reason: &'static str,
    },
}

/// Facts of one sale, and whom they are about.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct ReportedSale {
    /// The facts. Ids are the shop's own, with the kind of object before them where ids of two kinds may be equal.
    pub facts: Vec<Fact<String>>,
    /// Whether it pays a later period of a subscription, so that one that nobody knows was sold elsewhere.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_renewal: bool,
    /// The shop's id of the order, as a person knows it.
    #[serde(skip)]
    pub order: Option<String>,
    /// What was to be paid, with the currency, as a person reads it.
    #[serde(skip)]
    pub amount: Option<String>,
    /// Who bought it.
    #[serde(skip)]
    pub buyer: Buyer,
    /// What the shop calls things that were sold, by price. For mails alone.
    #[serde(skip)]
    pub words: BTreeMap<ShopId, Box<str>>,
    /// The renewal token of the license that all of it was bought for, as the buyer's link had it.
    #[serde(skip)]
    pub bought_for: Option<Result<RenewalToken, NotARenewalToken>>,
    /// Why the shop's key, which this delivery is about, cannot be a license.
    #[serde(skip)]
    pub bad_key: Option<ForeignKeyError>,
}

/// Who bought.
// SECURITY: personal. It is serialized nowhere, and `Debug` does not show the address.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Buyer {
    /// The mail address, if the delivery has it.
    pub address: Option<String>,
    /// The name, if the delivery has it.
    pub name: Option<String>,
    /// The shop's id of the customer.
    pub customer: Option<String>,
    /// The language, if the delivery has it.
    pub language: Option<Language>,
}

impl fmt::Debug for Buyer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Buyer(redacted)")
    }
}

impl Content {
    /// A delivery that names these ids, and that a person has to decide about.
    pub(crate) fn park(names: Vec<String>, reason: &'static str) -> Self {
        Self::Park { names, reason }
    }

    /// A delivery that no license depends on.
    pub(crate) fn ignore(reason: &'static str) -> Self {
        Self::Ignore { reason }
    }

    /// Facts without a buyer.
    pub(crate) fn facts(facts: impl IntoIterator<Item = Fact<String>>) -> Self {
        Self::Record(ReportedSale {
            facts: facts.into_iter().collect(),
            ..ReportedSale::default()
        })
    }

    /// Adds the renewal token of the license that it was bought for.
    pub(crate) fn bought_for(self, token: Option<Result<RenewalToken, NotARenewalToken>>) -> Self {
        match self {
            Self::Record(record) => Self::Record(ReportedSale {
                bought_for: token,
                ..record
            }),
            other => other,
        }
    }

    /// Adds the language of the buyer, if the shop says none.
    pub(crate) fn in_language(mut self, language: Option<Language>) -> Self {
        if let Self::Record(record) = &mut self {
            let known = record.buyer.language.take();
            record.buyer.language = known.or(language);
        }
        self
    }

    /// Its facts; none if it is to be parked or ignored.
    pub fn record(&self) -> Option<&ReportedSale> {
        match self {
            Self::Record(record) => Some(record),
            Self::Park { .. } | Self::Ignore { .. } => None,
        }
    }
}
