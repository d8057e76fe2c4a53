//! `/reports`, `/refused` and `/first-copies` of the admin socket: what sites reported, page by page, for commands beside a running
//! server; and `/license-defaults`, the server's settings for licenses that have none of their own.
//!
//! One page is read at a time, because the store's thread waits meanwhile.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use url::form_urlencoded;
use warp::http::StatusCode;

use crate::serve::reply::problem::Problem;
use crate::serve::reply::response::{JSON, Response};
use crate::serve::state::Service;
use countersign_ledger::stored_reports::{ReportRange, StoredReports};
use countersign_model::binding::SiteReport;
use countersign_model::first_copies::FirstCopies;
use countersign_model::license_key::LicenseId;
use countersign_model::refused_hosts::RefusedHosts;
use countersign_model::site_host::SiteHost;
use countersign_model::staging_hosts::StagingRule;
use countersign_settings::config::ServeConfig;

/// Sites on a page: a few milliseconds of reading.
const SITES: usize = 1_000;

/// Licenses on a page of refused hosts. With 32 of the longest names each, it has 2 MB.
const LICENSES: usize = 256;

/// Time limit of a page, and of waiting for the page before it.
const PATIENCE: Duration = Duration::from_secs(10);

/// A page of `/reports`.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReportPage {
    /// In the order of license and host.
    pub reports: Vec<ReportedSite>,
    /// Whether there may be more after the last one.
    pub more: bool,
}

/// What one site reported.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReportedSite {
    /// The license that it used.
    pub license: LicenseId,
    /// The site.
    pub host: SiteHost,
    /// What it said.
    pub report: SiteReport,
}

/// A page of `/refused`.
#[derive(Debug, Serialize, Deserialize)]
pub struct RefusedPage {
    /// Licenses in their order, with the hosts that they were refused to.
    pub refused: Vec<(LicenseId, RefusedHosts)>,
    /// Whether there may be more after the last one.
    pub more: bool,
}

/// A page of `/first-copies`.
#[derive(Debug, Serialize, Deserialize)]
pub struct FirstCopiesPage {
    /// Licenses in their order, with the first copies that they gave.
    pub first_copies: Vec<(LicenseId, FirstCopies)>,
    /// Whether there may be more after the last one.
    pub more: bool,
}

/// The query of all.
#[derive(Debug, Default)]
pub(super) struct PageQuery {
    /// Only sites of this license.
    license: Option<String>,
    /// The end of the page before: `LICENSE:HOST`, or `LICENSE` for `/refused` and `/first-copies`.
    after: Option<String>,
}

/// Answers commands about what sites reported.
pub(super) struct ReportAnswers {
    service: Arc<Service>,
    /// One page at a time.
    turn: Arc<Semaphore>,
}

impl ReportAnswers {
    pub(super) fn new(service: Arc<Service>) -> Self {
        Self {
            service,
            turn: Arc::new(Semaphore::new(1)),
        }
    }

    /// The page of `/reports`.
    pub(super) async fn reported(&self, query: Option<PageQuery>) -> Response {
        let read = |stored: &dyn StoredReports, range: ReportRange| {
            let sites = stored.reports(&range, SITES)?;
            let more = sites.len() == SITES;
            let reports = sites
                .into_iter()
                .map(|(license, host, report)| ReportedSite { license, host, report });
            Ok(ReportPage {
                reports: reports.collect(),
                more,
            })
        };
        match query.and_then(|query| query.range()) {
            None => malformed(),
            Some(range) => self.page(move |stored| read(stored, range)).await,
        }
    }

    /// The page of `/refused`.
    pub(super) async fn refused(&self, query: Option<PageQuery>) -> Response {
        let read = |stored: &dyn StoredReports, after: Option<LicenseId>| {
            let refused = stored.refused(after.as_ref(), LICENSES)?;
            let more = refused.len() == LICENSES;
            Ok(RefusedPage { refused, more })
        };
        match query.and_then(|query| query.license_after()) {
            None => malformed(),
            Some(after) => self.page(move |stored| read(stored, after)).await,
        }
    }

    /// The page of `/first-copies`.
    pub(super) async fn first_copies(&self, query: Option<PageQuery>) -> Response {
        let read = |stored: &dyn StoredReports, after: Option<LicenseId>| {
            let first_copies = stored.first_copies(after.as_ref(), LICENSES)?;
            let more = first_copies.len() == LICENSES;
            Ok(FirstCopiesPage { first_copies, more })
        };
        match query.and_then(|query| query.license_after()) {
            None => malformed(),
            Some(after) => self.page(move |stored| read(stored, after)).await,
        }
    }

    async fn page<T: Serialize>(
        &self,
        read: impl FnOnce(&dyn StoredReports) -> io::Result<T> + Send + 'static,
    ) -> Response {
        let Some(stored) = self.service.gate.bindings().stored_reports() else {
            return unavailable("this store cannot tell what sites reported\n");
        };
        let turn = Arc::clone(&self.turn);
        let page = async {
            let turn = turn.acquire_owned().await.map_err(io::Error::other)?;
            let work = move || {
                // Until the page is read, also if nobody waits for it any more.
                let _turn = turn;
                serde_json::to_vec(&read(&*stored)?).map_err(io::Error::from)
            };
            spawn_blocking(work).await.map_err(io::Error::other)?
        };
        match timeout(PATIENCE, page).await {
            Ok(Ok(body)) => JSON.answer(body),
            Ok(Err(error)) => Problem::internal(&error).into_response(),
            Err(_) => unavailable("the store is busy: try again\n"),
        }
    }
}

impl PageQuery {
    /// `None` if it names something unknown.
    pub(super) fn parse(query: &str) -> Option<Self> {
        let mut parsed = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "license" => parsed.license = Some(value.into_owned()),
                "after" => parsed.after = Some(value.into_owned()),
                _ => return None,
            }
        }
        Some(parsed)
    }

    /// The license at the end of the page before; `None` if it is malformed.
    fn license_after(&self) -> Option<Option<LicenseId>> {
        self.after.as_deref().map(str::parse).transpose().ok()
    }

    /// `None` if it is malformed.
    fn range(&self) -> Option<ReportRange> {
        let license = self.license.as_deref().map(str::parse).transpose().ok()?;
        let after = match &self.after {
            None => None,
            Some(after) => {
                let (license, host) = after.split_once(':')?;
                Some((license.parse().ok()?, host.parse().ok()?))
            }
        };
        Some(ReportRange { license, after })
    }
}

fn malformed() -> Response {
    Response::text(StatusCode::BAD_REQUEST, "the query is malformed\n")
}

fn unavailable(reason: &'static str) -> Response {
    Response::text(StatusCode::SERVICE_UNAVAILABLE, reason)
}

/// The server's settings for licenses that have none of their own. A flag or a variable of the server may differ from the
/// `countersign.toml` that a command reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LicenseDefaults {
    /// Hours that a site may go on without an answer.
    pub grace_period_hours: u32,
    /// Which sites are staging copies, and how many of them need no seat.
    pub staging: StagingRule,
    /// How often a license may move in 30 days by itself.
    pub site_moves: u32,
}

impl From<&ServeConfig> for LicenseDefaults {
    fn from(config: &ServeConfig) -> Self {
        Self {
            grace_period_hours: config.grace_period_hours,
            staging: config.staging.clone(),
            site_moves: config.site_moves,
        }
    }
}

impl From<&Service> for LicenseDefaults {
    fn from(service: &Service) -> Self {
        let rules = service.gate.rules();
        Self {
            grace_period_hours: service.grace_period_hours,
            staging: rules.staging.clone(),
            site_moves: rules.site_moves,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_names_a_license_and_the_site_after_which_to_go_on() {
        let id = "ab".repeat(32);
        let range = |license: Option<&str>, after: Option<&str>| {
            let mut query = form_urlencoded::Serializer::new(String::new());
            for (name, value) in [("license", license), ("after", after)] {
                value.map(|value| query.append_pair(name, value));
            }
            PageQuery::parse(&query.finish()).unwrap().range()
        };
        assert_eq!(range(None, None), Some(ReportRange::default()));
        let both = range(Some(&id), Some(&format!("{id}:[::1]"))).unwrap();
        let (license, host) = both.after.unwrap();
        assert_eq!((both.license, host.as_str()), (Some(license), "[::1]"));
        for (license, after) in [(Some("ab"), None), (None, Some(id.as_str())), (None, Some("ab:a.com"))] {
            assert_eq!(range(license, after), None);
        }
        assert!(PageQuery::parse("before=x").is_none());
    }
}
