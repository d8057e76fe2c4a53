//! Any bytes as `releases/index.json`. An accepted index is written as the same, and names only files inside the
//! folder.
#![no_main]

use std::path::{Component, Path};

use countersign_package::catalog::{ReleaseIndex, manifest_path};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(index) = serde_json::from_slice::<ReleaseIndex>(bytes) else {
        return;
    };
    assert_eq!(
        serde_json::from_slice::<ReleaseIndex>(&index.to_bytes()).unwrap(),
        index
    );
    for (slug, releases) in &index.plugins {
        for release in &releases.releases {
            let path = manifest_path(Path::new("releases"), slug, &release.version);
            assert!(path.components().all(|part| matches!(part, Component::Normal(_))));
            assert_eq!(path.components().count(), 3);
        }
    }
});
