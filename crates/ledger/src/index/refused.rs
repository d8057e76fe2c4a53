//! The index's tree of refused hosts, by license. It has a limited number of licenses.

use std::io;

use ::sled::{Batch, Tree};

use crate::telemetry::RefusedByLicense;
use countersign_model::license_key::LicenseId;
use countersign_model::refused_hosts::RefusedHosts;

/// The most licenses that are kept. With 32 hosts each, they take 4 MB, or 36 MB with the longest names.
pub(super) const MOST_LICENSES: usize = 4_096;

/// Everything in the tree. An unreadable record counts as none.
pub(super) fn all(tree: &Tree) -> ::sled::Result<RefusedByLicense> {
    let mut refused = RefusedByLicense::new();
    for entry in tree {
        let (key, value) = entry?;
        if let (Ok(license), Ok(hosts)) = (key.as_ref().try_into(), serde_json::from_slice(&value)) {
            refused.insert(LicenseId::from_bytes(license), hosts);
        }
    }
    Ok(refused)
}

/// Merges refused hosts into the stored ones, then removes the licenses beyond `limit` that were refused longest ago.
pub(super) fn merge(tree: &Tree, refused: &RefusedByLicense, limit: usize) -> ::sled::Result<()> {
    if refused.is_empty() {
        return Ok(());
    }
    let mut batch = Batch::default();
    for (license, newer) in refused {
        let stored = tree.get(license.as_bytes())?;
        let mut merged = newer.clone();
        if let Some(mut earlier) = stored.and_then(|json| serde_json::from_slice::<RefusedHosts>(&json).ok()) {
            earlier.merge(merged);
            merged = earlier;
        }
        let json = serde_json::to_vec(&merged).map_err(io::Error::from)?;
        batch.insert(&license.as_bytes()[..], json);
    }
    tree.apply_batch(batch)?;
    remove_oldest(tree, limit)
}

fn remove_oldest(tree: &Tree, limit: usize) -> ::sled::Result<()> {
    let count = tree.len();
    if count <= limit {
        return Ok(());
    }
    let all = all(tree)?;
    let mut by_time: Vec<_> = all.iter().map(|(license, refused)| (refused.last, license)).collect();
    by_time.sort_unstable();
    let mut batch = Batch::default();
    for (_, license) in by_time.iter().take(count - limit) {
        batch.remove(&license.as_bytes()[..]);
    }
    tree.apply_batch(batch)
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;

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
        let kept = all(&tree).unwrap();
        let mut licenses: Vec<_> = kept.keys().map(|license| license.as_bytes()[0]).collect();
        licenses.sort_unstable();
        assert_eq!(licenses, [1, 3, 4]);
        assert_eq!(kept[&LicenseId::from_bytes([1; 32])].hosts().len(), 2);
    }
}
