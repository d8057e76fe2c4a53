//! How the mails about a license are to be, as somebody says it: kept beside the ledger, where it can be erased. And the mail with
//! a key that somebody asks for.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use tokio::task::{JoinError, spawn_blocking};

use crate::serve::customer_numbers::{self, SaidCustomer};
use crate::serve::links::FirstCopyPages;
use crate::serve::pages::shown::sentence;
use crate::serve::reply::problem::Problem;
use countersign_ledger::{Handout, Ledger, LedgerLicense, NewHandout, StoreError};
use countersign_mail::NO_MAIL_SERVER;
use countersign_mail::address::MailAddress;
use countersign_mail::queue::MailQueue;
use countersign_mail::queued_mail::{MailQueueError, QueuedMail};
use countersign_model::customer::{CustomerAddress, LicenseMails, NewCustomer};
use countersign_model::digest::Digest;
use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_model::language::Language;
use countersign_model::license::{License, LicenseStatus};
use countersign_model::license_key::LicenseId;
use countersign_model::remarks::Author;
use countersign_settings::config::CustomerRule;
use countersign_settings::keys::license_secrets::LicenseSecrets;

/// How the mails about a license are to be. What is absent stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailsOrder {
    /// Their language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<Language>,
    /// Who gets the reminders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reminders_to: Option<RemindersTo>,
}

/// Who gets the reminders of a license.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemindersTo {
    /// Its customer.
    Customer,
    /// The person with this address.
    Address(CustomerAddress),
}

/// What is mailed of a license again, because somebody asks for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MailedAgain {
    /// Its key, with the page of its first copies if there is one.
    #[default]
    Key,
    /// The page of its first copies, without the key.
    Download,
}

/// Why nothing is mailed again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotMailedAgain {
    #[error("the license is revoked, which cannot be undone")]
    Revoked,
    #[error("the secret that it was issued with is not in keys/")]
    NoSecret,
    #[error("the server has no first copies of what the license covers")]
    NoPage,
    #[error("{NO_MAIL_SERVER}")]
    NoMailServer,
    #[error(transparent)]
    Queue(#[from] MailQueueError),
    #[error(transparent)]
    Thread(#[from] JoinError),
    #[error("the mail is in the queue, and the history of the license lacks it")]
    NotNoted(#[from] StoreError),
}

impl From<NotMailedAgain> for Problem {
    fn from(reason: NotMailedAgain) -> Self {
        match reason {
            NotMailedAgain::Queue(MailQueueError::Full(_)) => Self::Overloaded,
            NotMailedAgain::NotNoted(error) => error.into(),
            reason @ (NotMailedAgain::Queue(_) | NotMailedAgain::Thread(_)) => Self::internal(&reason),
            NotMailedAgain::NoMailServer => {
                let detail = "This server sends no mail: `server` in table [mail] of countersign.toml is not set.";
                Self::Conflict(detail.into())
            }
            reason => Self::Conflict(sentence(&reason.to_string())),
        }
    }
}

/// What a mail about a license is made with.
pub(crate) struct MailTools<'a> {
    pub(crate) bindings: &'a Ledger,
    pub(crate) queue: Option<Arc<MailQueue>>,
    pub(crate) secrets: Option<&'a LicenseSecrets>,
    pub(crate) pages: Option<&'a FirstCopyPages>,
}

/// Somebody wants something of a license mailed again.
pub(crate) struct MailAgain {
    pub(crate) what: MailedAgain,
    pub(crate) address: MailAddress,
    /// What makes the mail one, however often it is asked for.
    pub(crate) event: String,
    pub(crate) scope: Arc<ChangeScope>,
    pub(crate) author: Author,
    pub(crate) now: DateTime<Utc>,
}

impl MailTools<'_> {
    /// Mails something of a license again, once for each event. When it returns, the mail is in the queue and the history has it.
    pub(crate) async fn mail_again(&self, issued: &LedgerLicense, wanted: MailAgain) -> Result<(), NotMailedAgain> {
        let MailAgain {
            what,
            address,
            event,
            scope,
            author,
            now,
        } = wanted;
        let license = &issued.license;
        if license.status == LicenseStatus::Revoked {
            return Err(NotMailedAgain::Revoked);
        }
        let key = || self.secrets?.license_key(&issued.origin);
        let page = || self.pages?.link(license, now.date_naive());
        let mail = match what {
            MailedAgain::Key if key().is_none() => return Err(NotMailedAgain::NoSecret),
            MailedAgain::Download if page().is_none() => return Err(NotMailedAgain::NoPage),
            MailedAgain::Key => QueuedMail::new(address, vec![license.id], &event),
            // The event may be of a form or a request that also mailed the key.
            MailedAgain::Download => QueuedMail::download(address, license.id, &format!("{event} download")),
        }?;
        let queue = self.queue.clone().ok_or(NotMailedAgain::NoMailServer)?;
        spawn_blocking(move || queue.put(mail, now)).await??;
        let what = match what {
            MailedAgain::Key => Handout::Key,
            MailedAgain::Download => Handout::Page,
        };
        let [id @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] =
            *Digest::of(format!("{event} {what:?}").as_bytes()).as_bytes();
        let handout = NewHandout {
            id: Hex128(id),
            license: license.id,
            what,
            scope,
            author,
            now,
        };
        Ok(self.bindings.note_handout(handout).await?)
    }
}

/// Puts the mail with the key of a license into the queue, once for each `event`.
///
/// # Errors
/// The queue is full, or the disk fails.
pub(crate) async fn enqueue_key(
    queue: Arc<MailQueue>,
    address: MailAddress,
    license: LicenseId,
    event: String,
    now: DateTime<Utc>,
) -> Result<(), Problem> {
    let queued = spawn_blocking(move || queue.enqueue(&address, &[license], &event, now)).await;
    match queued.map_err(|error| Problem::internal(&error))? {
        Ok(_) => Ok(()),
        Err(MailQueueError::Full(_)) => Err(Problem::Overloaded),
        Err(error) => Err(Problem::internal(&error)),
    }
}

/// Nothing is kept of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotKept {
    #[error("[serve] customers is \"hash\", so no address is kept that reminders could go to")]
    Hash,
    #[error("there are no keys to issue licenses with in keys/")]
    NoSecrets,
}

/// Who keeps it, and how.
pub(crate) struct MailsKeeper<'a> {
    pub(crate) bindings: &'a Ledger,
    pub(crate) secrets: Option<&'a LicenseSecrets>,
    pub(crate) rule: CustomerRule,
    pub(crate) by: &'a ChangeScope,
}

impl MailsKeeper<'_> {
    /// Whether this can be kept.
    pub(crate) fn check(&self, mails: &MailsOrder) -> Result<(), NotKept> {
        match &mails.reminders_to {
            Some(RemindersTo::Address(_)) if self.rule == CustomerRule::Hash => Err(NotKept::Hash),
            Some(RemindersTo::Address(_)) if self.secrets.is_none() => Err(NotKept::NoSecrets),
            _ => Ok(()),
        }
    }

    /// Keeps it. Gives whether it was not so before. Call [`check`](Self::check) first.
    ///
    /// # Errors
    /// It could not be written. The same may be asked again.
    pub(crate) async fn keep(&self, license: &License, mails: &MailsOrder) -> Result<bool, StoreError> {
        if *mails == MailsOrder::default() {
            return Ok(false);
        }
        let reminders_to = match (&mails.reminders_to, self.secrets) {
            (Some(RemindersTo::Address(address)), Some(secrets)) => {
                let said = SaidCustomer {
                    address,
                    name: None,
                    by: self.by,
                };
                Some(customer_numbers::number(self.bindings, secrets, said, self.rule).await?)
            }
            _ => None,
        };
        let kept = LicenseMails {
            language: mails.language.clone(),
            product: None,
            reminders_to,
        };
        let holder = license.details.remarks().holder;
        let mut new = NewCustomer::of_license(&license.id, holder, self.by, kept);
        if mails.reminders_to == Some(RemindersTo::Customer)
            && let Some(kept) = &mut new.row.mails
        {
            kept.reminders_to = Some(new.row.number);
        }
        let before = self.bindings.texts(new.names.clone()).await?;
        let before = before.iter().find_map(|(_, stored)| stored.customer());
        let changed = before.is_none_or(|before| before.with(&new.row) != *before);
        if changed {
            self.bindings.keep_customers(vec![new]).await?;
        }
        Ok(changed)
    }

    /// Has what is kept of a license be erased with its new customer.
    ///
    /// # Errors
    /// As [`keep`](Self::keep).
    pub(crate) async fn follow(&self, license: &License) -> Result<(), StoreError> {
        let holder = license.details.remarks().holder;
        let new = NewCustomer::of_license(&license.id, holder, self.by, LicenseMails::default());
        if !self.bindings.texts(new.names.clone()).await?.is_empty() {
            self.bindings.keep_customers(vec![new]).await?;
        }
        Ok(())
    }
}
