//! The terms of a license that a shop may change: its status, what it covers and how many sites it has.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use crate::name::Name;

/// What a license covers: module to its features.
pub type Modules = BTreeMap<Name, Vec<Name>>;

/// The status that the vendor set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LicenseStatus {
    /// In use.
    Active,
    /// Suspended until resumed.
    Suspended,
    /// Revoked for good.
    Revoked,
}

impl LicenseStatus {
    /// The one of two that takes more away.
    #[must_use]
    pub fn graver(self, other: Self) -> Self {
        match (self, other) {
            (Self::Revoked, _) | (_, Self::Revoked) => Self::Revoked,
            (Self::Suspended, _) | (_, Self::Suspended) => Self::Suspended,
            (Self::Active, Self::Active) => Self::Active,
        }
    }

    /// As in the registry.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Suspended => "suspended",
            Self::Revoked => "revoked",
        }
    }
}

/// How many sites may be bound to a license.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SiteLimit {
    /// At most this many.
    Limited(NonZeroU32),
    /// Any number.
    Unlimited,
}

impl SiteLimit {
    /// The default: one site.
    pub const DEFAULT: Self = Self::Limited(NonZeroU32::MIN);
}

/// A number, or `"unlimited"`.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
enum SitesMember {
    Limited(NonZeroU32),
    Unlimited(UnlimitedSites),
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum UnlimitedSites {
    Unlimited,
}

impl serde::Serialize for SiteLimit {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let member = match self {
            Self::Limited(limit) => SitesMember::Limited(*limit),
            Self::Unlimited => SitesMember::Unlimited(UnlimitedSites::Unlimited),
        };
        member.serialize(serializer)
    }
}

impl<'de> serde::Deserialize<'de> for SiteLimit {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match SitesMember::deserialize(deserializer)? {
            SitesMember::Limited(limit) => Self::Limited(limit),
            SitesMember::Unlimited(_) => Self::Unlimited,
        })
    }
}

impl std::fmt::Display for SiteLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Limited(limit) => limit.fmt(f),
            Self::Unlimited => f.pad("unlimited"),
        }
    }
}
