//! `POST /licenses` of the admin socket: changes a license of the ledger, or bindings, for commands beside a running server.
//!
//! A command without a server carries out the same orders itself.

use std::fmt;
use std::sync::Arc;

use chrono::{SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use crate::serve::found_license::ChangeError;
use crate::serve::gate::Snapshot;
use crate::serve::ledger_licenses::{self, ExpectedRevision, LicenseChangeError};
use crate::serve::state::Service;
use countersign_ledger::{Bindings, ChangeOutcome, ChangeRefusal, StoreError};
use countersign_mail::NO_MAIL_SERVER;
use countersign_mail::address::MailAddress;
use countersign_mail::queue::MailQueue;
use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_model::issuing_key::IssueRequest;
use countersign_model::license::LicenseStatus;
use countersign_model::license_key::LicenseId;
use countersign_model::license_step::{LicenseStep, StepRefusal};
use countersign_model::offer::SalesMode;
use countersign_registry::Registry;
use countersign_settings::keys::license_secrets::LicenseSecrets;

/// What to do with a license.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LicenseOrder {
    /// Which license.
    pub license: LicenseId,
    /// What happens.
    pub action: LicenseAction,
}

/// What happens to a license.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LicenseAction {
    /// It changes.
    Step(LicenseStep),
    /// Another one with a new key takes its place.
    Rekey,
    /// Its key is mailed to this address.
    Resend(MailAddress),
}

/// What became of an order.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LicenseReply {
    /// It is in force.
    Done {
        /// Whether it was not so before.
        changed: bool,
    },
    /// The license that takes its place.
    Rekeyed(NewKey),
    /// The mail is in the queue.
    Queued,
    /// Nothing was changed. Why.
    Refused(String),
}

/// A license with its key.
// SECURITY: the key stays out of logs.
#[derive(Serialize, Deserialize)]
pub struct NewKey {
    /// The license.
    pub id: LicenseId,
    /// Its key.
    pub license_key: String,
}

impl fmt::Debug for NewKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NewKey({}, redacted)", self.id.log_tag())
    }
}

/// What orders are carried out with, in a server and in a command.
pub struct LedgerTools<'a> {
    /// The licenses of files.
    pub registry: &'a Registry,
    /// The ledger.
    pub bindings: &'a dyn Bindings,
    /// `None` where no machine issues licenses.
    pub secrets: Option<Arc<LicenseSecrets>>,
    /// `None` without a mail server.
    pub mail: Option<Arc<MailQueue>>,
}

impl<'a> LedgerTools<'a> {
    /// Those of a server.
    pub(super) fn of(service: &'a Service, snapshot: &'a Snapshot) -> Self {
        Self {
            registry: &snapshot.registry,
            bindings: service.gate.bindings(),
            secrets: snapshot.secrets.licensing.clone(),
            mail: service.mail.get().cloned(),
        }
    }
}

impl LedgerTools<'_> {
    /// Carries out an order of a command.
    ///
    /// # Errors
    /// Nothing was written. The same order may be given again.
    pub async fn carry_out(&self, order: LicenseOrder) -> Result<LicenseReply, StoreError> {
        let LicenseOrder { license, action } = order;
        let done = match action {
            LicenseAction::Step(step) => self.step(license, &step).await,
            LicenseAction::Rekey => self.rekey(license).await,
            LicenseAction::Resend(address) => self.resend(license, address).await,
        };
        match done {
            Ok(reply) => Ok(reply),
            Err(LicenseChangeError::Change(ChangeError::Store(error))) => Err(error),
            Err(error) => Ok(LicenseReply::Refused(error.to_string())),
        }
    }

    async fn step(&self, id: LicenseId, step: &LicenseStep) -> Result<LicenseReply, LicenseChangeError> {
        if step.is_about_bindings()
            && let Some(license) = self.registry.license(&id)
        {
            let changed = ledger_licenses::change_bindings(self.registry, self.bindings, license, step).await?;
            return Ok(LicenseReply::Done { changed });
        }
        let scope = Arc::new(ChangeScope::operator());
        let any = ExpectedRevision::Any;
        let (_, changed) = ledger_licenses::apply(self.registry, self.bindings, &scope, id, any, step).await?;
        Ok(LicenseReply::Done { changed })
    }

    async fn rekey(&self, id: LicenseId) -> Result<LicenseReply, LicenseChangeError> {
        let Some(secrets) = &self.secrets else {
            return Ok(LicenseReply::Refused(NO_SECRETS.to_owned()));
        };
        let mut random = [0; 16];
        if let Err(error) = getrandom::fill(&mut random) {
            return Ok(LicenseReply::Refused(error.to_string()));
        }
        let body = format!("rekey {id}");
        let request = IssueRequest {
            scope: &Arc::new(ChangeScope::operator()),
            mode: SalesMode::Live,
            // Each order is a request of its own.
            idempotency_key: &Hex128(random).to_string(),
            body: body.as_bytes(),
        };
        let new = match secrets.new_origin(&request) {
            Ok(new) => new,
            Err(error) => return Ok(LicenseReply::Refused(error.to_string())),
        };
        let any = ExpectedRevision::Any;
        match ledger_licenses::rekey(self.registry, self.bindings, &new, id, any).await? {
            ChangeOutcome::Recorded(issued) | ChangeOutcome::Repeated(issued) => Ok(LicenseReply::Rekeyed(NewKey {
                id: issued.license.id,
                license_key: new.key.reveal().to_owned(),
            })),
            ChangeOutcome::Refused(ChangeRefusal::Revoked) => Err(StepRefusal::Revoked.into()),
            ChangeOutcome::Refused(refusal) => Err(LicenseChangeError::Refused(refusal)),
        }
    }

    async fn resend(&self, id: LicenseId, address: MailAddress) -> Result<LicenseReply, LicenseChangeError> {
        let refused = |reason: &str| Ok(LicenseReply::Refused(reason.to_owned()));
        let found = ledger_licenses::find(self.registry, self.bindings, &id).await?;
        if found.license.status == LicenseStatus::Revoked {
            return Err(StepRefusal::Revoked.into());
        }
        let Some(secrets) = &self.secrets else {
            return refused(NO_SECRETS);
        };
        if secrets.license_key(&found.origin).is_none() {
            return refused("the secret that it was issued with is not in keys/");
        }
        let Some(queue) = self.mail.clone() else {
            return refused(NO_MAIL_SERVER);
        };
        let now = Utc::now();
        // Each order is a mail of its own.
        let event = format!("resend {id} {}", now.to_rfc3339_opts(SecondsFormat::Nanos, true));
        let queued = spawn_blocking(move || queue.enqueue(&address, &[id], &event, now)).await;
        match queued {
            Ok(Ok(_)) => {
                tracing::info!(
                    license = id.log_tag(),
                    by = "operator:cli",
                    "the license key will be mailed again"
                );
                Ok(LicenseReply::Queued)
            }
            Ok(Err(error)) => refused(&error.to_string()),
            Err(error) => refused(&error.to_string()),
        }
    }
}

/// Why no key can be made or told.
pub(super) const NO_SECRETS: &str = "there are no keys to issue licenses with in keys/";

/// The result of an order to the running server.
pub(super) async fn change(service: Arc<Service>, order: LicenseOrder) -> Result<LicenseReply, StoreError> {
    let snapshot = service.gate.snapshot();
    LedgerTools::of(&service, &snapshot).carry_out(order).await
}
