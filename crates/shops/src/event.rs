//! What a delivery says, in the same words for every shop.
//!
//! A license is found by names: the shop's ids of orders, payments and subscriptions. One that is older than what is known of
//! its object is to be ignored, because shops deliver in any order and more than once.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::ser::{Serialize, SerializeStruct as _, Serializer};

use countersign_model::foreign_key::ForeignKeyError;
use countersign_model::license_key::LicenseId;
use countersign_model::offer::{SalesMode, ShopId};

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
    /// When the object changed, by the shop's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<DateTime<Utc>>,
    /// What is to be done.
    #[serde(flatten)]
    pub action: ShopAction,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum ShopAction {
    /// Something was sold. A second sale with one of the same names is the same sale.
    Issue(Sale),
    /// A further period was paid.
    Renew(Sale),
    /// A subscription has other items, or another end where the sale has one.
    Change(Sale),
    /// The money went back.
    Revoke(Subject),
    /// The money is disputed, or a subscription is paused or unpaid.
    Suspend(Subject),
    /// The dispute was won, or the subscription goes on.
    Resume(Subject),
    /// Nothing more is paid: the license ends on its last day.
    LetExpire(Subject),
    /// The shop made a key for a sale, and mails it.
    Key(ShopKey),
    /// Nothing changes, but the names belong together.
    Record(Subject),
    /// It cannot be decided by a machine.
    Park(Subject),
    /// No license depends on it.
    Ignore {
        /// Why.
        reason: &'static str,
    },
}

/// What was sold, to whom, and until when it is paid.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Sale {
    /// The shop's ids by which later deliveries may name it. The first one is what it is filed under.
    pub names: Vec<String>,
    /// What was sold.
    pub lines: Vec<SoldLine>,
    /// The end of the paid period; `None` for what is paid once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<DateTime<Utc>>,
    /// Who bought it.
    #[serde(skip)]
    pub buyer: Buyer,
}

/// One line of a sale.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct SoldLine {
    /// The price or variant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<ShopId>,
    /// The product.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product: Option<ShopId>,
    /// The name of an offer that the vendor put into the sale's metadata.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offer: Option<String>,
    /// How many; at least 1.
    pub quantity: u32,
}

/// A key that the shop made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShopKey {
    /// The shop's ids of the sale that it is for.
    pub names: Vec<String>,
    /// The license of the key, or why it cannot be one.
    // SECURITY: the key itself is not kept here. It stays in the file of the delivery until that is applied or dropped.
    pub license: Result<LicenseId, ForeignKeyError>,
}

impl Serialize for ShopKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("ShopKey", 2)?;
        object.serialize_field("names", &self.names)?;
        match &self.license {
            Ok(license) => object.serialize_field("license", license)?,
            Err(reason) => object.serialize_field("reason", &reason.to_string())?,
        }
        object.end()
    }
}

/// Which sale it is about, and why.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Subject {
    /// The shop's ids that it names.
    pub names: Vec<String>,
    /// Why.
    pub reason: &'static str,
    /// What a suspension, a resumption or a revocation is about.
    #[serde(skip)]
    pub cause: StatusCause,
}

/// Why a sale is suspended, goes on or is revoked. Each cause ends by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatusCause {
    /// The state of a subscription; of a revocation, that the money went back.
    #[default]
    Own,
    /// A buyer's bank disputes the payment.
    Dispute,
    /// Money that went back came again.
    Refund,
}

/// Who bought.
// SECURITY: personal. It is serialized nowhere, and `Debug` does not show the address.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Buyer {
    /// The mail address, if the delivery has it.
    pub address: Option<String>,
    /// The shop's id of the customer.
    pub customer: Option<String>,
}

impl fmt::Debug for Buyer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Buyer(redacted)")
    }
}

impl Subject {
    /// Without a cause of its own.
    pub(super) fn new(names: Vec<String>, reason: &'static str) -> Self {
        Self {
            names,
            reason,
            cause: StatusCause::Own,
        }
    }

    /// With this cause.
    pub(super) fn of(self, cause: StatusCause) -> Self {
        Self { cause, ..self }
    }
}

impl ShopAction {
    /// What was sold, if something was.
    pub fn sale(&self) -> Option<&Sale> {
        match self {
            Self::Issue(sale) | Self::Renew(sale) | Self::Change(sale) => Some(sale),
            _ => None,
        }
    }

    /// The shop's ids that it names.
    pub fn names(&self) -> &[String] {
        match self {
            Self::Issue(sale) | Self::Renew(sale) | Self::Change(sale) => &sale.names,
            Self::Revoke(subject)
            | Self::Suspend(subject)
            | Self::Resume(subject)
            | Self::LetExpire(subject)
            | Self::Record(subject)
            | Self::Park(subject) => &subject.names,
            Self::Key(key) => &key.names,
            Self::Ignore { .. } => &[],
        }
    }
}
