//! Names of deliveries.

use countersign_model::digest::Digest;
use countersign_model::slug::Slug;

/// The digest of a shop and a body, in 32 hex digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryName(String);

impl DeliveryName {
    /// The name of this delivery.
    pub fn of(shop: &Slug, body: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(shop.as_str().len() + 1 + body.len());
        bytes.extend_from_slice(shop.as_str().as_bytes());
        bytes.push(b'\n');
        bytes.extend_from_slice(body);
        Self(const_hex::encode(&Digest::of(&bytes).as_bytes()[..16]))
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for DeliveryName {
    type Err = NotADelivery;

    fn from_str(text: &str) -> Result<Self, NotADelivery> {
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_name = text.len() == 32 && text.bytes().all(is_hex);
        is_name.then(|| Self(text.to_owned())).ok_or(NotADelivery)
    }
}

/// The text is not the name of a delivery.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("expected 32 lower-case hex digits, as `countersign shop parked list` shows them")]
pub struct NotADelivery;

impl std::fmt::Display for DeliveryName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&self.0)
    }
}
