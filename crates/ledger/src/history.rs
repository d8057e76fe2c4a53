//! What happened to a license: its lines and those of the licenses that it replaced.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use countersign_model::license_key::LicenseId;

use crate::disk;
use crate::error::StoreError;
use crate::log::record::LedgerEvent;
use crate::recovery;

impl LedgerEvent {
    /// The license that it is about; `None` if it is about something else.
    pub fn license(&self) -> Option<&LicenseId> {
        match self {
            Self::Bound(entry) => Some(&entry.license),
            Self::Released(entry) => Some(&entry.license),
            Self::Claimed(entry) => Some(&entry.license),
            Self::License(issued) => Some(&issued.license.id),
            Self::Sale(_)
            | Self::Token(_)
            | Self::Erased(_)
            | Self::Reminded(_)
            | Self::Session(_)
            | Self::Compacted(_) => None,
        }
    }

    /// The license that the event's license replaces, if the event says so.
    pub(crate) fn predecessor(&self) -> Option<&LicenseId> {
        match self {
            Self::License(issued) => issued.license.details.replaces.as_ref(),
            _ => None,
        }
    }
}

/// The events of a license and of those that it replaced, in the order of the ledger in a folder; none where there is no
/// ledger. Reads it twice.
pub(crate) fn in_folder(path: &Path, license: &LicenseId) -> Result<Vec<LedgerEvent>, StoreError> {
    if !disk::has_ledger(path)? {
        return Ok(Vec::new());
    }
    let mut replaced = HashMap::new();
    recovery::read(path, |_, event| {
        if let Some(event) = event
            && let (Some(license), Some(predecessor)) = (event.license(), event.predecessor())
        {
            replaced.insert(*license, *predecessor);
        }
    })?;
    let mut wanted = HashSet::new();
    let mut next = Some(*license);
    while let Some(license) = next.filter(|license| wanted.insert(*license)) {
        next = replaced.get(&license).copied();
    }
    let mut events = Vec::new();
    recovery::read(path, |_, event| {
        let is_wanted = |event: &LedgerEvent| event.license().is_some_and(|license| wanted.contains(license));
        events.extend(event.filter(is_wanted));
    })?;
    Ok(events)
}
