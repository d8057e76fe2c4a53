//! Changes of single fields of a license, and the license after such a change.
//!
//! A command makes the same change in the text of a license file, and compares the two.

use chrono::NaiveDate;

use crate::license::{License, LicenseStatus, SiteLimit};

/// A change of a license.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LicenseChange {
    /// A new last day.
    Expires(NaiveDate),
    /// A new status.
    Status(LicenseStatus),
    /// A new number of sites.
    Sites(SiteLimit),
    /// A new number of staging copies that need no seat; `None` for the server's setting.
    StagingSites(Option<u16>),
    /// How often it may move in 30 days without the vendor; `None` for the server's setting.
    SiteMoves(Option<u16>),
    /// A new note.
    Note(String),
}

impl LicenseChange {
    /// The license after these changes.
    pub fn all_applied_to(changes: &[Self], license: &License) -> License {
        let apply = |license: License, change: &Self| change.applied_to(&license);
        changes.iter().fold(license.clone(), apply)
    }

    /// The field that it removes from a license file, if any.
    pub fn removed_field(&self) -> Option<&'static str> {
        match self {
            Self::StagingSites(None) => Some("staging_sites"),
            Self::SiteMoves(None) => Some("site_moves"),
            _ => None,
        }
    }

    /// The license after the change.
    pub fn applied_to(&self, license: &License) -> License {
        let mut license = license.clone();
        match self {
            Self::Expires(date) => license.expires = *date,
            Self::Status(status) => license.status = *status,
            Self::Sites(sites) => license.sites = *sites,
            Self::StagingSites(limit) => license.details.staging_sites = *limit,
            Self::SiteMoves(limit) => license.details.site_moves = *limit,
            Self::Note(note) => license.details.note = note.clone(),
        }
        license
    }
}
