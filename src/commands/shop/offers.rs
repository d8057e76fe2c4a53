//! `countersign shop offers`: lists the offers of the registry, and warns of probable mistakes: a module that no plugin has, or a shop
//! without a table. `doctor` gives the same warnings.

use crate::build::counted;
use crate::commands::output::{self, Table};
use crate::commands::{Exit, Failure};
use countersign_model::license::{Modules, SiteLimit, module_list};
use countersign_model::offer::{Offer, QuantityMeaning, SalesMode, ShopId};
use countersign_model::slug::Slug;
use countersign_model::text::did_you_mean;
use countersign_model::text::stderr;
use countersign_registry::offers::Offers;
use countersign_registry::{Registry, SoldModules};
use countersign_settings::config::{Config, ShopConfig};
use serde::Serialize;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// An offer as it is printed.
#[derive(Serialize)]
struct ListedOffer<'a> {
    name: &'a Slug,
    shop: &'a Slug,
    mode: SalesMode,
    products: &'a [ShopId],
    prices: &'a [ShopId],
    modules: &'a Modules,
    /// A number, or `unlimited`.
    sites: serde_json::Value,
    /// Absent: the server's setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    staging_sites: Option<u16>,
    /// The same.
    #[serde(skip_serializing_if = "Option::is_none")]
    site_moves: Option<u16>,
    /// `1y`, or `lifetime`.
    period: String,
    quantity: QuantityMeaning,
    file: String,
}

/// Reads the offers and prints them, and warns of probable mistakes.
pub(super) fn run(args: &Args, config: &Config) -> Result<Exit, Failure> {
    let offers = Registry::load_offers(&config.paths.registry)?;
    let sold = SoldModules::load(&config.paths.registry);
    for warning in offer_warnings(&offers, &sold, &config.shops) {
        stderr::line(format_args!("warning: {}\nhint: {}", warning.text, warning.hint));
    }
    let listed: Vec<ListedOffer<'_>> = offers
        .all()
        .iter()
        .map(|(offer, file)| listed(offer, output::path_text(file)))
        .collect();
    output::print(&if args.json {
        output::json(&listed)?
    } else {
        text(&listed)
    })
}

fn listed(offer: &Offer, file: String) -> ListedOffer<'_> {
    ListedOffer {
        name: &offer.name,
        shop: &offer.shop,
        mode: offer.mode,
        products: &offer.products,
        prices: &offer.prices,
        modules: &offer.modules,
        sites: match offer.sites {
            SiteLimit::Limited(limit) => limit.get().into(),
            SiteLimit::Unlimited => "unlimited".into(),
        },
        staging_sites: offer.staging_sites,
        site_moves: offer.site_moves,
        period: offer.lasts.to_string(),
        quantity: offer.quantity,
        file,
    }
}

fn text(listed: &[ListedOffer<'_>]) -> String {
    if listed.is_empty() {
        return "There are no offers in registry/offers/.\n".to_owned();
    }
    let mut table = Table::new([
        "OFFER", "SHOP", "MODE", "SOLD AS", "SITES", "PERIOD", "QUANTITY", "MODULES",
    ]);
    for offer in listed {
        let sold: Vec<_> = offer.products.iter().chain(offer.prices).map(ShopId::as_str).collect();
        let sites = offer
            .sites
            .as_str()
            .map_or_else(|| offer.sites.to_string(), str::to_owned);
        table.row([
            offer.name,
            offer.shop,
            &offer.mode.as_str(),
            &sold.join(" "),
            &sites,
            &offer.period,
            &offer.quantity.as_str(),
            &module_list(offer.modules),
        ]);
    }
    table.to_string()
}

/// A probable mistake, and what to do about it.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::commands) struct OfferWarning {
    pub text: String,
    pub hint: &'static str,
}

/// The probable mistakes, in the order of the offers.
pub(in crate::commands) fn offer_warnings(
    offers: &Offers,
    sold: &SoldModules,
    shops: &[ShopConfig],
) -> Vec<OfferWarning> {
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
