//! Reports of sites and refused hosts, in tables that all nodes share. No decision depends on them.

use std::collections::HashMap;
use std::io;

use tokio_postgres::{Client, Error, Row};

use crate::index::SiteReports;
use crate::telemetry::{Batch, RefusedByLicense};
use countersign_model::binding::SiteReport;
use countersign_model::license_key::LicenseId;
use countersign_model::refused_hosts::RefusedHosts;
use countersign_model::site_host::SiteHost;

/// The most licenses with refused hosts that are kept, as in the embedded store.
const MOST_REFUSED: i64 = 4_096;

/// They may be lost in a crash of the database, so they do not wait for its disk.
const BEGIN: &str = "BEGIN; SET LOCAL synchronous_commit = off; SET LOCAL lock_timeout = '1s'";

/// A newer report keeps what it does not say, and the versions of other plugins (`SiteReport::merge`).
const MERGE_REPORTS: &str = "INSERT INTO countersign.reports AS known (license, host, report) \
     SELECT license, host, report::jsonb FROM unnest($1::text[], $2::text[], $3::text[]) AS new(license, host, report) \
     ORDER BY license, host \
     ON CONFLICT (license, host) DO UPDATE SET report = known.report || excluded.report || \
     CASE WHEN known.report ? 'current_versions' OR excluded.report ? 'current_versions' \
     THEN jsonb_build_object('current_versions', coalesce(known.report->'current_versions', '{}') || \
     coalesce(excluded.report->'current_versions', '{}')) ELSE '{}'::jsonb END";

const READ_REFUSED: &str =
    "SELECT license, hosts::text FROM countersign.refused WHERE license = ANY ($1) ORDER BY license FOR UPDATE";

const WRITE_REFUSED: &str = "INSERT INTO countersign.refused (license, hosts) \
     SELECT license, hosts::jsonb FROM unnest($1::text[], $2::text[]) AS new(license, hosts) ORDER BY license \
     ON CONFLICT (license) DO UPDATE SET hosts = excluded.hosts";

const REMOVE_OLDEST: &str = "DELETE FROM countersign.refused WHERE license IN \
     (SELECT license FROM countersign.refused ORDER BY hosts->>'last' DESC OFFSET $1)";

/// Merges reports and refused hosts into the stored ones.
pub(super) async fn write(client: &Client, batch: &Batch) -> io::Result<()> {
    let written = async {
        client.batch_execute(BEGIN).await.map_err(io::Error::other)?;
        write_sites(client, batch).await?;
        write_refused(client, &batch.refused).await?;
        client.batch_execute("COMMIT").await.map_err(io::Error::other)
    }
    .await;
    if written.is_err() {
        // The connection is used again.
        let _ = client.batch_execute("ROLLBACK").await;
    }
    written
}

async fn write_sites(client: &Client, batch: &Batch) -> io::Result<()> {
    let mut licenses = Vec::new();
    let mut hosts = Vec::new();
    let mut reports = Vec::new();
    for (license, sites) in &batch.sites {
        for (host, report) in sites {
            licenses.push(license.to_string());
            hosts.push(host.as_str());
            reports.push(serde_json::to_string(report)?);
        }
    }
    let written = client.execute(MERGE_REPORTS, &[&licenses, &hosts, &reports]).await;
    written.map(drop).map_err(io::Error::other)
}

async fn write_refused(client: &Client, refused: &RefusedByLicense) -> io::Result<()> {
    if refused.is_empty() {
        return Ok(());
    }
    let licenses: Vec<_> = refused.keys().map(LicenseId::to_string).collect();
    let rows = client
        .query(READ_REFUSED, &[&licenses])
        .await
        .map_err(io::Error::other)?;
    let stored: HashMap<String, RefusedHosts> = rows
        .iter()
        .filter_map(|row| Some((row.get(0), serde_json::from_str(row.get(1)).ok()?)))
        .collect();
    let mut hosts = Vec::with_capacity(licenses.len());
    for (license, newer) in refused {
        let merged = match stored.get(&license.to_string()) {
            None => newer.clone(),
            Some(earlier) => {
                let mut merged = earlier.clone();
                merged.merge(newer.clone());
                merged
            }
        };
        hosts.push(serde_json::to_string(&merged)?);
    }
    client
        .execute(WRITE_REFUSED, &[&licenses, &hosts])
        .await
        .map_err(io::Error::other)?;
    client
        .execute(REMOVE_OLDEST, &[&MOST_REFUSED])
        .await
        .map_err(io::Error::other)?;
    Ok(())
}

/// What sites reported to any node. A record that cannot be read counts as none.
pub(super) async fn sites(client: &Client) -> Result<SiteReports, Error> {
    const ALL: &str = "SELECT license, host, report::text FROM countersign.reports";
    Ok(client.query(ALL, &[]).await?.iter().filter_map(site).collect())
}

/// What sites of one license reported to any node.
pub(super) async fn of(client: &Client, license: &LicenseId) -> Result<SiteReports, Error> {
    const ONE: &str = "SELECT license, host, report::text FROM countersign.reports WHERE license = $1";
    let rows = client.query(ONE, &[&license.to_string()]).await?;
    Ok(rows.iter().filter_map(site).collect())
}

fn site(row: &Row) -> Option<(LicenseId, SiteHost, SiteReport)> {
    let license = row.get::<_, &str>(0).parse().ok()?;
    let host = row.get::<_, &str>(1).parse().ok()?;
    Some((license, host, serde_json::from_str(row.get(2)).ok()?))
}

/// The hosts that licenses were refused to, by any node.
pub(super) async fn refused(client: &Client) -> Result<RefusedByLicense, Error> {
    let rows = client
        .query("SELECT license, hosts::text FROM countersign.refused", &[])
        .await?;
    let license = |row: &Row| {
        Some((
            row.get::<_, &str>(0).parse().ok()?,
            serde_json::from_str(row.get(1)).ok()?,
        ))
    };
    Ok(rows.iter().filter_map(license).collect())
}
