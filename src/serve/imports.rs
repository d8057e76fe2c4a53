//! Imports licenses of another system into the ledger: those that files declare are left out, and references get their names.
//!
//! The admin socket does so for commands, and a command by itself where no server runs.

use chrono::{DateTime, NaiveDate, Utc};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use countersign_ledger::{ImportOutcome, ImportRequest, Ledger, LicenseImport, MAX_IMPORT_LINES, StoreError};
use countersign_model::issued_license::Hex128;
use countersign_model::license::{License, LicenseStatus, Modules, SiteLimit};
use countersign_model::license_key::LicenseId;
use countersign_model::order_reference::OrderReference;
use countersign_model::period::deserialize_last_day;
use countersign_model::site_host::SiteHost;
use countersign_registry::Registry;

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

/// Gives the text of a reference its names, which the ledger has.
pub type NameReference<'a> = dyn Fn(&str) -> OrderReference + Sync + 'a;

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

/// Imports the licenses of an order. `name` gives a reference its names; without it, licenses have no reference.
///
/// # Errors
/// Nothing was written.
pub async fn carry_out(
    registry: &Registry,
    bindings: &Ledger,
    name: Option<&NameReference<'_>>,
    order: ImportOrder,
) -> Result<Vec<ImportReply>, ImportOrderError> {
    if !bindings.may_issue() {
        return Err(StoreError::Differs.into());
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
    let import = ImportRequest {
        licenses: of_ledger.map(|(license, _)| license.into_import(name)).collect(),
        now: Utc::now(),
    };
    if import.lines() > MAX_IMPORT_LINES {
        return Err(ImportOrderError::TooManyLines);
    }
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

impl ImportedLicense {
    fn into_import(self, name: Option<&NameReference<'_>>) -> LicenseImport {
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
                .zip(name)
                .map(|(reference, name)| name(reference)),
            content: self.content,
            sites: self.hosts,
        }
    }
}
