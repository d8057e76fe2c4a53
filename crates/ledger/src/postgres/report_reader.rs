//! Reads reports for the admin listener, page by page, and searches customers for the desk, on a connection of its own.

use std::io;

use tokio::runtime::Builder;
use tokio::time::timeout;
use tokio_postgres::Client;

use crate::error::StoreError;
use crate::index::SiteReports;
use crate::postgres::node_state::DEADLINE;
use crate::postgres::settings::DatabaseSettings;
use crate::postgres::text_rows;
use crate::postgres::{reports, session};
use crate::stored_reports::{ReportRange, StoredReports};
use crate::texts::customer_search::CustomerSearch;
use countersign_model::first_copies::FirstCopies;
use countersign_model::issued_license::Hex128;
use countersign_model::license_key::LicenseId;
use countersign_model::refused_hosts::RefusedHosts;

const READ_REPORTS: &str = "SELECT license, host, report::text FROM countersign.reports \
     WHERE (license, host) > ($1, $2) AND ($3::text IS NULL OR license = $3) ORDER BY license, host LIMIT $4";

/// The servers to ask.
pub(super) struct ReportReader(pub DatabaseSettings);

impl ReportReader {
    /// Asks the first server that answers. A standby will do.
    fn ask<T>(&self, question: impl AsyncFn(&Client) -> Result<T, tokio_postgres::Error>) -> io::Result<T> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut last = io::Error::other("no server is named");
            for server in &self.0.servers {
                let asked = timeout(DEADLINE, async {
                    let session = session::connect(&self.0, server).await.map_err(io::Error::other)?;
                    question(&session.client).await.map_err(io::Error::other)
                });
                match asked.await {
                    Ok(Ok(answer)) => return Ok(answer),
                    Ok(Err(error)) => last = error,
                    Err(_) => last = io::Error::other("the database does not answer"),
                }
            }
            Err(last)
        })
    }
}

impl StoredReports for ReportReader {
    fn reports(&self, range: &ReportRange, limit: usize) -> io::Result<SiteReports> {
        let after = range.after.as_ref();
        let license = after.map(|(license, _)| license.to_string()).unwrap_or_default();
        let host = after.map(|(_, host)| host.as_str()).unwrap_or_default();
        let only = range.license.as_ref().map(LicenseId::to_string);
        let rows = self.ask(async |client| {
            client
                .query(READ_REPORTS, &[&license, &host, &only, &(limit as i64)])
                .await
        })?;
        let site = |row: &tokio_postgres::Row| {
            let license = row.get::<_, &str>(0).parse().ok()?;
            let host = row.get::<_, &str>(1).parse().ok()?;
            Some((license, host, serde_json::from_str(row.get(2)).ok()?))
        };
        Ok(rows.iter().filter_map(site).collect())
    }

    fn refused(&self, after: Option<&LicenseId>, limit: usize) -> io::Result<Vec<(LicenseId, RefusedHosts)>> {
        self.ask(async |client| reports::licenses_after(client, after, limit).await)
    }

    fn refused_of(&self, license: &LicenseId) -> io::Result<Option<RefusedHosts>> {
        self.ask(async |client| reports::license_record(client, license).await)
    }

    fn first_copies(&self, after: Option<&LicenseId>, limit: usize) -> io::Result<Vec<(LicenseId, FirstCopies)>> {
        self.ask(async |client| reports::licenses_after(client, after, limit).await)
    }

    fn first_copies_of(&self, license: &LicenseId) -> io::Result<Option<FirstCopies>> {
        self.ask(async |client| reports::license_record(client, license).await)
    }
}

impl CustomerSearch for ReportReader {
    fn first(&self, wanted: &str, most: usize, _pause: &mut dyn FnMut()) -> Result<Vec<Hex128>, StoreError> {
        let found = self.ask(async |client| text_rows::customers_with(client, wanted, most).await);
        found.map_err(|error| StoreError::NotDurable(error.to_string().into()))
    }
}
