//! Pages of the index's reports, refused hosts and first copies.

use std::io;
use std::ops::Bound;

use ::sled::Tree;

use crate::index::{Index, LICENSE_ID, SiteReports, by_license, site_of, to_key};
use crate::stored_reports::{ReportRange, StoredReports};
use crate::telemetry::LicenseTelemetry;
use countersign_model::first_copies::FirstCopies;
use countersign_model::license_key::LicenseId;
use countersign_model::refused_hosts::RefusedHosts;

impl StoredReports for Index {
    fn reports(&self, range: &ReportRange, limit: usize) -> io::Result<SiteReports> {
        let prefix = range.license.map_or(Vec::new(), |license| license.as_bytes().to_vec());
        let start = match &range.after {
            Some((license, host)) => Bound::Excluded(to_key(license, host)),
            None => Bound::Included(prefix.clone()),
        };
        // As a change: what is read takes sled's memory, too, until it is closed at a sync.
        self.change(limit, |files| {
            let mut page = SiteReports::new();
            for entry in files.reports.range((start, Bound::Unbounded)).take(limit) {
                let (key, value) = entry?;
                if !key.starts_with(&prefix) {
                    break;
                }
                let Some((license, host)) = site_of(&key)? else {
                    continue;
                };
                let report = serde_json::from_slice(&value).map_err(io::Error::from)?;
                page.push((license, host, report));
            }
            Ok(page)
        })
    }

    fn refused(&self, after: Option<&LicenseId>, limit: usize) -> io::Result<Vec<(LicenseId, RefusedHosts)>> {
        self.change(limit, |files| licenses_after(&files.refused, after, limit))
    }

    fn refused_of(&self, license: &LicenseId) -> io::Result<Option<RefusedHosts>> {
        self.change(1, |files| by_license::of(&files.refused, license))
    }

    fn first_copies(&self, after: Option<&LicenseId>, limit: usize) -> io::Result<Vec<(LicenseId, FirstCopies)>> {
        self.change(limit, |files| licenses_after(&files.first_copies, after, limit))
    }

    fn first_copies_of(&self, license: &LicenseId) -> io::Result<Option<FirstCopies>> {
        self.change(1, |files| by_license::of(&files.first_copies, license))
    }
}

/// The records of at most `limit` licenses after this one, in their order.
fn licenses_after<T: LicenseTelemetry>(
    tree: &Tree,
    after: Option<&LicenseId>,
    limit: usize,
) -> ::sled::Result<Vec<(LicenseId, T)>> {
    let start = after.map_or(Bound::Unbounded, |license| Bound::Excluded(license.as_bytes().to_vec()));
    let mut page = Vec::new();
    for entry in tree.range((start, Bound::Unbounded)).take(limit) {
        let (key, value) = entry?;
        let license = <[u8; LICENSE_ID]>::try_from(key.as_ref());
        // An unreadable record counts as none.
        if let (Ok(license), Ok(record)) = (license, serde_json::from_slice(&value)) {
            page.push((LicenseId::from_bytes(license), record));
        }
    }
    Ok(page)
}
