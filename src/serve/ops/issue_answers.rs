//! `POST /licenses/new` of the admin socket: issues a license into the ledger for `license issue`, and returns its key.
//!
//! A command without a server carries out the same order itself.

use std::num::NonZeroU32;
use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};
use serde::{Deserialize, Serialize};

use crate::serve::found_license::{self, ChangeError};
use crate::serve::license_mails::MailsOrder;
use crate::serve::ops::command_user::GivenOrder;
use crate::serve::ops::license_answers::{LedgerTools, NO_SECRETS, NewKey, named_note};
use crate::serve::state::Service;
use countersign_ledger::{ChangeBasis, ChangeOutcome, ChangeRefusal, LedgerChange, StoreError};
use countersign_model::customer::CustomerAddress;
use countersign_model::issuing_key::IssueRequest;
use countersign_model::license::{License, LicenseDetails, LicenseStatus, Modules, SiteLimit};
use countersign_model::license_key::LicenseId;
use countersign_model::offer::SalesMode;
use countersign_model::remarks::NewRemarks;
use countersign_model::rights::Rights;
use countersign_model::site_host::SiteHost;

/// A license to issue.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IssueOrder {
    /// Names the request. The order with the same name and the same `typed` gets the same license and key.
    pub request: String,
    /// What a person asked for, as text. A period such as `+1y` gives another last day tomorrow, but it is the same request.
    pub typed: String,
    /// The license, as it is today.
    pub grant: LicenseGrant,
    /// The address of its customer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub customer: Option<CustomerAddress>,
    /// How the mails about it are to be.
    #[serde(default)]
    pub mails: MailsOrder,
}

/// What a new license grants.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LicenseGrant {
    /// Modules with their features.
    pub modules: Modules,
    /// The last day, in UTC.
    pub expires: NaiveDate,
    /// How many sites; `None` for any number.
    pub sites: Option<NonZeroU32>,
    /// Hours that a site may go on without an answer; `None` for the server's setting.
    pub grace_period_hours: Option<u16>,
    /// How many staging copies need no seat; `None` for the server's setting.
    pub staging_sites: Option<u16>,
    /// How often it may move in 30 days without the vendor; `None` for the server's setting.
    pub site_moves: Option<u16>,
    /// Rights of its own.
    #[serde(default)]
    pub rights: Rights,
    /// Sites that have a seat before they validate.
    pub hosts: Vec<SiteHost>,
    /// A note for the vendor.
    pub note: String,
}

/// The result of an order.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IssueReply {
    /// The license is in the ledger.
    Issued {
        /// Its id and its key.
        new: NewKey,
        /// When an earlier request issued it; `None` if it is new.
        earlier: Option<DateTime<Utc>>,
    },
    /// Nothing was issued. Why.
    Refused(String),
}

impl LicenseGrant {
    /// The active license with this id that grants this.
    pub fn license(self, id: LicenseId) -> License {
        License {
            id,
            status: LicenseStatus::Active,
            expires: self.expires,
            modules: Arc::new(self.modules),
            sites: self.sites.map_or(SiteLimit::Unlimited, SiteLimit::Limited),
            grace_period_hours: self.grace_period_hours,
            details: LicenseDetails {
                hosts: self.hosts.into(),
                note: self.note,
                staging_sites: self.staging_sites,
                site_moves: self.site_moves,
                rights: self.rights,
                ..LicenseDetails::default()
            }
            .into(),
            is_declared: false,
        }
    }
}

impl LedgerTools<'_> {
    /// Issues a license, or finds the one that the same request issued.
    ///
    /// # Errors
    /// Nothing was written. The same order may be given again.
    pub async fn issue(&self, order: IssueOrder) -> Result<IssueReply, StoreError> {
        let Some(secrets) = &self.secrets else {
            return Ok(IssueReply::Refused(NO_SECRETS.to_owned()));
        };
        let request = IssueRequest {
            scope: &self.scope,
            mode: SalesMode::Live,
            idempotency_key: &order.request,
            body: order.typed.as_bytes(),
        };
        let new = match secrets.new_origin(&request) {
            Ok(new) => new,
            Err(error) => return Ok(IssueReply::Refused(error.to_string())),
        };
        let note = match named_note(&order.grant.note) {
            Ok(note) => note.map(Some),
            Err(reason) => return Ok(IssueReply::Refused(reason)),
        };
        let author = match self.author(None) {
            Ok(author) => author,
            Err(reason) => return Ok(IssueReply::Refused(reason)),
        };
        let keeper = self.mails_keeper(&self.scope);
        if let Err(reason) = keeper.check(&order.mails) {
            return Ok(IssueReply::Refused(reason.to_string()));
        }
        let holder = self.customer(order.customer.as_ref()).await?;
        let change = LedgerChange {
            license: order.grant.license(new.key.id()),
            remarks: NewRemarks {
                holder,
                note,
                ..NewRemarks::default()
            },
            author,
            reference: None,
            scope: Arc::clone(&new.origin.scope),
            status_by: None,
            now: Utc::now(),
            basis: ChangeBasis::Issue {
                origin: new.origin.clone(),
                retired: new.retired.clone(),
            },
        };
        let outcome = match found_license::change(self.registry, self.bindings, change).await {
            Ok(outcome) => outcome,
            Err(ChangeError::Store(error)) => return Err(error),
            Err(error) => return Ok(IssueReply::Refused(error.to_string())),
        };
        if let ChangeOutcome::Recorded(license) | ChangeOutcome::Repeated(license) = &outcome {
            // A repeated request may follow one that was killed here.
            keeper.keep(&license.license, &order.mails).await?;
        }
        let issued = |license: &License, license_key: String, earlier| IssueReply::Issued {
            new: self.new_key(license, license_key),
            earlier,
        };
        Ok(match outcome {
            ChangeOutcome::Recorded(license) => {
                tracing::info!(license = license.license.id.log_tag(), by = %new.origin.scope, "issued");
                issued(&license.license, new.key.reveal().to_owned(), None)
            }
            ChangeOutcome::Repeated(license) => match secrets.license_key(&license.origin) {
                Some(key) => issued(&license.license, key.reveal().to_owned(), Some(license.origin.issued)),
                None => IssueReply::Refused(format!(
                    "license {} was issued by this request with a secret that is not in keys/",
                    license.license.id.log_tag()
                )),
            },
            ChangeOutcome::Refused(ChangeRefusal::OtherRequest) => {
                IssueReply::Refused("another license was issued by a request of this name".to_owned())
            }
            ChangeOutcome::Refused(_) => {
                IssueReply::Refused("the license has too many modules, features or hosts".to_owned())
            }
        })
    }
}

/// The result of an order to the running server.
pub(super) async fn issue(service: Arc<Service>, given: GivenOrder<IssueOrder>) -> Result<IssueReply, StoreError> {
    let snapshot = service.gate.snapshot();
    LedgerTools::of(&service, &snapshot, given.user)
        .issue(given.order)
        .await
}
