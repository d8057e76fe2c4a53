//! The result of a repair, and the files that it takes.

use std::io;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};

use crate::ledger_change::ChangeRefusal;
use crate::postgres::kept_memory::{self, KeptFile};
use countersign_model::license_key::LicenseId;
use countersign_model::name::Name;
use countersign_model::site_host::SiteHost;

/// What was repaired, or would be.
#[derive(Debug, Default)]
pub struct RepairOutcome {
    /// Bindings that were appended.
    pub bound: u64,
    /// Licenses that machines had issued or changed, and that were appended.
    pub licenses: u64,
    /// Tokens of the management API that were made or revoked again.
    pub tokens: u64,
    /// Seats that sites had given back, and that were freed again.
    pub freed: u64,
    /// Sales of which a shop had told something that was appended again.
    pub sales: u64,
    /// Lost bindings that the vendor has released.
    pub released: u64,
    /// Lost bindings that do not fit any more.
    pub unfit: Vec<UnfitBinding>,
    /// Lost licenses that do not fit any more.
    pub unfit_licenses: Vec<(LicenseId, ChangeRefusal)>,
    /// Lost tokens whose name another token has by now.
    pub unfit_tokens: Vec<Name>,
    /// The `sequence` of the last line.
    pub sequence: u64,
    /// Whether the nodes have to read the log anew.
    pub anew: bool,
}

/// A lost binding that does not fit any more.
#[derive(Debug)]
pub struct UnfitBinding {
    /// The license.
    pub license: LicenseId,
    /// The site.
    pub host: SiteHost,
    /// When it had been bound.
    pub bound_at: DateTime<Utc>,
    /// The site that was bound first; `None` where nobody knows the license.
    pub taken_by: Option<SiteHost>,
}

/// The files in a node's folder that have what it knew when the log lost lines, the oldest first.
pub fn kept_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let files = kept_memory::files_in(folder)?;
    Ok(files.into_iter().map(|file| file.path).collect())
}

/// Renames such a file after a repair; its new name.
pub fn set_kept_file_aside(path: &Path) -> io::Result<PathBuf> {
    let file = KeptFile::at(path.to_owned()).ok_or(io::ErrorKind::InvalidInput)?;
    file.set_aside()
}
