//! What happened to a license: its lines and those of the licenses that it replaced, also in words.

use std::collections::HashSet;
use std::path::Path;

use chrono::{DateTime, Utc};

use crate::error::StoreError;
use crate::license_lines::LicenseLines;
use crate::log::reader::LedgerFault;
use crate::log::record::{LedgerEvent, LedgerRecord, LineError};
use crate::{disk, recovery};
use countersign_model::issued_license::{ChangeScope, Hex128, IssuedLicense};
use countersign_model::license_key::LicenseId;

pub use crate::log::line_event::LineActor;

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

/// A line of a license's history, for people.
#[derive(Debug)]
pub struct HistoryEntry<'a> {
    /// When.
    pub time: DateTime<Utc>,
    /// The license, or one that it replaced; `None` if the line is about something else.
    pub license: Option<LicenseId>,
    /// `issued`, `renewed`, `bound` and so on.
    pub event: &'static str,
    /// What changed, in words.
    pub what: Vec<String>,
    /// The token, the shop or the command. What a site, a customer or the server does by itself has none.
    pub by: Option<&'a ChangeScope>,
    /// Whose doing it is where the line names nobody.
    pub actor: LineActor,
    /// The name of the text that says who did it.
    pub who: Option<Hex128>,
    /// The name of the text that says why.
    pub reason: Option<Hex128>,
}

impl<'a> HistoryEntry<'a> {
    /// The event with this index in `events`, a license's events with the newest first ([`crate::history()`]).
    pub fn of(events: &'a [LedgerEvent], index: usize) -> Self {
        let event = &events[index];
        let before = events[index + 1..].iter().find_map(|before| match before {
            LedgerEvent::License(before) if Some(&before.license.id) == event.license() => Some(&**before),
            _ => None,
        });
        Self::after(event, before)
    }

    /// An event. `before` is its license as the line before had it; without it, the license is described as a new one.
    pub fn after(event: &'a LedgerEvent, before: Option<&IssuedLicense>) -> Self {
        let (word, what) = event.words(before);
        let texts = event.texts();
        Self {
            time: event.time(),
            license: event.license().copied(),
            event: word,
            what,
            by: event.scope(),
            actor: event.actor(),
            who: texts.who,
            reason: texts.reason,
        }
    }
}
