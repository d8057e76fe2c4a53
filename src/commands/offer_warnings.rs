//! What in offers is probably a mistake, for `doctor` and `shop offers`: a module that no plugin has, or a shop without a table.

use crate::build::counted;
use countersign_model::offer::Offer;
use countersign_model::text::did_you_mean;
use countersign_registry::SoldModules;
use countersign_registry::offers::Offers;
use countersign_settings::config::ShopConfig;

/// A probable mistake, and what to do about it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OfferWarning {
    pub text: String,
    pub hint: &'static str,
}

/// The probable mistakes, in the order of the offers.
pub(super) fn offer_warnings(offers: &Offers, sold: &SoldModules, shops: &[ShopConfig]) -> Vec<OfferWarning> {
    let of_offer = |(offer, _): &(Offer, _)| {
        let modules = unsold_modules(offer, sold);
        unknown_shop(offer, shops)
            .into_iter()
            .chain(modules)
            .collect::<Vec<_>>()
    };
    offers.all().iter().flat_map(of_offer).collect()
}

fn unknown_shop(Offer { name, shop, .. }: &Offer, shops: &[ShopConfig]) -> Option<OfferWarning> {
    if shops.iter().any(|known| known.name == *shop) {
        return None;
    }
    let meant = did_you_mean(shop.as_str(), shops.iter().map(|known| known.name.as_str()));
    Some(OfferWarning {
        text: format!(
            "offer {name} is for the shop \"{shop}\", but countersign.toml has no table [shops.{shop}]{meant}"
        ),
        hint: "correct `shop` in the offer, or add the table: docs/shops.md",
    })
}

fn unsold_modules(offer: &Offer, sold: &SoldModules) -> Vec<OfferWarning> {
    let unread = match sold.unread() {
        0 => String::new(),
        unread => format!("; {} cannot be read", counted(unread, "plugin file")),
    };
    let warning = |module| OfferWarning {
        text: format!(
            "offer {} grants the module \"{module}\", but no plugin belongs to it{}{unread}",
            offer.name,
            sold.did_you_mean(module)
        ),
        hint: "if the module is meant to have no plugin, ignore this; otherwise correct its name",
    };
    sold.unsold(&offer.modules).into_iter().map(warning).collect()
}
