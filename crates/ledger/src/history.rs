//! What happened to a license: its lines and those of the licenses that it replaced.

use std::collections::HashSet;
use std::io::{self, Read as _};
use std::path::Path;

use memchr::{memchr, memmem, memrchr};

use countersign_model::license_key::LicenseId;

use crate::disk;
use crate::error::StoreError;
use crate::log::reader::LedgerFault;
use crate::log::record::{LedgerEvent, LedgerRecord, LineError};
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

/// How many bytes of a ledger are searched at once.
const READ_AT_ONCE: usize = 1 << 20;

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

/// The same of a ledger in a folder; none where there is no ledger.
pub(crate) fn in_folder(path: &Path, license: &LicenseId) -> Result<Vec<LedgerEvent>, StoreError> {
    if !disk::has_ledger(path)? {
        return Ok(Vec::new());
    }
    with_replaced(license, |license| events_of(path, license))
}

/// The events of one license. A line names it as 64 digits, so only lines with these are parsed: 90 MB/s would be parsed, and
/// gigabytes are searched.
fn events_of(path: &Path, license: &LicenseId) -> Result<Vec<(u64, LedgerEvent)>, StoreError> {
    let mut events = Vec::new();
    let name = license.to_string();
    let mut take = |line: &[u8]| -> Result<(), LedgerFault> {
        let record = LedgerRecord::read(line).map_err(|error| match error {
            LineError::Newer(line) => LedgerFault::Newer(format!("a line of license {} {line}", license.log_tag())),
            LineError::Damaged(error) => {
                LedgerFault::Broken(format!("a line of license {}: {error}", license.log_tag()))
            }
        })?;
        if record.change.license() == Some(license) {
            events.push((record.previous.sequence + 1, record.change));
        }
        Ok(())
    };
    search(path, name.as_bytes(), &mut take).map_err(|fault| recovery::fault_in(path, fault))?;
    Ok(events)
}

/// Every complete line of the ledger that has these bytes, with its line feed.
fn search(
    path: &Path,
    wanted: &[u8],
    each: &mut impl FnMut(&[u8]) -> Result<(), LedgerFault>,
) -> Result<(), LedgerFault> {
    let finder = memmem::Finder::new(wanted);
    let mut file = recovery::open(path).map_err(LedgerFault::Io)?;
    let mut bytes = Vec::with_capacity(READ_AT_ONCE);
    loop {
        let read = io::Read::by_ref(&mut file)
            .take(READ_AT_ONCE as u64)
            .read_to_end(&mut bytes);
        let is_end = read.map_err(LedgerFault::Io)? == 0;
        let whole = memrchr(b'\n', &bytes).map_or(0, |end| end + 1);
        let mut rest = &bytes[..whole];
        while let Some(found) = finder.find(rest) {
            let start = memrchr(b'\n', &rest[..found]).map_or(0, |end| end + 1);
            let end = memchr(b'\n', &rest[found..]).map_or(rest.len(), |length| found + length + 1);
            each(&rest[start..end])?;
            rest = &rest[end..];
        }
        if is_end {
            return Ok(());
        }
        bytes.drain(..whole);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn complete_lines_are_found_wherever_a_read_ends() {
        let folder = tempfile::tempdir().unwrap();
        let filler = "x".repeat(700);
        let mut text = String::new();
        let mut expected = Vec::new();
        for number in 0..6_000 {
            let wanted = number % 7 == 0;
            let line = format!("{number} {}{filler}\n", if wanted { "wanted wanted" } else { "other" });
            text += &line;
            expected.extend(wanted.then_some(line));
        }
        text += "a torn line that is wanted";
        assert!(text.len() > 3 * READ_AT_ONCE);
        fs::write(recovery::ledger_in(folder.path()), &text).unwrap();
        let mut found = Vec::new();
        search(folder.path(), b"wanted", &mut |line| {
            found.push(String::from_utf8(line.to_vec()).unwrap());
            Ok(())
        })
        .unwrap();
        assert_eq!(found, expected);
    }
}
