//! Imports licenses of another system into the ledger: those that files declare are left out, and references get their names.
//!
//! The admin socket does so for commands, and a command by itself where no server runs.

use chrono::{DateTime, NaiveDate, Utc};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use crate::serve::ops::command_user::GivenOrder;
use crate::serve::state::Service;
use countersign_ledger::{ImportOutcome, ImportRequest, Ledger, LicenseImport, MAX_IMPORT_LINES, StoreError};
use countersign_model::customer::CustomerAddress;
use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_model::license::{License, LicenseStatus, Modules, SiteLimit};
use countersign_model::license_key::LicenseId;
use countersign_model::period::deserialize_last_day;
use countersign_model::site_host::SiteHost;
use countersign_registry::Registry;
use countersign_settings::config::CustomerRule;
use countersign_settings::keys::secret_keys::ReferenceKeys;

/// Licenses to import in one commit.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ImportOrder {
    /// The licenses.
    pub licenses: Vec<ImportedLicense>,
    /// Whether to tell only what would happen.
    pub dry_run: bool,
}

/// A license of another system. Its key is not in it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ImportedLicense {
    /// Its id.
    pub id: LicenseId,
    /// Its status.
    pub status: LicenseStatus,
    /// The last day.
    #[serde(deserialize_with = "deserialize_last_day")]
    pub expires: NaiveDate,
    /// What it covers.
    pub modules: Modules,
    /// How many sites; `None` for any number.
    pub sites: Option<NonZeroU32>,
    /// What the other system calls it.
    pub reference: Option<String>,
    /// The customer's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub customer: Option<CustomerAddress>,
    /// The customer's name. It is kept with an address only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A digest of what the other system says of it.
    pub content: Hex128,
    /// The sites that are active there, and since when.
    pub hosts: Vec<(SiteHost, DateTime<Utc>)>,
}

/// What became of a license of an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImportReply {
    /// What the ledger says.
    Ledger(ImportOutcome),
    /// A file declares it, which is a decision of people.
    InFile {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
    },
}

/// Why an order was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum ImportOrderError {
    /// It has too many lines.
    #[error("an order has more than {MAX_IMPORT_LINES} licenses and sites")]
    TooManyLines,
    /// Nothing was written. The same order may be given again.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Imports the licenses of an order. `keys` give references and customers their names; without them, licenses have neither.
///
/// # Errors
/// No license was written.
pub async fn carry_out(
    registry: &Registry,
    bindings: &Ledger,
    keys: Option<&ReferenceKeys>,
    customers: CustomerRule,
    order: ImportOrder,
) -> Result<Vec<ImportReply>, ImportOrderError> {
    if !bindings.may_issue() {
        return Err(StoreError::Differs.into());
    }
    let lines: usize = order.licenses.iter().map(|license| 1 + license.hosts.len()).sum();
    if lines > MAX_IMPORT_LINES {
        return Err(ImportOrderError::TooManyLines);
    }
    let in_file = |id: &LicenseId| {
        let (file, line) = registry.place(id).filter(|_| bindings.issued(id).is_none())?;
        let file = file.to_owned();
        Some(ImportReply::InFile { file, line })
    };
    let places: Vec<_> = order.licenses.iter().map(|license| in_file(&license.id)).collect();
    let of_ledger = order
        .licenses
        .into_iter()
        .zip(&places)
        .filter(|(_, place)| place.is_none());
    let licenses: Vec<_> = of_ledger.map(|(license, _)| license).collect();
    let holders = match keys {
        Some(keys) if !order.dry_run => holders(bindings, keys, customers, &licenses).await?,
        _ => HashMap::new(),
    };
    let import = |license: ImportedLicense| {
        let holder = holders.get(&license.id).copied();
        license.into_import(keys, holder)
    };
    let import = ImportRequest {
        licenses: licenses.into_iter().map(import).collect(),
        now: Utc::now(),
    };
    let outcomes = match order.dry_run {
        true => bindings.preview_import(&import),
        false if import.licenses.is_empty() => Vec::new(),
        false => {
            let licenses = import.licenses.len();
            let outcomes = bindings.import(import).await?;
            tracing::info!(licenses, by = "operator:cli", "imported");
            outcomes
        }
    };
    let mut outcomes = outcomes.into_iter().map(ImportReply::Ledger);
    let replies = places.into_iter().map(|place| place.or_else(|| outcomes.next()));
    Ok(replies.flatten().collect())
}

/// The numbers of the customers of licenses that the ledger lacks. An import of what is there keeps nobody: who was erased stays so.
async fn holders(
    bindings: &Ledger,
    keys: &ReferenceKeys,
    rule: CustomerRule,
    licenses: &[ImportedLicense],
) -> Result<HashMap<LicenseId, Hex128>, StoreError> {
    let mut ids = Vec::new();
    let mut new = Vec::new();
    for license in licenses {
        let Some(address) = license
            .customer
            .as_ref()
            .filter(|_| bindings.issued(&license.id).is_none())
        else {
            continue;
        };
        let customer = keys.customer(address, license.name.as_deref(), &ChangeScope::importer(), rule);
        new.push(customer.map_err(|error| StoreError::NotDurable(error.to_string().into()))?);
        ids.push(license.id);
    }
    match new.is_empty() {
        true => Ok(HashMap::new()),
        false => Ok(ids.into_iter().zip(bindings.keep_customers(new).await?).collect()),
    }
}

impl ImportedLicense {
    fn into_import(self, keys: Option<&ReferenceKeys>, holder: Option<Hex128>) -> LicenseImport {
        LicenseImport {
            license: License {
                id: self.id,
                status: self.status,
                expires: self.expires,
                modules: Arc::new(self.modules),
                sites: self.sites.map_or(SiteLimit::Unlimited, SiteLimit::Limited),
                grace_period_hours: None,
                details: Default::default(),
                is_declared: false,
            },
            reference: self
                .reference
                .as_deref()
                .zip(keys)
                .map(|(reference, keys)| keys.reference(reference)),
            holder,
            content: self.content,
            sites: self.hosts,
        }
    }
}

/// The result of an order.
pub(super) async fn answer(
    service: Arc<Service>,
    given: GivenOrder<ImportOrder>,
) -> Result<Vec<ImportReply>, ImportOrderError> {
    let snapshot = service.gate.snapshot();
    let secrets = snapshot.secrets.licensing.clone();
    let keys = secrets.as_ref().map(|secrets| secrets.references());
    carry_out(
        &snapshot.registry,
        service.gate.bindings(),
        keys,
        service.customers,
        given.order,
    )
    .await
}
