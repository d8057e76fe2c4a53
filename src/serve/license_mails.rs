//! How the mails about a license are to be, as somebody says it: kept beside the ledger, where it can be erased.

use serde::{Deserialize, Serialize};

use crate::serve::customer_numbers::{self, SaidCustomer};
use countersign_ledger::{Ledger, StoreError};
use countersign_model::customer::{CustomerAddress, LicenseMails, NewCustomer};
use countersign_model::issued_license::ChangeScope;
use countersign_model::language::Language;
use countersign_model::license::License;
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
    /// Who has this address.
    Address(CustomerAddress),
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
