//! `removed.json`: the releases that builds have removed, so that a server knows that somebody meant it.
//!
//! A build writes it before the index. A server refuses an index that lacks a release which was in force and is not
//! listed here: an older build wrote that index. The time tells a list from an older one, which says nothing of releases that were
//! published again since.

use std::path::Path;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::catalog::layout::{MAX_INDEX, removed_path};
use countersign_files::regular_file;
use countersign_model::release_list::ReleaseList;

/// The releases that builds have removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemovedReleases {
    /// When a build changed the list.
    pub time: DateTime<Utc>,
    /// The list.
    pub releases: ReleaseList,
}

/// The releases that builds have removed; none if the file is missing or damaged.
pub fn removed_releases(releases: &Path) -> RemovedReleases {
    let bytes = regular_file::read(&removed_path(releases), MAX_INDEX);
    bytes
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default()
}
