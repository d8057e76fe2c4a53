//! The first licenses of a dry run as they would be: a table for people, and objects of its JSON document.

use chrono::NaiveDate;
use serde::Serialize;

use crate::commands::output::Table;
use crate::serve::imports::ImportedLicense;
use countersign_model::license::{LicenseStatus, Modules, module_list};
use countersign_model::license_key::LicenseId;
use countersign_model::period::NEVER;

/// How many licenses are shown.
pub(super) const MOST_SHOWN: usize = 10;

/// A license as it would be.
#[derive(Debug, Serialize)]
pub(super) struct PreviewedLicense {
    /// The line, or the number of a license of a JSON file; of several rows of one key the first.
    pub line: u64,
    pub license: LicenseId,
    /// What the import would do.
    pub result: &'static str,
    pub status: LicenseStatus,
    pub expires: NaiveDate,
    /// `null` for any number.
    pub sites: Option<u32>,
    pub modules: Modules,
    /// How many sites would be bound.
    pub bound_sites: usize,
}

impl PreviewedLicense {
    pub(super) fn new(line: u64, license: &ImportedLicense, bound_sites: usize) -> Self {
        Self {
            line,
            license: license.id,
            result: "not taken",
            status: license.status,
            expires: license.expires,
            sites: license.sites.map(Into::into),
            modules: license.modules.clone(),
            bound_sites,
        }
    }
}

/// A row for each license, under headings; `counts` is what a row of the file is counted as.
pub(super) fn table(shown: &[PreviewedLicense], counts: &str, today: NaiveDate) -> String {
    let counts = counts.to_ascii_uppercase();
    let mut table = Table::new([
        &*counts, "ID", "RESULT", "STATUS", "EXPIRES", "SITES", "BOUND", "MODULES",
    ]);
    for license in shown {
        let status = match license.status {
            LicenseStatus::Active if license.expires < today => "expired",
            status => status.as_str(),
        };
        let expires = match license.expires {
            NEVER => "never".to_owned(),
            day => day.to_string(),
        };
        let sites = license.sites.map_or("unlimited".to_owned(), |sites| sites.to_string());
        table.row([
            &license.line,
            &license.license.log_tag(),
            &license.result,
            &status,
            &expires,
            &sites,
            &license.bound_sites,
            &module_list(&license.modules),
        ]);
    }
    let mut text = Vec::new();
    // Memory takes everything.
    let _ = table.write(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}
