//! A license that a machine issued: the license, and what its line in the ledger says of its origin.
//!
//! Nothing here is personal or secret. `store::log` writes it, `store` keeps it in memory, and the gate reads the license.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::change_kind::ChangeKind;
use crate::checked_text::{checked_text, hex_text};
use crate::digest::Digest;
use crate::license::License;
use crate::license_key::LicenseId;
use crate::license_table::OfLicense;
use crate::name::Name;
use crate::slug::Slug;

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

/// Who changes licenses: `token:NAME`, `shop:NAME`, `surplus:NAME`, or `operator:cli` for the commands.
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

    /// For people: `token NAME`.
    pub fn words(&self) -> String {
        self.0.replacen(':', " ", 1)
    }

    /// Who has the token of this name.
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

/// 16 bytes, written as 32 lower-case hex digits: a salt, or the first half of a SHA-256 or an HMAC-SHA256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hex128(pub [u8; 16]);

/// The text is not 32 lower-case hex digits.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("expected 32 lower-case hex digits")]
pub struct NotHex128;

hex_text!(Hex128, 16, NotHex128);

impl Hex128 {
    /// The first half of the SHA-256 of these words. `label` tells one use from another.
    pub fn of_words(label: &str, words: fmt::Arguments<'_>) -> Self {
        let digest = Digest::of(format!("{label}{words}").as_bytes());
        let mut half = [0; 16];
        half.copy_from_slice(&digest.as_bytes()[..16]);
        Self(half)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn sixteen_bytes_have_one_spelling() {
        let text = "00112233445566778899aabbccddeeff";
        assert_eq!(text.parse::<Hex128>().unwrap().to_string(), text);
        let prefixed = format!("0x{}", &text[2..]);
        for bad in [&text[1..], &text.to_uppercase(), &prefixed, ""] {
            assert_eq!(bad.parse::<Hex128>(), Err(NotHex128), "{bad}");
        }
    }
}
