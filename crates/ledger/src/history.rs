//! What happened to a license: its lines and those of the licenses that it replaced.

use std::collections::HashSet;
use std::path::Path;

use countersign_model::license_key::LicenseId;

use crate::disk;
use crate::error::StoreError;
use crate::license_lines::LicenseLines;
use crate::log::reader::LedgerFault;
use crate::log::record::{LedgerEvent, LedgerRecord, LineError};
use crate::recovery;

impl LedgerEvent {
    /// The license that the event's license replaces, if the event says so.
    pub(crate) fn predecessor(&self) -> Option<&LicenseId> {
        match self {
            Self::License(issued) => issued.license.details.replaces.as_ref(),
            _ => None,
        }
    }
}

/// The events of a license and of those that it replaced, in the order of the ledger. `events_of` reads the lines of one license
/// with their sequences.
pub(crate) fn with_replaced<E>(
    license: &LicenseId,
    mut events_of: impl FnMut(&LicenseId) -> Result<Vec<(u64, LedgerEvent)>, E>,
) -> Result<Vec<LedgerEvent>, E> {
    let mut events = Vec::new();
    let mut seen = HashSet::new();
    let mut next = Some(*license);
    while let Some(license) = next.filter(|license| seen.insert(*license)) {
        let of_license = events_of(&license)?;
        next = of_license.iter().find_map(|(_, event)| event.predecessor().copied());
        events.extend(of_license);
    }
    events.sort_by_key(|(sequence, _)| *sequence);
    Ok(events.into_iter().map(|(_, event)| event).collect())
}

/// The events of a license in a ledger's folder; none without a ledger. `known` keeps which parts of the file earlier calls read.
pub(crate) fn in_folder(
    path: &Path,
    license: &LicenseId,
    known: &mut LicenseLines,
) -> Result<Vec<LedgerEvent>, StoreError> {
    if !disk::has_ledger(path)? {
        return Ok(Vec::new());
    }
    with_replaced(license, |license| events_of(path, license, known))
}

/// The events of one license. A line names it as 64 digits, so only lines with these are parsed.
fn events_of(
    path: &Path,
    license: &LicenseId,
    known: &mut LicenseLines,
) -> Result<Vec<(u64, LedgerEvent)>, StoreError> {
    let mut events = Vec::new();
    let take = |line: &[u8]| -> Result<(), LedgerFault> {
        let record = LedgerRecord::read(line).map_err(|error| {
            let line = format!("a line of license {}", license.log_tag());
            match error {
                LineError::Newer(line_of_newer) => LedgerFault::Newer(format!("{line} {line_of_newer}")),
                LineError::Damaged(error) => LedgerFault::Broken(format!("{line}: {error}")),
            }
        })?;
        if record.change.license() == Some(license) {
            events.push((record.previous.sequence + 1, record.change));
        }
        Ok(())
    };
    let searched = recovery::open(path)
        .map_err(LedgerFault::Io)
        .and_then(|ledger| known.of(ledger, license, take));
    searched.map_err(|fault| recovery::fault_in(path, fault))?;
    Ok(events)
}
