//! The index's trees with one record a license: refused hosts, and first copies. Each has a limited number of licenses.

use std::collections::HashMap;
use std::io;

use ::sled::{Batch, Tree};

use crate::telemetry::LicenseTelemetry;
use countersign_model::license_key::LicenseId;

/// Everything in the tree. An unreadable record counts as none.
pub(super) fn all<T: LicenseTelemetry>(tree: &Tree) -> ::sled::Result<HashMap<LicenseId, T>> {
    let mut found = HashMap::new();
    for entry in tree {
        let (key, value) = entry?;
        if let (Ok(license), Ok(record)) = (key.as_ref().try_into(), serde_json::from_slice(&value)) {
            found.insert(LicenseId::from_bytes(license), record);
        }
    }
    Ok(found)
}

/// That of one license. An unreadable record counts as none.
pub(super) fn of<T: LicenseTelemetry>(tree: &Tree, license: &LicenseId) -> ::sled::Result<Option<T>> {
    let stored = tree.get(license.as_bytes())?;
    Ok(stored.and_then(|json| serde_json::from_slice(&json).ok()))
}

/// Merges records into the stored ones. Beyond `limit`, the licenses of which nothing happened for the longest time leave.
pub(super) fn merge<T: LicenseTelemetry>(
    tree: &Tree,
    records: &HashMap<LicenseId, T>,
    limit: usize,
) -> ::sled::Result<()> {
    if records.is_empty() {
        return Ok(());
    }
    let mut batch = Batch::default();
    for (license, newer) in records {
        let mut merged = newer.clone();
        if let Some(mut earlier) = of::<T>(tree, license)? {
            earlier.merge(merged);
            merged = earlier;
        }
        let json = serde_json::to_vec(&merged).map_err(io::Error::from)?;
        batch.insert(&license.as_bytes()[..], json);
    }
    tree.apply_batch(batch)?;
    remove_oldest::<T>(tree, limit)
}

fn remove_oldest<T: LicenseTelemetry>(tree: &Tree, limit: usize) -> ::sled::Result<()> {
    let count = tree.len();
    if count <= limit {
        return Ok(());
    }
    let all = all::<T>(tree)?;
    let mut by_time: Vec<_> = all.iter().map(|(license, record)| (record.last(), license)).collect();
    by_time.sort_unstable();
    let mut batch = Batch::default();
    // Some more, because this reads the whole tree.
    for (_, license) in by_time.iter().take(count - limit + limit / 16) {
        batch.remove(&license.as_bytes()[..]);
    }
    tree.apply_batch(batch)
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;
    use crate::telemetry::RefusedByLicense;
    use countersign_model::refused_hosts::RefusedHosts;

    #[test]
    fn the_licenses_that_were_refused_longest_ago_leave() {
        let folder = tempfile::TempDir::new().unwrap();
        let tree = ::sled::open(folder.path()).unwrap().open_tree("refused").unwrap();
        let one = |license: u8, host: &str, seconds| {
            let time = DateTime::from_timestamp(seconds, 0).unwrap();
            let hosts = RefusedHosts::new(host.parse().unwrap(), time);
            RefusedByLicense::from([(LicenseId::from_bytes([license; 32]), hosts)])
        };
        for license in 1..=3 {
            merge(&tree, &one(license, "a.com", license.into()), 3).unwrap();
        }
        merge(&tree, &one(1, "b.com", 9), 3).unwrap();
        merge(&tree, &one(4, "a.com", 10), 3).unwrap();
        let kept: RefusedByLicense = all(&tree).unwrap();
        let mut licenses: Vec<_> = kept.keys().map(|license| license.as_bytes()[0]).collect();
        licenses.sort_unstable();
        assert_eq!(licenses, [1, 3, 4]);
        assert_eq!(kept[&LicenseId::from_bytes([1; 32])].hosts().len(), 2);
    }
}
