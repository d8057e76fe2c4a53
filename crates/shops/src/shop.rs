//! [`Shop`] declares all that differs between shops. Each shop has a file, and a line in [`SHOPS`](crate::SHOPS).

use chrono::TimeDelta;
use serde_json::Value;

use crate::event::{DeliveryError, ShopDelivery};

/// A shop whose deliveries are understood.
#[derive(Debug)]
pub struct Shop {
    /// Its kind in the settings. A shop in the settings that has this name needs no kind.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// The header with the signature of a delivery.
    pub signature_header: &'static str,
    /// How the header spells the signature.
    pub signature_scheme: SignatureScheme,
    /// Recognizes the request by which this shop tests the address: unsigned, without content; it expects the status 200.
    pub is_ping: Option<fn(&[u8]) -> bool>,
    /// Whether it can make the license keys of its sales, so that `keys = "shop"` may be set.
    pub makes_keys: bool,
    /// How it numbers its objects.
    pub ids: ObjectIds,
    /// How to ask it for what its deliveries lack. `None`: they lack nothing.
    pub api: Option<ShopApi>,
    /// Reads a delivery: a JSON object whose signature was checked.
    pub(crate) read: fn(&Value) -> Result<ShopDelivery, DeliveryError>,
}

/// How a shop numbers its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectIds {
    /// Texts. Those of subscriptions begin with `sub_`.
    Text,
    /// Numbers. Objects of several kinds have the same ones, so facts name the kind, too.
    Number,
}

/// Not an id of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotASubscription {
    /// It does not begin with `sub_`.
    #[error("expected the id of a subscription, such as sub_1MowQVLkdIwHu7ix")]
    Text,
    /// It is no number.
    #[error("expected the number of a subscription, such as 1207")]
    Number,
}

impl ObjectIds {
    /// What facts may name an object, by the id that the shop shows.
    pub fn names(self, id: &str) -> Vec<String> {
        match self {
            Self::Text => vec![id.to_owned()],
            Self::Number => KINDS.iter().map(|kind| format!("{kind}{id}")).collect(),
        }
    }

    /// What facts name the subscription, by the id that the shop shows.
    ///
    /// # Errors
    /// It is no such id.
    pub fn subscription(self, id: &str) -> Result<String, NotASubscription> {
        let is_word = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        match self {
            Self::Text if id.strip_prefix("sub_").is_some_and(is_word) => Ok(id.to_owned()),
            Self::Text => Err(NotASubscription::Text),
            Self::Number if !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()) => Ok(numbered(id)),
            Self::Number => Err(NotASubscription::Number),
        }
    }

    /// The id of a subscription that the shop shows, by the name in facts.
    pub fn subscription_id(self, name: &str) -> &str {
        match self {
            Self::Text => name,
            Self::Number => name.strip_prefix(NUMBERED).unwrap_or(name),
        }
    }
}

/// What precedes a number in the name of a subscription.
const NUMBERED: &str = "subscription:";

/// What precedes a number in the name of an object that a sale is known by.
const KINDS: [&str; 3] = ["order:", NUMBERED, "invoice:"];

/// The name of a subscription whose id is a number.
pub(crate) fn numbered(id: impl std::fmt::Display) -> String {
    format!("{NUMBERED}{id}")
}

/// How the header of a delivery spells the HMAC-SHA256.
#[derive(Clone, Copy, Debug)]
pub enum SignatureScheme {
    /// Of a time and the body, such as `t=1,v1=ab,v1=cd`: hexadecimal, with fields that are ignored, such as Stripe's `v0`.
    Timed {
        /// Between two fields.
        separator: char,
        /// The name of the field with the time, in seconds since 1970.
        time: &'static str,
        /// The name of each field with a signature.
        signature: &'static str,
        /// Between the time and the body, where they are signed.
        joint: char,
        /// How far the time may be from ours.
        window: TimeDelta,
    },
    /// Of the body: hexadecimal. Such a delivery can be replayed.
    Hex,
    /// Of the body: base64. Such a delivery can be replayed.
    Base64,
}

/// How to ask a shop for what its deliveries lack. The API key is the bearer token.
#[derive(Debug)]
pub struct ShopApi {
    /// The address of the API for live sales, with a slash at its end.
    pub live: &'static str,
    /// The address of the API for the test mode.
    pub test: &'static str,
    /// The header that asks for the version of the API which the readers know.
    pub version: Option<(&'static str, &'static str)>,
    /// What the API key must be allowed to read, as messages name it.
    pub reads: &'static str,
    /// What is not known without an API key, as messages say it.
    pub without: &'static str,
    /// Codes in `error.code` of an answer 404 that say that there is no such object. A proxy's 404 has none.
    pub not_found: &'static [&'static str],
    /// How to ask for a buyer's address. `None`: deliveries have the address.
    pub customer: Option<CustomerQuestion>,
    /// What is asked before a delivery is read.
    pub(crate) questions: fn(&Value) -> Vec<ShopQuestion>,
}

/// How to ask a shop for the address of a customer.
#[derive(Debug)]
pub struct CustomerQuestion {
    /// The path of the question below the API's address.
    pub path: fn(id: &str) -> Option<String>,
    /// Reads the address of the customer with this id out of the answer.
    pub read: fn(id: &str, answer: &Value) -> Result<Option<String>, NotACustomer>,
}

/// A question to a shop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShopQuestion {
    /// Path and query below the API's address.
    pub path: String,
    /// Where the answer belongs in the delivery, such as `data.object.lines`.
    pub place: &'static str,
}

/// The answer is not about this customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotACustomer;

impl PartialEq for Shop {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Shop {}

impl serde::Serialize for Shop {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}
