//! A license as its customer sees it.

use chrono::{Days, NaiveDate};

use crate::serve::account::words::{AccountWords, filled};
use crate::serve::gate::Snapshot;
use crate::serve::pages::shown::covers;
use crate::serve::state::Service;
use countersign_model::license::{License, LicenseState, SiteLimit};
use countersign_model::license_key::LicenseId;
use countersign_model::text::outside_text::OutsideText;

/// A license that ends within so many days is marked.
const SOON: Days = Days::new(7);

/// A license as its customer sees it.
pub(super) struct ShownLicense<'w> {
    pub(super) id: LicenseId,
    pub(super) covers: OutsideText,
    pub(super) state: &'w str,
    pub(super) pill_class: &'static str,
    pub(super) is_active: bool,
    /// How many sites use it, and how many may.
    pub(super) used: String,
    /// What the end is, and when.
    pub(super) end_word: &'w str,
    pub(super) end: String,
    pub(super) renew: Option<String>,
    pub(super) upgrade: Option<String>,
}

impl<'w> ShownLicense<'w> {
    pub(super) fn of(
        service: &Service,
        snapshot: &Snapshot,
        words: &'w AccountWords,
        license: &License,
        today: NaiveDate,
    ) -> Self {
        let state = license.state(today);
        let renews = license.renews();
        let ends_soon = !renews && license.expires <= today + SOON;
        let (word, pill_class) = match state {
            LicenseState::Active if ends_soon => (&words.ends_soon, "warn"),
            LicenseState::Active => (&words.active, "good"),
            LicenseState::Expired => (&words.expired, ""),
            LicenseState::Suspended => (&words.suspended, "warn"),
            LicenseState::Revoked => (&words.revoked, "bad"),
        };
        let rules = service.gate.rules();
        let used = license.used_seats(&service.gate.bindings().of(&license.id), &rules.staging);
        let used = used.to_string();
        let used = match license.sites {
            SiteLimit::Limited(limit) => filled(
                &words.used_of,
                &[("used", used.as_str()), ("limit", &limit.to_string())],
            ),
            SiteLimit::Unlimited => filled(&words.used_any, &[("used", used.as_str())]),
        };
        let day = words.day(license.end_on(today));
        let (end_word, end) = match state {
            LicenseState::Expired => (&words.ended, day),
            LicenseState::Active if renews => (&words.renews, filled(&words.by_itself, &[("day", day.as_str())])),
            _ => (&words.ends, day),
        };
        let links = service.license_links(snapshot, license);
        Self {
            id: license.id,
            covers: covers(license, snapshot),
            state: word,
            pill_class,
            is_active: state == LicenseState::Active,
            used,
            end_word,
            end,
            renew: links.renew,
            upgrade: links.upgrade.filter(|_| state == LicenseState::Active),
        }
    }
}
