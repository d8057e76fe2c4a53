//! Offers: what a shop's product or price grants.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use chrono::NaiveDate;

use crate::checked_text::{checked_text, serde_as_text};
use crate::license_terms::{Modules, SiteLimit};
use crate::period::{NEVER, Period};
use crate::shop_link::ShopLinks;
use crate::slug::Slug;

/// One entry of `registry/offers/<name>.toml`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The file's name without `.toml`.
    pub name: Slug,
    /// The name of the shop that sells it.
    pub shop: Slug,
    /// Whether it is for live sales or for the shop's test mode.
    pub mode: SalesMode,
    /// The shop's ids of products. A price goes before its product.
    pub products: Vec<ShopId>,
    /// The shop's ids of prices or variants.
    pub prices: Vec<ShopId>,
    /// What a license covers.
    pub modules: Arc<Modules>,
    /// How many sites a license has.
    pub sites: SiteLimit,
    /// How many staging copies need no seat; `None` for the server's setting.
    pub staging_sites: Option<u16>,
    /// How often a license may move in 30 days by itself; `None` for the server's setting.
    pub site_moves: Option<u16>,
    /// How long a license lasts that is paid once. The shop says when a subscription ends.
    pub lasts: LicenseTerm,
    /// What a quantity above one buys.
    pub quantity: QuantityMeaning,
    /// Days that a license of a subscription goes on after its paid end while a renewal is to come.
    pub grace_days: u16,
    /// Whether it grants no license.
    pub is_nothing: bool,
    /// Where its licenses are renewed and upgraded, if not where the server says.
    pub links: ShopLinks,
}

/// Why no offer is for a line of a sale.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoOffer {
    /// None has its product or price.
    #[error("no offer of this shop and mode is for this product or price")]
    Unsold,
    /// The sale names one that does not exist.
    #[error("the sale names the offer \"{0}\", and there is no registry/offers/{0}.toml")]
    Unknown(Slug),
    /// The sale names one of another shop.
    #[error("the sale names the offer \"{name}\", which is for the shop \"{shop}\"")]
    OtherShop {
        /// The offer.
        name: Slug,
        /// Its shop.
        shop: Slug,
    },
    /// The sale names one of the other mode.
    #[error("the sale names the offer \"{name}\", which is for {mode} sales; this is a {} sale", mode.other())]
    OtherMode {
        /// The offer.
        name: Slug,
        /// Its mode.
        mode: SalesMode,
    },
    // SECURITY: what is no name of an offer may be anything, such as an address, so it is not quoted.
    /// The sale names one, but no offer can have this name.
    #[error(
        "the sale names an offer by what is no name: an offer's is that of its file in registry/offers/, without .toml"
    )]
    NoName,
}

/// Whether money flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SalesMode {
    /// It does.
    Live,
    /// A shop's test mode or sandbox.
    Test,
}

/// How long a license lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LicenseTerm {
    /// From the day of the sale.
    Period(Period),
    /// For good.
    Lifetime,
    /// As long as its subscription is paid. A line that is paid once grants nothing.
    Subscription,
}

/// The text is not how long a license lasts.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("expected a period such as \"30d\", \"2w\", \"6m\" or \"1y\", \"lifetime\" or \"subscription\"")]
pub struct NotALicenseTerm;

/// What a quantity above one buys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QuantityMeaning {
    /// One license with so many times the sites.
    Sites,
    /// So many licenses.
    Licenses,
}

/// A shop's id of a product or a price: 1 to 128 printable ASCII characters without spaces.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShopId(Box<str>);

checked_text!(ShopId);

/// The text is not an id of a shop.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not an id of a shop: expected 1 to 128 ASCII letters, digits and signs, without spaces")]
pub struct NotAShopId;

impl ShopId {
    /// What a sale has instead of a price if it names nothing but an offer.
    const OFFER: &str = "offer:";

    /// Whether it replaces a price that is not known, and names an offer.
    pub fn is_offer(&self) -> bool {
        self.0.starts_with(Self::OFFER)
    }
}

impl FromStr for ShopId {
    type Err = NotAShopId;

    fn from_str(text: &str) -> Result<Self, NotAShopId> {
        if (1..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic()) {
            Ok(Self(text.into()))
        } else {
            Err(NotAShopId)
        }
    }
}

impl SalesMode {
    /// As in the registry.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Test => "test",
        }
    }

    fn other(self) -> Self {
        match self {
            Self::Live => Self::Test,
            Self::Test => Self::Live,
        }
    }
}

impl fmt::Display for SalesMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl LicenseTerm {
    /// The last day of a license that is sold on `day`.
    pub fn last_day(self, day: NaiveDate) -> NaiveDate {
        match self {
            Self::Period(period) => period.after(day),
            Self::Lifetime => NEVER,
            Self::Subscription => day,
        }
    }
}

impl fmt::Display for LicenseTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Period(period) => period.fmt(f),
            Self::Lifetime => f.pad("lifetime"),
            Self::Subscription => f.pad("subscription"),
        }
    }
}

impl FromStr for LicenseTerm {
    type Err = NotALicenseTerm;

    fn from_str(text: &str) -> Result<Self, NotALicenseTerm> {
        match text {
            "lifetime" => Ok(Self::Lifetime),
            "subscription" => Ok(Self::Subscription),
            period => {
                let period = period.parse().ok().filter(|period: &Period| !period.is_empty());
                period.map(Self::Period).ok_or(NotALicenseTerm)
            }
        }
    }
}

serde_as_text!(LicenseTerm);

impl QuantityMeaning {
    /// As in the registry.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sites => "sites",
            Self::Licenses => "licenses",
        }
    }
}
