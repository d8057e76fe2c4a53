//! The shops whose deliveries are understood.

use std::str::FromStr;

/// The shops whose deliveries are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ShopKind {
    /// stripe.com
    Stripe,
    /// Paddle Billing
    Paddle,
    /// lemonsqueezy.com
    LemonSqueezy,
    /// WooCommerce, with or without its subscriptions.
    WooCommerce,
}

impl ShopKind {
    /// The header of a delivery that has its signature.
    pub fn signature_header(self) -> &'static str {
        match self {
            Self::Stripe => "Stripe-Signature",
            Self::Paddle => "Paddle-Signature",
            Self::LemonSqueezy => "X-Signature",
            Self::WooCommerce => "X-WC-Webhook-Signature",
        }
    }
}

/// Not the name of a shop's software.
#[derive(Debug, thiserror::Error)]
#[error("expected stripe, paddle, lemonsqueezy or woocommerce")]
pub struct UnknownShopKind;

impl FromStr for ShopKind {
    type Err = UnknownShopKind;

    fn from_str(text: &str) -> Result<Self, UnknownShopKind> {
        match text {
            "stripe" => Ok(Self::Stripe),
            "paddle" => Ok(Self::Paddle),
            "lemonsqueezy" => Ok(Self::LemonSqueezy),
            "woocommerce" => Ok(Self::WooCommerce),
            _ => Err(UnknownShopKind),
        }
    }
}
