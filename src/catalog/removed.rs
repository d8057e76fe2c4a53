//! `removed.json`: the releases that builds have removed, so that a server knows that somebody meant it.
//!
//! A build writes it before the index. A server refuses an index that lacks a release which was in force and is not
//! listed here: an older build wrote that index.

use std::path::Path;

use crate::catalog::layout::{MAX_INDEX, removed_path};
use crate::model::release_list::ReleaseList;
use crate::regular_file;

/// The releases that builds have removed; none if the file is missing or damaged.
pub fn removed_releases(releases: &Path) -> ReleaseList {
    let bytes = regular_file::read(&removed_path(releases), MAX_INDEX);
    bytes
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default()
}
