//! The time since when the index vouches for its manifests. [`publish`](crate::build::publish) compares their times
//! with it.

use std::fs;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use countersign_files::regular_file;
use countersign_package::catalog::index_path;

/// When the index was written; long ago if there is none, or if a time of it is in the future because a clock was set
/// back.
pub(super) fn index_time(root: &Path) -> SystemTime {
    let times = || {
        let metadata = fs::metadata(index_path(root))?;
        io::Result::Ok([metadata.modified()?, regular_file::change_time(&metadata)])
    };
    let now = SystemTime::now();
    match times() {
        Ok([modified, changed]) if modified <= now && changed <= now => modified.min(changed),
        _ => SystemTime::UNIX_EPOCH,
    }
}
