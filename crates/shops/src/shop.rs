//! What differs between shops: [`Shop`]. One file has one shop, and [`SHOPS`](crate::SHOPS) has a line for each.

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
    /// The header of a delivery that has its signature.
    pub signature_header: &'static str,
    /// How the header spells the signature.
    pub signature_scheme: SignatureScheme,
    /// Recognizes a request that this shop does not sign, that has no content and wants the status 200.
    pub is_ping: Option<fn(&[u8]) -> bool>,
    /// Whether it can make the license keys of its sales, so that `keys = "shop"` may be set.
    pub makes_keys: bool,
    /// Where it is asked for the addresses of buyers. A shop whose deliveries have them is not asked.
    pub customer_api: Option<CustomerApi>,
    /// Reads a delivery, which is a JSON object and whose signature was checked.
    pub(crate) read: fn(&Value) -> Result<ShopDelivery, DeliveryError>,
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

/// How a shop is asked for the address of a customer, with an API key as the bearer.
#[derive(Debug)]
pub struct CustomerApi {
    /// The address of the API for live sales.
    pub live: &'static str,
    /// The address of the API for the test mode.
    pub test: &'static str,
    /// The path of the customers below the address, without slashes at its ends. The path of one ends with the id.
    pub path: &'static str,
    /// Reads the address out of an answer.
    pub read: CustomerReader,
}

/// Reads the status and the body of an answer about the customer with this id; `Ok(None)` if there is no such customer.
pub type CustomerReader = fn(id: &str, status: u16, body: &[u8]) -> Result<Option<String>, NotACustomer>;

/// An answer that neither is a customer nor says that there is no such customer.
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
