//! Pages of the vendor's shop as settings: where licenses are renewed and upgraded.

use toml::Value;

use crate::config::value::Setting;
use countersign_model::shop_link::ShopLink;

/// The setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShopPage {
    /// None.
    Unset,
    /// This address.
    At(ShopLink),
}

impl Setting for ShopPage {
    const EXPECTED: &'static str = "expected an https address, with at most one {token} behind the host, such as https://shop.example/renew?license={token}";

    fn from_text(text: &str) -> Option<Self> {
        // An empty text means none, so that a flag or a variable can remove the setting of the file.
        match text.is_empty() {
            true => Some(Self::Unset),
            false => text.parse().ok().map(Self::At),
        }
    }

    fn from_value(value: &Value) -> Option<Self> {
        Self::from_text(value.as_str()?)
    }
}

impl ShopPage {
    /// The address, if there is one.
    pub fn link(self) -> Option<ShopLink> {
        match self {
            Self::Unset => None,
            Self::At(link) => Some(link),
        }
    }
}
