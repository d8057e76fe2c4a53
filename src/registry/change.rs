//! What a command changes about a license, and the license as it is afterwards.
//!
//! [`edit`](crate::registry::edit) writes the same change into the text of a file, and compares the two.

use chrono::{DateTime, NaiveDate, Utc};

use crate::model::license::{License, LicenseStatus, SiteLimit};
use crate::model::site_host::SiteHost;

/// What a command changes about a license.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LicenseChange {
    /// Its last day.
    Expires(NaiveDate),
    /// The vendor's word.
    Status(LicenseStatus),
    /// Bindings of this host, or of all with `None`, made before that time are void; and it is no longer bound ahead.
    Release(Option<SiteHost>, DateTime<Utc>),
    /// How many sites may use it.
    Sites(SiteLimit),
    /// What the vendor notes about it.
    Note(String),
    /// Bindings of one host made before that time are void, and another host is bound ahead in its place.
    Move {
        /// Who gives its place.
        from: SiteHost,
        /// Who gets it.
        to: SiteHost,
        /// The release time of `from`.
        time: DateTime<Utc>,
    },
}

impl LicenseChange {
    /// The license as it is afterwards.
    pub fn applied_to(&self, license: &License) -> License {
        let mut license = license.clone();
        match self {
            Self::Expires(date) => license.expires = *date,
            Self::Status(status) => license.status = *status,
            Self::Sites(sites) => license.sites = *sites,
            Self::Note(note) => license.details.note = note.clone(),
            Self::Move { from, to, time } => {
                license.details.hosts = hosts_after_move(&license, from, to);
                license.details.released.hosts.insert(from.clone(), *time);
            }
            Self::Release(None, time) => {
                license.details.hosts.clear();
                license.details.released.all = Some(*time);
            }
            Self::Release(Some(host), time) => {
                license.details.hosts.retain(|bound| bound != host);
                license.details.released.hosts.insert(host.clone(), *time);
            }
        }
        license
    }
}

/// The hosts that are bound ahead once `to` has the place of `from`.
fn hosts_after_move(license: &License, from: &SiteHost, to: &SiteHost) -> Vec<SiteHost> {
    let others = license.details.hosts.iter().filter(|host| *host != from && *host != to);
    others.chain([to]).cloned().collect()
}
