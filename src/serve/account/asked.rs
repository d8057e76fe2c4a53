//! What a page for a customer is asked: by whom, about what, with which fields.

use std::net::IpAddr;
use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};

use crate::serve::account::frame::AccountFrame;
use crate::serve::account::problem::{AccountProblem, AccountRefusal};
use crate::serve::account::setup::AccountSetup;
use crate::serve::account::words::AccountWords;
use crate::serve::found_license::{self, FoundLicense};
use crate::serve::gate::Snapshot;
use crate::serve::pages::answer::PageAnswer;
use crate::serve::pages::form::FormFields;
use crate::serve::pages::session::{PageSession, SessionOwner};
use crate::serve::state::Service;
use countersign_ledger::{Ledger, StoreError};
use countersign_model::customer::CustomerRow;
use countersign_model::issued_license::Hex128;
use countersign_model::license_key::LicenseId;
use countersign_model::text::outside_text::OutsideText;
use countersign_settings::keys::license_secrets::LicenseSecrets;

/// A customer who is signed in.
#[derive(Debug)]
pub(super) struct AccountVisitor {
    pub(super) session: PageSession,
    /// The name of the row of the address.
    pub(super) name: Hex128,
    pub(super) row: CustomerRow,
}

impl AccountVisitor {
    /// Whose session it is; `None` for a stranger, and for who was erased since.
    ///
    /// # Errors
    /// The texts beside the ledger cannot be read.
    pub(super) async fn of(session: PageSession, ledger: &Ledger) -> Result<Option<Self>, StoreError> {
        let SessionOwner::Person(name) = session.owner else {
            return Ok(None);
        };
        let row = customer_row(ledger, vec![name]).await?;
        Ok(row.map(|(_, row)| Self { session, name, row }))
    }
}

/// The row of an address, by one of its names; `None` if nobody has it.
///
/// # Errors
/// The texts beside the ledger cannot be read.
pub(super) async fn customer_row(
    ledger: &Ledger,
    names: Vec<Hex128>,
) -> Result<Option<(Hex128, CustomerRow)>, StoreError> {
    let kept = ledger.texts(names).await?;
    let rows = kept
        .iter()
        .filter_map(|(name, stored)| Some((*name, stored.customer()?)));
    let mut known = rows.filter(|(_, row)| row.is_of_address() && !ledger.is_erased(row.number));
    Ok(known.next().map(|(name, row)| (name, row.clone())))
}

/// A request of a customer who is signed in.
pub(super) struct AccountAsked<'a> {
    pub(super) service: &'a Arc<Service>,
    pub(super) setup: &'a AccountSetup,
    pub(super) secrets: &'a Arc<LicenseSecrets>,
    pub(super) snapshot: &'a Arc<Snapshot>,
    pub(super) visitor: &'a AccountVisitor,
    pub(super) words: &'a AccountWords,
    pub(super) fields: &'a FormFields,
    /// The part of the path that names a license.
    pub(super) name: &'a str,
    pub(super) client: IpAddr,
    pub(super) now: DateTime<Utc>,
}

impl<'a> AccountAsked<'a> {
    pub(super) fn today(&self) -> NaiveDate {
        self.now.date_naive()
    }

    /// What is around a page.
    pub(super) fn frame(&self, title: &'a str) -> AccountFrame<'a> {
        let address = self.visitor.row.address.as_deref().map(OutsideText::of);
        AccountFrame {
            who: Some(address.unwrap_or_default()),
            ..AccountFrame::new(self.setup, self.words, title)
        }
    }

    /// The page of a license, with what was done.
    pub(super) fn done(id: LicenseId, word: &str) -> PageAnswer {
        PageAnswer::SeeOther(format!("/account/licenses/{id}?done={word}"))
    }

    /// The license that the path names, if it is the customer's.
    ///
    /// # Errors
    /// Nobody has it, or somebody else.
    // SECURITY: both are the same to who asks.
    pub(super) fn license(&self) -> Result<FoundLicense<'a>, AccountProblem> {
        let id: Option<LicenseId> = self.name.parse().ok();
        let find = |id| found_license::find(&self.snapshot.registry, self.service.gate.bindings(), &id);
        let found = id.and_then(find);
        let own = found.filter(|found| found.details.remarks().holder == Some(self.visitor.row.number));
        own.ok_or_else(|| AccountRefusal::NotFound.into())
    }
}
