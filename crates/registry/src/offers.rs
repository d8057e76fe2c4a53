//! Offers: `registry/offers/<name>.toml`, what a shop's product or price grants, one offer a file.
//!
//! The folder may be missing. No two offers of a shop and a mode have the same product or price.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use countersign_model::license::{Modules, SiteLimit};
use countersign_model::license_key::LicenseKey;
use countersign_model::offer::{LicenseTerm, NoOffer, Offer, QuantityMeaning, SalesMode, ShopId};
use countersign_model::period::Period;
use countersign_model::sale::fact::SoldAs;
use countersign_model::sale::facts::SaleFacts;
use countersign_model::sale::terms::DEFAULT_GRACE_DAYS;
use countersign_model::shop_link::{NotAShopLink, ShopLink, ShopLinks};
use countersign_model::slug::Slug;

use crate::error::{Diagnostic, RegistryError};
use crate::files::{DirEntry, RegistryFiles};
use crate::license::{limit, modules, sites};
use crate::reader::DocumentReader;
use crate::spanned::SpannedTable;

const FIELDS: &[&str] = &[
    "shop",
    "mode",
    "products",
    "prices",
    "modules",
    "sites",
    "staging_sites",
    "site_moves",
    "period",
    "quantity",
    "grace",
    "grants",
    "renew_url",
    "upgrade_url",
];

/// The longest grace: a payment is tried again for two months at most.
const MAX_GRACE_DAYS: u16 = 60;

/// All offers.
#[derive(Clone, Debug, Default)]
pub struct Offers {
    /// In the order of their names, with their files.
    offers: Vec<(Offer, PathBuf)>,
    /// Offers by what is sold.
    by_id: HashMap<SoldThing, usize>,
}

/// What a shop sells.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SoldThing {
    shop: Slug,
    mode: SalesMode,
    is_price: bool,
    id: ShopId,
}

impl Offers {
    /// Reads every offer; all diagnostics if there are any.
    pub(super) fn load(files: &RegistryFiles) -> Result<(Self, Vec<Diagnostic>), RegistryError> {
        let listed = match files.list("offers") {
            Err(RegistryError::NoFolder { .. }) => Vec::new(),
            listed => listed?,
        };
        let mut all = Self::default();
        let mut diagnostics = Vec::new();
        for listed in &listed {
            all.read(files, listed, &mut diagnostics);
        }
        Ok((all, diagnostics))
    }

    fn read(&mut self, files: &RegistryFiles, listed: &DirEntry, diagnostics: &mut Vec<Diagnostic>) {
        let name = listed
            .name
            .strip_suffix(".toml")
            .and_then(|stem| stem.parse::<Slug>().ok());
        let Some(name) = name else {
            diagnostics.push(Diagnostic::of_file(
                &listed.file,
                "not an offer: its name must be <name>.toml, where a name has 1 to 64 of a-z, 0-9 and '-'",
            ));
            return;
        };
        let text = match files.text(listed) {
            Ok(text) => text,
            Err(diagnostic) => return diagnostics.push(diagnostic),
        };
        let (mut reader, table) = DocumentReader::toml(&listed.file, &text);
        let offer = table.as_ref().and_then(|table| {
            let offer = offer(&mut reader, table, name)?;
            self.enter(&mut reader, table, &offer);
            Some(offer)
        });
        match offer {
            Some(offer) if reader.complained() == 0 => self.offers.push((offer, listed.file.clone())),
            _ => diagnostics.extend(reader.diagnostics()),
        }
    }

    /// Notes what is sold by the offer that is read next.
    fn enter(&mut self, reader: &mut DocumentReader<'_>, table: &SpannedTable<'_>, offer: &Offer) {
        let number = self.offers.len();
        for (field, ids, is_price) in [("products", &offer.products, false), ("prices", &offer.prices, true)] {
            for id in ids {
                let thing = SoldThing {
                    shop: offer.shop.clone(),
                    mode: offer.mode,
                    is_price,
                    id: id.clone(),
                };
                let other = self.by_id.insert(thing, number);
                if let Some((other, _)) = other.and_then(|other| self.offers.get(other)) {
                    let at = table.fields.get(field).map_or(0, |field| field.node.at);
                    reader.complain(
                        at,
                        format!("{field:?} has {id:?}, which the offer {} has, too", other.name),
                    );
                }
            }
        }
    }

    /// All offers with their files, in the order of their names.
    pub fn all(&self) -> &[(Offer, PathBuf)] {
        &self.offers
    }

    /// The offer of a price, or else of its product.
    pub fn find(
        &self,
        shop: &Slug,
        mode: SalesMode,
        price: Option<&ShopId>,
        product: Option<&ShopId>,
    ) -> Option<&Offer> {
        let of = |id: Option<&ShopId>, is_price| {
            let thing = SoldThing {
                shop: shop.clone(),
                mode,
                is_price,
                id: id?.clone(),
            };
            self.by_id.get(&thing)
        };
        let number = of(price, true).or_else(|| of(product, false))?;
        self.offers.get(*number).map(|(offer, _)| offer)
    }

    /// The offer of a line of a sale: that of its price or product, or else the one that it names.
    ///
    /// # Errors
    /// There is none.
    pub fn of_line(
        &self,
        shop: &Slug,
        mode: SalesMode,
        named: Option<&str>,
        price: Option<&ShopId>,
        product: Option<&ShopId>,
    ) -> Result<&Offer, NoOffer> {
        // SECURITY: what was paid for goes first, no matter who wrote the name.
        if let Some(offer) = self.find(shop, mode, price, product) {
            return Ok(offer);
        }
        let name = named.ok_or(NoOffer::Unsold)?;
        let found = self.named(name)?;
        let name = || found.name.clone();
        match found {
            Offer { shop: of, .. } if of != shop => Err(NoOffer::OtherShop {
                name: name(),
                shop: of.clone(),
            }),
            Offer { mode: of, .. } if *of != mode => Err(NoOffer::OtherMode {
                name: name(),
                mode: *of,
            }),
            _ => Ok(found),
        }
    }

    /// The offers that the prices of a sale have today: each the one that sells it now, or else the one that sold it. None if nothing
    /// says whether the sale is a test.
    pub fn of_sale<I: Ord + Clone>(&self, shop: &Slug, facts: &SaleFacts<I>) -> BTreeMap<ShopId, &Offer> {
        let Some(mode) = self.mode_of(shop, facts) else {
            return BTreeMap::new();
        };
        let mut offers = BTreeMap::new();
        for SoldAs { offer, price, product } in facts.sold() {
            let named = offer.map(ShopId::as_str);
            if let Ok(offer) = self.of_line(shop, mode, named, Some(price), Some(product)) {
                offers.entry(price.clone()).or_insert(offer);
            }
        }
        for ((_, price), terms) in facts.terms() {
            if let Some(offer) = self.of_shop(shop, &terms.offer) {
                offers.entry(price.clone()).or_insert(offer);
            }
        }
        offers
    }

    /// The mode of a sale: that of the offers that sold it; or else the only one whose offers sell it now.
    pub fn mode_of<I: Ord + Clone>(&self, shop: &Slug, facts: &SaleFacts<I>) -> Option<SalesMode> {
        let mut sold_by = facts.terms().values();
        if let Some(offer) = sold_by.find_map(|terms| self.of_shop(shop, &terms.offer)) {
            return Some(offer.mode);
        }
        let sells = |mode| {
            facts.sold().any(|SoldAs { offer, price, product }| {
                let named = offer.map(ShopId::as_str);
                self.of_line(shop, mode, named, Some(price), Some(product)).is_ok()
            })
        };
        match (sells(SalesMode::Live), sells(SalesMode::Test)) {
            (true, false) => Some(SalesMode::Live),
            (false, true) => Some(SalesMode::Test),
            _ => None,
        }
    }

    fn of_shop(&self, shop: &Slug, name: &Slug) -> Option<&Offer> {
        let mut offers = self.offers.iter().map(|(offer, _)| offer);
        offers.find(|offer| offer.name == *name && offer.shop == *shop)
    }

    /// The offer with that name.
    ///
    /// # Errors
    /// There is none, or the text cannot be a name.
    pub fn named(&self, name: &str) -> Result<&Offer, NoOffer> {
        let mut offers = self.offers.iter().map(|(offer, _)| offer);
        if let Some(found) = offers.find(|offer| offer.name.as_str() == name) {
            return Ok(found);
        }
        let is_key = LicenseKey::is_in(name);
        let name = name.parse().ok().filter(|_| !is_key).ok_or(NoOffer::NoName)?;
        Err(NoOffer::Unknown(name))
    }
}

/// The offer of a table; valid only if the reader has no diagnostics afterwards.
fn offer(reader: &mut DocumentReader<'_>, table: &SpannedTable<'_>, name: Slug) -> Option<Offer> {
    reader.only(table, FIELDS);
    reader.without_keys(table);
    let nothing = choice(reader, table, "grants", &[("nothing", true)]);
    let is_nothing = nothing.unwrap_or(false);
    let required: &[&str] = if is_nothing {
        &["shop"]
    } else {
        &["shop", "modules", "period"]
    };
    for required in required {
        reader.require(table, required);
    }
    if !["products", "prices"]
        .iter()
        .any(|name| table.fields.contains_key(*name))
    {
        reader.complain(table.at, "missing field \"products\" or \"prices\"");
    }
    let shop = reader.parsed(table, "shop");
    let mode = choice(
        reader,
        table,
        "mode",
        &[("live", SalesMode::Live), ("test", SalesMode::Test)],
    );
    let quantity = choice(
        reader,
        table,
        "quantity",
        &[
            ("sites", QuantityMeaning::Sites),
            ("licenses", QuantityMeaning::Licenses),
        ],
    );
    let products = ids(reader, table, "products");
    let prices = ids(reader, table, "prices");
    let modules = match is_nothing {
        true => Modules::new(),
        false => modules(reader, table),
    };
    if is_nothing && let Some(field) = ["modules", "period"].iter().find_map(|name| table.fields.get(*name)) {
        reader.complain(
            field.node.at,
            "an offer that grants nothing has neither \"modules\" nor \"period\"".to_owned(),
        );
    }
    let sites = sites(reader, table).unwrap_or(SiteLimit::DEFAULT);
    let staging_sites = limit(reader, table, "staging_sites");
    let site_moves = limit(reader, table, "site_moves");
    let lasts = match is_nothing {
        true => Some(LicenseTerm::Lifetime),
        false => lasts(reader, table),
    };
    let grace_days = grace(reader, table);
    let links = ShopLinks {
        renew: link(reader, table, "renew_url"),
        upgrade: link(reader, table, "upgrade_url"),
    };
    Some(Offer {
        name,
        shop: shop?,
        mode: mode.unwrap_or(SalesMode::Live),
        products,
        prices,
        modules: Arc::new(modules),
        sites,
        staging_sites,
        site_moves,
        lasts: lasts?,
        quantity: quantity.unwrap_or(QuantityMeaning::Licenses),
        grace_days: grace_days.unwrap_or(DEFAULT_GRACE_DAYS),
        is_nothing,
        links,
    })
}

/// The address of a page of the shop.
fn link(reader: &mut DocumentReader<'_>, table: &SpannedTable<'_>, name: &str) -> Option<ShopLink> {
    let (at, text) = reader.string(table, name)?;
    let link = text.parse();
    link.map_err(|error: NotAShopLink| reader.complain(at, format!("{name:?}: {error}")))
        .ok()
}

/// One of some words.
fn choice<T: Copy>(
    reader: &mut DocumentReader<'_>,
    table: &SpannedTable<'_>,
    name: &str,
    choices: &[(&str, T)],
) -> Option<T> {
    let (at, text) = reader.string(table, name)?;
    let chosen = choices.iter().find(|(word, _)| *word == text);
    if chosen.is_none() {
        let words: Vec<_> = choices.iter().map(|(word, _)| format!("{word:?}")).collect();
        reader.complain(at, format!("{name:?} must be {}", words.join(" or ")));
    }
    chosen.map(|(_, value)| *value)
}

fn ids(reader: &mut DocumentReader<'_>, table: &SpannedTable<'_>, name: &str) -> Vec<ShopId> {
    let texts = reader.strings(table, name).unwrap_or_default();
    if let (true, Some(field)) = (texts.is_empty(), table.fields.get(name)) {
        reader.complain(field.node.at, format!("{name:?} must name at least one"));
    }
    let ids = texts.into_iter();
    ids.filter_map(|(at, text)| reader.parse(at, name, text)).collect()
}

fn lasts(reader: &mut DocumentReader<'_>, table: &SpannedTable<'_>) -> Option<LicenseTerm> {
    let (at, text) = reader.string(table, "period")?;
    let lasts: Option<LicenseTerm> = text.parse().ok();
    if lasts.is_none() {
        reader.complain(
            at,
            "\"period\" must be a period such as \"30d\", \"2w\", \"6m\" or \"1y\", \"lifetime\" or \"subscription\"",
        );
    }
    lasts
}

/// Days of grace, such as `3d` or `1w`: at most 60.
fn grace(reader: &mut DocumentReader<'_>, table: &SpannedTable<'_>) -> Option<u16> {
    let (at, text) = reader.string(table, "grace")?;
    let days = match text.parse() {
        Ok(Period::Days(days)) => u16::try_from(days).ok().filter(|days| *days <= MAX_GRACE_DAYS),
        _ => None,
    };
    if days.is_none() {
        reader.complain(
            at,
            format!("\"grace\" must be a number of days from \"0d\" to \"{MAX_GRACE_DAYS}d\""),
        );
    }
    days
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_model::period::NEVER;

    const GOOD: &str = "shop = 'stripe'\nprices = ['price_1']\nperiod = '1y'\nmodules.forms = ['pdf']\n";

    fn load(files: &[(&str, &str)]) -> (Offers, Vec<String>) {
        let registry = tempfile::tempdir().unwrap();
        let folder = registry.path().join("offers");
        std::fs::create_dir(&folder).unwrap();
        for (name, text) in files {
            std::fs::write(folder.join(name), text).unwrap();
        }
        let (offers, diagnostics) = Offers::load(&RegistryFiles::folder(registry.path())).unwrap();
        let strip = |diagnostic: &Diagnostic| diagnostic.to_string().replace(&format!("{}/", folder.display()), "");
        (offers, diagnostics.iter().map(strip).collect())
    }

    #[test]
    fn an_offer_says_what_a_price_or_a_product_grants() {
        let lifetime = "shop = 'stripe'\nmode = 'test'\nproducts = ['prod_1']\nprices = ['price_1', 'price_9']\n\
                        period = 'lifetime'\nsites = 'unlimited'\nquantity = 'sites'\nmodules.base = []\n";
        let product = GOOD
            .replace("prices = ['price_1']", "products = ['prod_1']")
            .replace("'1y'", "'6m'");
        let (offers, diagnostics) = load(&[("a.toml", GOOD), ("b.toml", lifetime), ("c.toml", &product)]);
        assert_eq!(diagnostics, [""; 0]);
        let shop: Slug = "stripe".parse().unwrap();
        let found = |mode, price: Option<&str>, product: Option<&str>| {
            let id = |text: Option<&str>| text.map(|text| text.parse::<ShopId>().unwrap());
            let offer = offers.find(&shop, mode, id(price).as_ref(), id(product).as_ref());
            offer.map(|offer| offer.name.as_str())
        };
        assert_eq!(found(SalesMode::Live, Some("price_1"), Some("prod_1")), Some("a"));
        assert_eq!(found(SalesMode::Live, Some("price_2"), Some("prod_1")), Some("c"));
        assert_eq!(found(SalesMode::Live, Some("prod_1"), Some("price_1")), None);
        assert_eq!(found(SalesMode::Test, Some("price_9"), None), Some("b"));
        assert_eq!(found(SalesMode::Live, Some("price_9"), None), None);
        assert!(
            offers
                .find(&"other".parse().unwrap(), SalesMode::Live, None, None)
                .is_none()
        );
        let of_line = |named: Option<&str>, price: Option<&str>| {
            let price = price.map(|text| text.parse::<ShopId>().unwrap());
            let offer = offers.of_line(&shop, SalesMode::Live, named, price.as_ref(), None);
            offer
                .map(|offer| offer.name.as_str())
                .map_err(|reason| reason.to_string())
        };
        assert_eq!(of_line(Some("c"), Some("price_1")), Ok("a"), "what was paid for");
        assert_eq!(of_line(Some("c"), None), Ok("c"));
        let refused = |named| of_line(Some(named), Some("price_9")).unwrap_err();
        assert_eq!(
            refused("b"),
            "the sale names the offer \"b\", which is for test sales; this is a live sale"
        );
        assert_eq!(
            refused("maps"),
            "the sale names the offer \"maps\", and there is no registry/offers/maps.toml"
        );
        for odd in [
            "jane@example.com",
            "Maps",
            &LicenseKey::from_random([7; 20]).reveal().to_lowercase(),
        ] {
            assert!(!refused(odd).contains(odd), "{odd}");
        }
        let elsewhere = offers.of_line(&"other".parse().unwrap(), SalesMode::Live, Some("c"), None, None);
        assert_eq!(
            elsewhere.unwrap_err().to_string(),
            format!("the sale names the offer \"c\", which is for the shop \"{shop}\"")
        );
        let unsold = "no offer of this shop and mode is for this product or price";
        assert_eq!(of_line(None, Some("price_9")), Err(unsold.to_owned()));
        let day = |text: &str| text.parse().unwrap();
        let [(a, _), (b, _), (c, _)] = offers.all() else {
            panic!()
        };
        assert_eq!(
            (a.quantity, b.quantity),
            (QuantityMeaning::Licenses, QuantityMeaning::Sites)
        );
        assert_eq!(a.lasts.last_day(day("2026-01-31")), day("2027-01-31"));
        assert_eq!(b.lasts.last_day(day("2026-01-31")), NEVER);
        assert_eq!((a.lasts.to_string(), c.lasts.to_string()), ("1y".into(), "6m".into()));
    }

    #[test]
    fn every_mistake_of_every_offer_is_found_with_its_place() {
        let wrong = "shops = 'stripe'\nmode = 'sandbox'\nproducts = []\nprices = ['a b', 'c', 'c']\nsites = 0\n\
                     period = '0d'\nquantity = 'many'\nmodules = {}\n";
        let (offers, diagnostics) = load(&[
            ("a.toml", GOOD),
            ("b.toml", &format!("# the same price\n{GOOD}")),
            ("c.toml", wrong),
            ("d.toml", "shop = 'stripe'\n"),
            ("e.txt", ""),
        ]);
        assert_eq!(offers.all().len(), 1);
        assert_eq!(
            diagnostics,
            [
                r#"b.toml:3:10: "prices" has "price_1", which the offer a has, too"#,
                r#"c.toml:1:1: unknown field "shops" (did you mean "shop"?)"#,
                r#"c.toml:1:1: missing field "shop""#,
                r#"c.toml:2:8: "mode" must be "live" or "test""#,
                r#"c.toml:3:12: "products" must name at least one"#,
                r#"c.toml:4:11: "prices" is not an id of a shop: expected 1 to 128 ASCII letters, digits and signs, without spaces"#,
                r#"c.toml:4:23: "prices" has "c" twice"#,
                r#"c.toml:5:9: "sites" must be an integer of at least 1, or "unlimited""#,
                r#"c.toml:6:10: "period" must be a period such as "30d", "2w", "6m" or "1y", "lifetime" or "subscription""#,
                r#"c.toml:7:12: "quantity" must be "sites" or "licenses""#,
                r#"c.toml:8:11: "modules" must not be empty: such a license grants nothing"#,
                r#"d.toml:1:1: missing field "modules""#,
                r#"d.toml:1:1: missing field "period""#,
                r#"d.toml:1:1: missing field "products" or "prices""#,
                r#"e.txt: not an offer: its name must be <name>.toml, where a name has 1 to 64 of a-z, 0-9 and '-'"#,
            ]
        );
    }

    #[test]
    fn a_registry_without_the_folder_has_no_offers() {
        let registry = tempfile::tempdir().unwrap();
        let (offers, diagnostics) = Offers::load(&RegistryFiles::folder(registry.path())).unwrap();
        assert!(offers.all().is_empty() && diagnostics.is_empty());
    }
}
