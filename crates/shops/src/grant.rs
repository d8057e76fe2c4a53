//! Which licenses a sale grants, by the offers of the registry.

use std::num::NonZeroU32;
use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};

use crate::event::{Sale, SoldLine};
use countersign_model::license::{Details, LicenseDetails, Modules, SiteLimit};
use countersign_model::offer::{NoOffer, Offer, QuantityMeaning};

/// Licenses that one sale grants at most. More are a mistake, or somebody's test.
pub const MOST_LICENSES: u32 = 1_000;

/// One license that is granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedLicense {
    /// What it covers.
    pub modules: Arc<Modules>,
    /// How many sites.
    pub sites: SiteLimit,
    /// Limits of its own.
    pub details: Details,
    /// Its last day.
    pub expires: NaiveDate,
}

/// Why a line of a sale grants nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoGrant {
    /// No offer of the registry is for it.
    #[error(transparent)]
    NoOffer(#[from] NoOffer),
    /// The quantity is too large.
    #[error("it would grant more than {MOST_LICENSES} licenses")]
    TooMany,
}

/// A sale for which the shop makes one key grants another number of licenses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the shop makes one license key for a sale, and the offers of this one grant {0} licenses")]
pub struct NotOneLicense(pub u32);

/// Checks that lines which grant so many licenses each grant one in all.
///
/// # Errors
/// It is another number.
pub fn one_license(counts: impl Iterator<Item = u32>) -> Result<(), NotOneLicense> {
    match counts.fold(0, u32::saturating_add) {
        1 => Ok(()),
        other => Err(NotOneLicense(other)),
    }
}

/// What a line grants: so many licenses of one kind, which all are alike.
pub fn grant(
    sale: &Sale,
    line: &SoldLine,
    offer: Result<&Offer, NoOffer>,
    sold_at: DateTime<Utc>,
) -> Result<(u32, GrantedLicense), NoGrant> {
    let offer = offer?;
    let (count, factor) = match offer.quantity {
        QuantityMeaning::Licenses => (line.quantity, 1),
        QuantityMeaning::Sites => (1, line.quantity),
    };
    if count > MOST_LICENSES {
        return Err(NoGrant::TooMany);
    }
    let sites = match offer.sites {
        SiteLimit::Unlimited => SiteLimit::Unlimited,
        SiteLimit::Limited(sites) => {
            let sites = sites.get().saturating_mul(factor);
            // A product of numbers of at least 1.
            SiteLimit::Limited(NonZeroU32::new(sites).unwrap_or(NonZeroU32::MIN))
        }
    };
    let expires = match sale.until {
        Some(until) => until.date_naive(),
        None => offer.lasts.last_day(sold_at.date_naive()),
    };
    Ok((
        count,
        GrantedLicense {
            modules: Arc::clone(&offer.modules),
            sites,
            details: Details::from(LicenseDetails {
                staging_sites: offer.staging_sites,
                site_moves: offer.site_moves,
                ..LicenseDetails::default()
            }),
            expires,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_model::offer::{LicenseTerm, SalesMode};

    fn offer(quantity: QuantityMeaning) -> Offer {
        Offer {
            name: "forms".parse().unwrap(),
            shop: "stripe".parse().unwrap(),
            mode: SalesMode::Live,
            products: Vec::new(),
            prices: Vec::new(),
            modules: Arc::default(),
            sites: SiteLimit::Limited(NonZeroU32::new(3).unwrap()),
            staging_sites: Some(2),
            site_moves: None,
            lasts: LicenseTerm::Period("1y".parse().unwrap()),
            quantity,
        }
    }

    fn line(quantity: u32) -> SoldLine {
        SoldLine {
            price: None,
            product: None,
            offer: None,
            quantity,
        }
    }

    #[test]
    fn a_quantity_buys_sites_or_licenses() {
        let at: DateTime<Utc> = "2026-11-20T23:00:00Z".parse().unwrap();
        let once = Sale::default();
        let granted = |meaning, quantity| grant(&once, &line(quantity), Ok(&offer(meaning)), at);
        let (count, license) = granted(QuantityMeaning::Sites, 4).unwrap();
        assert_eq!((count, license.sites.to_string().as_str()), (1, "12"));
        assert_eq!(
            (license.details.staging_sites, license.details.site_moves),
            (Some(2), None)
        );
        assert_eq!(license.expires.to_string(), "2027-11-20");
        let (count, license) = granted(QuantityMeaning::Licenses, 4).unwrap();
        assert_eq!((count, license.sites.to_string().as_str()), (4, "3"));
        assert_eq!(granted(QuantityMeaning::Licenses, 1_001), Err(NoGrant::TooMany));
        assert!(granted(QuantityMeaning::Sites, u32::MAX).is_ok());
        let unsold = NoOffer::Unsold;
        assert_eq!(grant(&once, &line(1), Err(unsold.clone()), at), Err(unsold.into()));
        let subscription = Sale {
            until: Some("2026-12-20T23:59:59Z".parse().unwrap()),
            ..Sale::default()
        };
        let (_, license) = grant(&subscription, &line(1), Ok(&offer(QuantityMeaning::Sites)), at).unwrap();
        assert_eq!(license.expires.to_string(), "2026-12-20");
    }
}
