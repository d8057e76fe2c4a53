//! What a price granted when a sale first named it, and what a license has of it. Editing the offer changes nothing that was sold.

use std::num::NonZeroU32;
use std::sync::Arc;

use chrono::NaiveDate;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::license_terms::{LicenseStatus, Modules, SiteLimit};
use crate::offer::{LicenseTerm, Offer, QuantityMeaning};
use crate::slug::Slug;

/// The grace of a subscription whose offer says none, in days.
pub const DEFAULT_GRACE_DAYS: u16 = 3;

/// What one price grants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    /// Days that a license of a subscription goes on after its paid end while a renewal is to come.
    pub grace_days: u16,
    /// Whether it grants no license, such as a setup fee.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_nothing: bool,
    /// How long a license lasts that is paid once.
    pub lasts: LicenseTerm,
    /// What a license covers.
    #[serde(with = "shared_modules")]
    pub modules: Arc<Modules>,
    /// The name of the offer.
    pub offer: Slug,
    /// What a quantity above one buys.
    pub quantity: QuantityMeaning,
    /// How often a license may move in 30 days by itself; `None` for the server's setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site_moves: Option<u16>,
    /// How many sites a license has.
    pub sites: SiteLimit,
    /// How many staging copies need no seat; `None` for the server's setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staging_sites: Option<u16>,
}

impl Terms {
    /// The sites of a license of which so many were bought, if a quantity buys sites.
    pub fn sites_of(&self, quantity: u32) -> SiteLimit {
        let SiteLimit::Limited(sites) = self.sites else {
            return SiteLimit::Unlimited;
        };
        let factor = match self.quantity {
            QuantityMeaning::Sites => NonZeroU32::new(quantity).unwrap_or(NonZeroU32::MIN),
            QuantityMeaning::Licenses => NonZeroU32::MIN,
        };
        SiteLimit::Limited(sites.saturating_mul(factor))
    }

    /// How many licenses so many are.
    pub fn licenses_of(&self, quantity: u32) -> u32 {
        match self.quantity {
            QuantityMeaning::Sites => 1,
            QuantityMeaning::Licenses => quantity,
        }
    }
}

impl From<&Offer> for Terms {
    /// What an offer grants now.
    fn from(offer: &Offer) -> Self {
        Self {
            grace_days: offer.grace_days,
            is_nothing: offer.is_nothing,
            lasts: offer.lasts,
            modules: Arc::clone(&offer.modules),
            offer: offer.name.clone(),
            quantity: offer.quantity,
            site_moves: offer.site_moves,
            sites: offer.sites,
            staging_sites: offer.staging_sites,
        }
    }
}

/// What a shop grants to one license.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SoldGrant {
    /// The last day that is paid.
    pub expires: NaiveDate,
    /// What it covers.
    #[serde(with = "shared_modules")]
    pub modules: Arc<Modules>,
    /// If a renewal is to come: days that the license goes on without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renewal_days: Option<u16>,
    /// How often it may move by itself; `None` for the server's setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site_moves: Option<u16>,
    /// How many sites.
    pub sites: SiteLimit,
    /// How many staging copies need no seat; `None` for the server's setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staging_sites: Option<u16>,
    /// Active or suspended.
    pub status: LicenseStatus,
}

/// Modules that licenses share.
mod shared_modules {
    use super::{Arc, Deserialize as _, Deserializer, Modules, Serialize as _, Serializer};

    pub(super) fn serialize<S: Serializer>(modules: &Arc<Modules>, serializer: S) -> Result<S::Ok, S::Error> {
        (**modules).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<Modules>, D::Error> {
        Modules::deserialize(deserializer).map(Arc::new)
    }
}
