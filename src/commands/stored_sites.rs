//! What the store knows of sites: their bindings from the ledger, and what they reported from the running server, or
//! from the index if no server runs.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};

use crate::commands::Failure;
use crate::commands::server_questions::{self, QuestionError};
use crate::commands::store::{store_failure, store_source};
use countersign_ledger::log::ClaimEntry;
use countersign_ledger::{FirstCopiesByLicense, RefusedByLicense, SiteReports, StoreError, StoreReader, VouchEntry};
use countersign_model::issued_license::IssuedLicense;
use countersign_model::license_key::LicenseId;
use countersign_model::site_host::SiteHost;
use countersign_model::site_release::SiteRelease;
use countersign_model::text::ErrorChain;
use countersign_settings::config::Config;

/// The sites of each license, void ones included.
pub(super) type SitesByLicense = HashMap<LicenseId, Vec<SiteHost>>;

/// The releases by clients of each license.
pub(super) type MovesByLicense = HashMap<LicenseId, Vec<SiteRelease>>;

/// Why what sites reported is not known.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReportsNotReadable {
    #[error("the index of the store, which has what sites reported, cannot be opened")]
    NoIndex,
    #[error(transparent)]
    Server(#[from] QuestionError),
    #[error("what sites reported cannot be read")]
    Store(#[from] StoreError),
}

impl From<ReportsNotReadable> for Failure {
    fn from(error: ReportsNotReadable) -> Self {
        match error {
            ReportsNotReadable::Server(error) => error.into(),
            ReportsNotReadable::Store(error) => store_failure(error),
            ReportsNotReadable::NoIndex => Self::environment(error).hint(
                "run this as the user of the server; `countersign bindings verify` says what is wrong with the index",
            ),
        }
    }
}

impl ReportsNotReadable {
    /// The error and its causes on one line.
    pub(super) fn line(&self) -> String {
        ErrorChain(self).first_line()
    }
}

/// Every site that was bound; none where no server has run.
pub(super) fn bound_sites(config: &Config) -> Result<SitesByLicense, Failure> {
    let mut sites = SitesByLicense::new();
    match opened(config)? {
        None => {}
        Some(store) => store
            .export(|license, binding| sites.entry(license).or_default().push(binding.host))
            .map_err(store_failure)?,
    }
    Ok(sites)
}

/// The licenses that programs issued, sorted by id; none where there is no store.
pub(super) fn issued_licenses(config: &Config) -> Result<Vec<IssuedLicense>, Failure> {
    countersign_ledger::issued_licenses(store_source(&config.paths)).map_err(store_failure)
}

/// The moves of each license in the last 30 days, in the order of the ledger.
pub(super) fn moves(config: &Config, now: DateTime<Utc>) -> Result<MovesByLicense, Failure> {
    let moves = opened(config)?.map(|store| store.moves(now)).transpose();
    Ok(moves.map_err(store_failure)?.unwrap_or_default())
}

/// The claims of sites that were installed again: those that wait, and those of the last 30 days.
pub(super) fn claims(config: &Config, now: DateTime<Utc>) -> Result<Vec<ClaimEntry>, Failure> {
    let claims = opened(config)?.map(|store| store.claims(now)).transpose();
    Ok(claims.map_err(store_failure)?.unwrap_or_default())
}

/// The licenses that somebody vouched for on this day, the latest first; none where no server has run.
pub(super) fn vouches(config: &Config, today: NaiveDate) -> Result<Vec<Arc<VouchEntry>>, Failure> {
    let vouches = opened(config)?.map(|store| store.vouches(today)).transpose();
    Ok(vouches.map_err(store_failure)?.unwrap_or_default())
}

/// What every site reported; nothing where no server has run.
pub(super) fn reports(config: &Config) -> Result<Result<SiteReports, ReportsNotReadable>, Failure> {
    let Some(store) = opened(config)? else {
        return Ok(Ok(SiteReports::default()));
    };
    Ok(reports_in(&store, config))
}

/// The same from a store that is open.
pub(super) fn reports_in(store: &StoreReader, config: &Config) -> Result<SiteReports, ReportsNotReadable> {
    if store.is_in_use() {
        return Ok(server_questions::reports(config, None)?);
    }
    store.reports()?.ok_or(ReportsNotReadable::NoIndex)
}

/// The hosts that licenses were refused to; none where no server has run.
pub(super) fn refused(config: &Config) -> Result<RefusedByLicense, Failure> {
    match opened(config)? {
        None => Ok(RefusedByLicense::default()),
        Some(store) if store.is_in_use() => Ok(server_questions::refused(config)?),
        Some(store) => store
            .refused()
            .map_err(store_failure)?
            .ok_or_else(|| ReportsNotReadable::NoIndex.into()),
    }
}

/// The first copies that licenses gave; none where no server has run.
pub(super) fn first_copies(config: &Config) -> Result<FirstCopiesByLicense, Failure> {
    match opened(config)? {
        None => Ok(FirstCopiesByLicense::default()),
        Some(store) if store.is_in_use() => Ok(server_questions::first_copies(config)?),
        Some(store) => store
            .first_copies()
            .map_err(store_failure)?
            .ok_or_else(|| ReportsNotReadable::NoIndex.into()),
    }
}

/// `None` where no server has run.
fn opened(config: &Config) -> Result<Option<StoreReader>, Failure> {
    match countersign_ledger::read_only(store_source(&config.paths)) {
        Err(StoreError::Missing(_)) => Ok(None),
        opened => opened.map(Some).map_err(store_failure),
    }
}
