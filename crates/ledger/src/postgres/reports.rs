//! Reports of sites, refused hosts and first copies, in tables that all nodes share. No decision depends on them.

use std::collections::HashMap;
use std::io;

use tokio_postgres::{Client, Error, Row};

use crate::index::SiteReports;
use crate::telemetry::{Batch, LicenseTelemetry};
use countersign_model::binding::SiteReport;
use countersign_model::first_copies::FirstCopies;
use countersign_model::license_key::LicenseId;
use countersign_model::refused_hosts::RefusedHosts;
use countersign_model::site_host::SiteHost;

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

/// A table with one record a license.
pub(super) trait LicenseRows: LicenseTelemetry {
    /// The table and its column.
    const TABLE: (&str, &str);
}

impl LicenseRows for RefusedHosts {
    const TABLE: (&str, &str) = ("countersign.refused", "hosts");
}

impl LicenseRows for FirstCopies {
    const TABLE: (&str, &str) = ("countersign.first_copies", "copies");
}

/// Merges reports, refused hosts and first copies into the stored ones.
pub(super) async fn write(client: &Client, batch: &Batch) -> io::Result<()> {
    let written = async {
        client.batch_execute(BEGIN).await.map_err(io::Error::other)?;
        write_sites(client, batch).await?;
        write_licenses(client, &batch.refused).await?;
        write_licenses(client, &batch.first_copies).await?;
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

async fn write_licenses<T: LicenseRows>(client: &Client, records: &HashMap<LicenseId, T>) -> io::Result<()> {
    if records.is_empty() {
        return Ok(());
    }
    let (table, column) = T::TABLE;
    let licenses: Vec<_> = records.keys().map(LicenseId::to_string).collect();
    // So that there is a row to lock: two nodes may write of a new license at once. `{}` counts as none.
    let make_rows = format!(
        "INSERT INTO {table} (license, {column}) SELECT license, '{{}}'::jsonb FROM unnest($1::text[]) AS new(license) \
         ORDER BY license ON CONFLICT DO NOTHING"
    );
    client
        .execute(&make_rows, &[&licenses])
        .await
        .map_err(io::Error::other)?;
    let read =
        format!("SELECT license, {column}::text FROM {table} WHERE license = ANY ($1) ORDER BY license FOR UPDATE");
    let rows = client.query(&read, &[&licenses]).await.map_err(io::Error::other)?;
    let stored: HashMap<String, T> = rows
        .iter()
        .filter_map(|row| Some((row.get(0), serde_json::from_str(row.get(1)).ok()?)))
        .collect();
    let mut merged = Vec::with_capacity(licenses.len());
    for (license, newer) in records {
        let record = match stored.get(&license.to_string()) {
            None => newer.clone(),
            Some(earlier) => {
                let mut record = earlier.clone();
                record.merge(newer.clone());
                record
            }
        };
        merged.push(serde_json::to_string(&record)?);
    }
    let write = format!(
        "INSERT INTO {table} (license, {column}) \
         SELECT license, record::jsonb FROM unnest($1::text[], $2::text[]) AS new(license, record) ORDER BY license \
         ON CONFLICT (license) DO UPDATE SET {column} = excluded.{column}"
    );
    client
        .execute(&write, &[&licenses, &merged])
        .await
        .map_err(io::Error::other)?;
    let remove_oldest = format!(
        "DELETE FROM {table} WHERE license IN (SELECT license FROM {table} ORDER BY {column}->>'last' DESC OFFSET $1)"
    );
    client
        .execute(&remove_oldest, &[&(T::MOST_LICENSES as i64)])
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

/// The records of licenses, of any node.
pub(super) async fn licenses<T: LicenseRows>(client: &Client) -> Result<HashMap<LicenseId, T>, Error> {
    let (table, column) = T::TABLE;
    let all = format!("SELECT license, {column}::text FROM {table}");
    Ok(client.query(&all, &[]).await?.iter().filter_map(license).collect())
}

/// The records of at most `limit` licenses after this one, in their order.
pub(super) async fn licenses_after<T: LicenseRows>(
    client: &Client,
    after: Option<&LicenseId>,
    limit: usize,
) -> Result<Vec<(LicenseId, T)>, Error> {
    let (table, column) = T::TABLE;
    let page = format!("SELECT license, {column}::text FROM {table} WHERE license > $1 ORDER BY license LIMIT $2");
    let after = after.map(LicenseId::to_string).unwrap_or_default();
    let rows = client.query(&page, &[&after, &(limit as i64)]).await?;
    Ok(rows.iter().filter_map(license).collect())
}

/// The record of one license.
pub(super) async fn license_record<T: LicenseRows>(client: &Client, id: &LicenseId) -> Result<Option<T>, Error> {
    let (table, column) = T::TABLE;
    let one = format!("SELECT license, {column}::text FROM {table} WHERE license = $1");
    let row = client.query_opt(&one, &[&id.to_string()]).await?;
    Ok(row.as_ref().and_then(license).map(|(_, record)| record))
}

/// A record that cannot be read counts as none.
fn license<T: LicenseRows>(row: &Row) -> Option<(LicenseId, T)> {
    let license = row.get::<_, &str>(0).parse().ok()?;
    Some((license, serde_json::from_str(row.get(1)).ok()?))
}
