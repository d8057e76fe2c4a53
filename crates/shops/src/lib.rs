//! Deliveries of shops: Stripe, Paddle Billing, Lemon Squeezy and WooCommerce. Pure: no I/O and no clock.
//!
//! [`signature`] checks who sent a delivery. [`read`] parses it into one [`event`] for all shops, by one file a shop; `json`
//! reads fields. [`grant`] says which licenses a sale grants. [`import`] reads exports of other
//! systems.
#![forbid(unsafe_code)]

pub mod event;
pub mod grant;
pub mod import;
mod json;
mod lemon_squeezy;
mod paddle;
pub mod signature;
mod stripe;
mod woocommerce;

use serde_json::Value;

use countersign_model::shop_kind::ShopKind;

use event::{DeliveryError, MAX_DELIVERY, ShopDelivery};

/// Parses a delivery whose signature was checked.
///
/// # Errors
/// It is not a delivery of such a shop. What is one and concerns no license is no error, but [`event::ShopAction::Ignore`].
pub fn read(kind: ShopKind, body: &[u8]) -> Result<ShopDelivery, DeliveryError> {
    if body.len() > MAX_DELIVERY {
        return Err(DeliveryError::TooLarge);
    }
    if kind == ShopKind::WooCommerce && woocommerce::is_ping(body) {
        return Ok(woocommerce::ping());
    }
    let value: Value = serde_json::from_slice(body).map_err(|_| DeliveryError::NotJson)?;
    if !value.is_object() {
        return Err(DeliveryError::NotJson);
    }
    match kind {
        ShopKind::Stripe => stripe::read(&value),
        ShopKind::Paddle => paddle::read(&value),
        ShopKind::LemonSqueezy => lemon_squeezy::read(&value),
        ShopKind::WooCommerce => woocommerce::read(&value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_delivery_is_refused_without_a_word_of_it() {
        let kinds = ["stripe", "paddle", "lemonsqueezy", "woocommerce"].map(|kind| kind.parse::<ShopKind>().unwrap());
        for kind in kinds {
            assert_eq!(read(kind, b"{").unwrap_err(), DeliveryError::NotJson);
            assert_eq!(read(kind, b"[]").unwrap_err(), DeliveryError::NotJson);
            assert!(matches!(read(kind, b"{}"), Err(DeliveryError::Missing(_))));
            let large = vec![b' '; MAX_DELIVERY + 1];
            assert_eq!(read(kind, &large).unwrap_err(), DeliveryError::TooLarge);
            let deep = "[".repeat(100_000);
            assert_eq!(read(kind, deep.as_bytes()).unwrap_err(), DeliveryError::NotJson);
        }
        assert!("Stripe".parse::<ShopKind>().is_err());
    }
}
