//! What a page is asked: by whom, about what, with which fields.

use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};

use crate::serve::desk::frame::{NavEntry, PageFrame};
use crate::serve::desk::state::DeskState;
use crate::serve::desk::visitor::DeskVisitor;
use crate::serve::gate::Snapshot;
use countersign_settings::keys::license_secrets::LicenseSecrets;

/// The most fields of a form or a query that are read.
const MOST_FIELDS: usize = 40;

/// The fields of a form or a query.
#[derive(Debug, Default)]
pub(super) struct FormFields(Vec<(String, String)>);

impl FormFields {
    pub(super) fn of(encoded: &[u8]) -> Self {
        let pairs = url::form_urlencoded::parse(encoded).take(MOST_FIELDS);
        Self(
            pairs
                .map(|(name, value)| (name.into_owned(), value.into_owned()))
                .collect(),
        )
    }

    /// The first value of this name, without blanks around it; empty where there is none.
    pub(super) fn get(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(of, _)| of == name);
        found.map_or("", |(_, value)| value.trim())
    }
}

/// A request of somebody who may ask for this page.
pub(super) struct Asked<'a> {
    pub(super) state: &'a Arc<DeskState>,
    pub(super) visitor: &'a DeskVisitor,
    pub(super) secrets: &'a Arc<LicenseSecrets>,
    pub(super) snapshot: &'a Arc<Snapshot>,
    pub(super) fields: &'a FormFields,
    /// The part of the path that names a thing.
    pub(super) name: &'a str,
    pub(super) now: DateTime<Utc>,
}

impl Asked<'_> {
    pub(super) fn today(&self) -> NaiveDate {
        self.now.date_naive()
    }

    /// What stands around the page.
    pub(super) fn frame(&self, title: &str, here: NavEntry) -> PageFrame {
        PageFrame::new(title, here, self.visitor, self.now)
    }
}
