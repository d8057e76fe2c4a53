//! What the license key alone shows: the state of the license, how many seats are used, and whether the site that somebody names has one.
//!
//! SECURITY: a key is shared with agencies and their customers, so no other site is named.

use std::sync::Arc;

use askama::Template;
use chrono::{DateTime, Utc};

use crate::serve::account::frame::AccountFrame;
use crate::serve::account::page_table::AccountPage;
use crate::serve::account::problem::{AccountProblem, AccountRefusal};
use crate::serve::account::setup::AccountSetup;
use crate::serve::account::shown_license::ShownLicense;
use crate::serve::account::words::AccountWords;
use crate::serve::api::params::{find_license, license_id};
use crate::serve::pages::answer::PageAnswer;
use crate::serve::pages::form::FormFields;
use crate::serve::pages::shown::ShownHost;
use crate::serve::state::Service;
use countersign_ledger::LedgerLook;
use countersign_model::license_key::LicenseKey;
use countersign_model::seat::Seat;
use countersign_model::site_host::SiteHost;

#[derive(Template)]
#[template(path = "account/key.html")]
struct AccountKeyPage<'a> {
    frame: AccountFrame<'a>,
    found: Option<ShownLicense<'a>>,
    /// The site that was named, and whether it has a seat.
    own: Option<(ShownHost, &'a str)>,
}

/// A look at a license by its key.
pub(super) struct KeyLookUp<'a> {
    pub(super) service: &'a Arc<Service>,
    pub(super) setup: &'a AccountSetup,
    pub(super) words: &'a AccountWords,
    pub(super) fields: &'a FormFields,
    pub(super) now: DateTime<Utc>,
}

impl KeyLookUp<'_> {
    /// The page, or what the form shows.
    pub(super) async fn answer(&self, page: AccountPage) -> Result<PageAnswer, AccountProblem> {
        match page {
            AccountPage::LookUp => self.look_up().await.map_err(|problem| problem.back_to("/account/key")),
            _ => Ok(self.page(None, None)),
        }
    }

    fn page<'p>(&'p self, found: Option<ShownLicense<'p>>, own: Option<(ShownHost, &'p str)>) -> PageAnswer {
        PageAnswer::ok(&AccountKeyPage {
            frame: AccountFrame::new(self.setup, self.words, &self.words.by_key_title),
            found,
            own,
        })
    }

    async fn look_up(&self) -> Result<PageAnswer, AccountProblem> {
        let service = self.service;
        service.catch_up().await;
        let unknown = || AccountProblem::from(AccountRefusal::UnknownKey);
        let id = license_id(service, Some(self.fields.get("license_key"))).map_err(|_| unknown())?;
        let snapshot = service.gate.snapshot();
        let too_many = |_| AccountProblem::from(AccountRefusal::TooMany);
        let mut found = find_license(service, &snapshot, &id).map_err(too_many)?;
        if found.is_none()
            && let Some(look) = service.gate.bindings().refresh(LedgerLook::Read)
        {
            // Another node may have issued it a moment ago.
            service.within_deadline(look).await?;
            found = service.gate.license(&snapshot, &id);
        }
        let license = found.ok_or_else(unknown)?;
        let own = match self.fields.get("site_url") {
            "" => None,
            url if LicenseKey::is_in(url) => return Err(AccountRefusal::BadSite.into()),
            url => {
                let host: SiteHost = url.parse().map_err(|_| AccountRefusal::BadSite)?;
                let bound = service.gate.bindings().of(&id);
                let has_seat = license.seat(&bound, &service.gate.rules().staging, &host) == Seat::Held;
                let text = if has_seat {
                    &self.words.here
                } else {
                    &self.words.not_here
                };
                Some((ShownHost::from(&host), text.as_str()))
            }
        };
        let shown = ShownLicense::of(service, &snapshot, self.words, &license, self.now.date_naive());
        let shown = ShownLicense {
            // What is bought for a license is its customer's business.
            renew: None,
            upgrade: None,
            ..shown
        };
        Ok(self.page(Some(shown), own))
    }
}
