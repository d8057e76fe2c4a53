//! Deliveries of [shops](SHOPS), and exports of other systems. The crate has no I/O and no clock.
//!
//! [`shop`] declares what differs between shops. [`signature`] checks who sent a delivery. [`read`] parses it into one
//! [`event`] for all shops: facts, which `countersign_model::sale` keeps and turns into licenses; `json` reads fields. [`import`]
//! reads exports of other systems.
#![forbid(unsafe_code)]

pub mod event;
pub mod import;
mod json;
mod lemon_squeezy;
mod money;
mod paddle;
pub mod shop;
pub mod signature;
mod stripe;
#[cfg(test)]
mod testing;
mod woocommerce;

use std::str::FromStr;

use serde_json::Value;

use event::{Content, DeliveryError, MAX_DELIVERY, ShopDelivery};
use shop::{Shop, ShopQuestion};

/// Every shop.
pub const SHOPS: [&Shop; 4] = [
    &stripe::STRIPE,
    &paddle::PADDLE,
    &lemon_squeezy::LEMON_SQUEEZY,
    &woocommerce::WOOCOMMERCE,
];

/// The names of [`SHOPS`], as error messages list them.
pub const EXPECTED: &str = "expected \"stripe\", \"paddle\", \"lemonsqueezy\" or \"woocommerce\"";

/// Not the name of a shop.
#[derive(Debug, thiserror::Error)]
#[error("{EXPECTED}")]
pub struct UnknownShop;

impl FromStr for &'static Shop {
    type Err = UnknownShop;

    fn from_str(text: &str) -> Result<Self, UnknownShop> {
        SHOPS.into_iter().find(|shop| shop.name == text).ok_or(UnknownShop)
    }
}

/// Parses a delivery whose signature was checked.
///
/// # Errors
/// It is not a delivery of such a shop. What is one and concerns no license is no error, but [`event::Content::Ignore`].
pub fn read(shop: &Shop, body: &[u8]) -> Result<ShopDelivery, DeliveryError> {
    read_with(shop, body, Vec::new())
}

/// What to ask the shop before [`read_with`] reads a delivery. Nothing is asked for what is no delivery of such a shop.
pub fn questions(shop: &Shop, body: &[u8]) -> Vec<ShopQuestion> {
    let Some(api) = shop.api.as_ref().filter(|_| body.len() <= MAX_DELIVERY) else {
        return Vec::new();
    };
    let value = serde_json::from_slice(body);
    value.map_or_else(|_| Vec::new(), |value| (api.questions)(&value))
}

/// Parses a delivery as [`read`] does, with what the shop answered to [`questions`].
///
/// # Errors
/// As [`read`].
pub fn read_with(shop: &Shop, body: &[u8], answers: Vec<(ShopQuestion, Value)>) -> Result<ShopDelivery, DeliveryError> {
    if body.len() > MAX_DELIVERY {
        return Err(DeliveryError::TooLarge);
    }
    if signature::is_unsigned_ping(shop, body) {
        return Ok(ShopDelivery {
            event: "ping".to_owned(),
            id: None,
            mode: None,
            content: Content::ignore("it only says that the webhook is there"),
        });
    }
    let mut value: Value = serde_json::from_slice(body).map_err(|_| DeliveryError::NotJson)?;
    if !value.is_object() {
        return Err(DeliveryError::NotJson);
    }
    for (question, answer) in answers {
        json::put(&mut value, question.place, answer);
    }
    (shop.read)(&value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_delivery_is_refused_without_a_word_of_it() {
        for shop in SHOPS {
            assert_eq!(read(shop, b"{").unwrap_err(), DeliveryError::NotJson);
            assert_eq!(read(shop, b"[]").unwrap_err(), DeliveryError::NotJson);
            assert!(matches!(read(shop, b"{}"), Err(DeliveryError::Missing(_))));
            let large = vec![b' '; MAX_DELIVERY + 1];
            assert_eq!(read(shop, &large).unwrap_err(), DeliveryError::TooLarge);
            let deep = "[".repeat(100_000);
            assert_eq!(read(shop, deep.as_bytes()).unwrap_err(), DeliveryError::NotJson);
        }
        assert!("Stripe".parse::<&Shop>().is_err());
        let named: Vec<_> = EXPECTED.split('"').skip(1).step_by(2).collect();
        assert_eq!(named, SHOPS.map(|shop| shop.name));
    }
}
