//! A license that a machine issued: the license, and what its line in the ledger says of its origin and of its last change.
//!
//! Nothing here is personal or secret. The ledger writes it and keeps it in memory, and the gate reads the license.

use std::str::FromStr;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::checked_text::checked_text;
use crate::license::{License, LicenseStatus};
use crate::license_key::LicenseId;
use crate::license_table::OfLicense;
use crate::name::Name;
use crate::slug::Slug;

pub use crate::digest::{Hex128, NotHex128};

/// The longest reference in bytes.
pub const MAX_REFERENCE: usize = 200;

/// A license of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuedLicense {
    /// The whole license.
    pub license: License,
    /// Where it comes from. No change alters it.
    pub origin: IssueOrigin,
    /// An HMAC of the shop's order.
    pub reference: Option<Hex128>,
    /// What its last line is about.
    pub kind: ChangeKind,
    /// 1 when it was issued, and one more with each change.
    pub revision: u32,
    /// Who issued or changed it last.
    pub scope: Arc<ChangeScope>,
    /// Who suspended or revoked it; `None` while it is active. Other changes do not alter it.
    pub status_by: Option<Arc<ChangeScope>>,
    /// When it was issued or changed last.
    pub time: DateTime<Utc>,
}

/// When a license was issued, in nanoseconds since 1970, and its id: its place in a list, which no change alters.
pub type IssuedPlace = (i64, LicenseId);

impl IssuedLicense {
    /// Its place in a list of the newest. In 2262, all are as old as 1970.
    pub fn place(&self) -> IssuedPlace {
        let time = self.origin.issued.timestamp_nanos_opt().unwrap_or_default();
        (time, self.license.id)
    }
}

/// The request that issued a license, and what its key is derived from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssueOrigin {
    /// An HMAC of the request's body. A retry has the same one.
    pub body: Hex128,
    /// An HMAC of the scope and the request's idempotency key.
    pub key: Hex128,
    /// Random. The license key is derived from it.
    pub salt: Hex128,
    /// Who issued it.
    pub scope: Arc<ChangeScope>,
    /// The number of the secret that the license key is derived with; 0 if the key was made elsewhere.
    pub secret: u32,
    /// When it was issued. The ledger sets it.
    pub issued: DateTime<Utc>,
}

impl IssueOrigin {
    /// Whether the license key was made elsewhere: it was imported, or a shop made it. It may have our form or another one.
    pub fn has_foreign_key(&self) -> bool {
        self.secret == 0
    }
}

impl OfLicense for IssuedLicense {
    fn license_id(&self) -> &LicenseId {
        &self.license.id
    }
}

/// Who changes licenses: `token:NAME`, `shop:NAME`, `surplus:NAME`, `operator:cli` for the commands, `operator:desk` for the desk, or
/// `operator:account` for the customer's page.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChangeScope(Box<str>);

checked_text!(ChangeScope);

impl ChangeScope {
    /// Who runs commands.
    pub fn operator() -> Self {
        Self("operator:cli".into())
    }

    /// Who imports licenses of another system.
    pub fn importer() -> Self {
        Self("operator:import".into())
    }

    /// Who works at the desk.
    pub fn desk() -> Self {
        Self("operator:desk".into())
    }

    /// A customer on the customer's page.
    pub fn account() -> Self {
        Self("operator:account".into())
    }

    /// A customer who uses a link in a mail.
    pub fn customer() -> Self {
        Self("operator:link".into())
    }

    /// For people: `token NAME`.
    pub fn words(&self) -> String {
        match &*self.0 {
            "operator:account" => "the customer".to_owned(),
            scope => scope.replacen(':', " ", 1),
        }
    }

    /// Whether a shop does, also by a sale of fewer than were.
    pub fn is_shop(&self) -> bool {
        self.0.starts_with("shop:") || self.0.starts_with("surplus:")
    }

    /// The name of the shop, if it is one.
    pub fn shop(&self) -> Option<Slug> {
        self.0.strip_prefix("shop:")?.parse().ok()
    }

    /// The scope of the token with this name.
    pub fn of_token(name: &Name) -> Self {
        Self(format!("token:{name}").into())
    }
}

/// The text names neither a token nor a shop.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("expected \"token:\", \"shop:\", \"surplus:\" or \"operator:\" and a name")]
pub struct NotAScope;

impl ChangeScope {
    /// The shop of this name.
    pub fn of_shop(name: &Slug) -> Self {
        Self(format!("shop:{name}").into())
    }

    /// The same shop: who suspends a copy because fewer are sold than were.
    pub fn of_surplus(shop: &Slug) -> Self {
        Self(format!("surplus:{shop}").into())
    }
}

impl FromStr for ChangeScope {
    type Err = NotAScope;

    fn from_str(text: &str) -> Result<Self, NotAScope> {
        let name = ["token:", "shop:", "surplus:", "operator:"]
            .iter()
            .find_map(|kind| text.strip_prefix(kind));
        let is_name = name.is_some_and(|name| name.parse::<Name>().is_ok());
        is_name.then(|| Self(text.into())).ok_or(NotAScope)
    }
}

/// What the line of a license is about. Of several changes in one line, the first of these counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum ChangeKind {
    /// It is new.
    Issued,
    /// It is revoked for good.
    Revoked,
    /// It is suspended.
    Suspended,
    /// It is active again.
    Resumed,
    /// It ends later.
    Renewed,
    /// A site lost its seat, or all did.
    Released,
    /// Other terms.
    Changed,
}

impl ChangeKind {
    /// What differs between a license and what it was before.
    pub fn between(before: &License, after: &License) -> Self {
        match after.status {
            status if status == before.status => {}
            LicenseStatus::Revoked => return Self::Revoked,
            LicenseStatus::Suspended => return Self::Suspended,
            LicenseStatus::Active => return Self::Resumed,
        }
        if after.expires > before.expires {
            Self::Renewed
        } else if after.details.released != before.details.released {
            Self::Released
        } else {
            Self::Changed
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use chrono::NaiveDate;

    use super::*;
    use crate::license::{Details, SiteLimit};
    use crate::license_key::LicenseId;

    #[test]
    fn a_scope_is_a_token_or_a_shop_with_a_name() {
        for good in ["token:shop", "shop:stripe-live", "surplus:stripe-live"] {
            assert_eq!(good.parse::<ChangeScope>().unwrap().as_str(), good);
        }
        for bad in [
            "",
            "shop",
            "token:",
            "Token:shop",
            "token:a b",
            "shop:\"",
            "token:shop:a",
        ] {
            assert_eq!(bad.parse::<ChangeScope>(), Err(NotAScope), "{bad}");
        }
    }

    #[test]
    fn the_gravest_difference_is_named() {
        let day = |day| NaiveDate::from_ymd_opt(2027, 1, day).unwrap();
        let license = License {
            id: LicenseId::from_bytes([1; 32]),
            status: LicenseStatus::Active,
            expires: day(2),
            modules: Arc::default(),
            sites: SiteLimit::DEFAULT,
            grace_period_hours: None,
            details: Details::default(),
            is_declared: false,
        };
        let with = |status, expires, sites| License {
            status,
            expires,
            sites,
            ..license.clone()
        };
        let mut released = license.clone();
        released.details.released.all = chrono::DateTime::from_timestamp(1, 0);
        let several = SiteLimit::Unlimited;
        for (after, kind) in [
            (with(LicenseStatus::Revoked, day(3), several), ChangeKind::Revoked),
            (with(LicenseStatus::Suspended, day(3), several), ChangeKind::Suspended),
            (with(LicenseStatus::Active, day(3), several), ChangeKind::Renewed),
            (with(LicenseStatus::Active, day(1), several), ChangeKind::Changed),
            (released, ChangeKind::Released),
        ] {
            assert_eq!(ChangeKind::between(&license, &after), kind);
        }
        let suspended = with(LicenseStatus::Suspended, day(2), SiteLimit::DEFAULT);
        assert_eq!(ChangeKind::between(&suspended, &license), ChangeKind::Resumed);
    }
}
