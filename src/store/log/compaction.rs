//! Writes a new ledger that continues an old one without superseded lines.
//!
//! Its first line has the position of the old ledger's last line, so both form one chain: the old file proves the new
//! one. Bindings keep their order and their times.

use std::collections::HashMap;
use std::io::{self, BufWriter, Read, Write};

use chrono::{DateTime, Utc};

use crate::model::license_key::LicenseId;
use crate::model::site_host::SiteHost;

use crate::store::log::reader::{self, LedgerExtent, LedgerFault};
use crate::store::log::record::{LedgerEvent, LedgerRecord};
use crate::store::log::{Compaction, LedgerEntry, Position};

/// Passes on the bindings that are not superseded, in the order of binding.
pub(in crate::store) fn current<R: Read>(
    open: impl Fn() -> io::Result<R>,
    mut each: impl FnMut(LedgerEntry),
) -> Result<(), LedgerFault> {
    let (_, latest) = latest(open().map_err(LedgerFault::Io)?)?;
    hand_over(open().map_err(LedgerFault::Io)?, &latest, |change| {
        change.binding().map(&mut each);
        Ok(())
    })
}

/// Writes the compacted ledger; returns the number of kept bindings and the position of the last line. The caller
/// syncs it and renames it into place.
pub(in crate::store) fn write<R: Read>(
    open: impl Fn() -> io::Result<R>,
    new: impl Write,
    time: DateTime<Utc>,
) -> Result<(u64, Position), LedgerFault> {
    let (old, latest) = latest(open().map_err(LedgerFault::Io)?)?;
    let mut new = BufWriter::new(new);
    let mut line = Vec::new();
    let mut put = |previous: Position, change: LedgerEvent| -> io::Result<Position> {
        line.clear();
        let end = LedgerRecord {
            previous,
            synced: old.end.sequence,
            change,
        }
        .write(&mut line)?;
        new.write_all(&line)?;
        Ok(end)
    };
    let kept = latest.len() as u64;
    let mut end = put(old.end, LedgerEvent::Compacted(Compaction { kept, time })).map_err(LedgerFault::Io)?;
    hand_over(open().map_err(LedgerFault::Io)?, &latest, |change| {
        end = put(end, change)?;
        Ok(())
    })?;
    new.flush().map_err(LedgerFault::Io)?;
    let bindings = latest.keys().filter(|(_, host)| host.is_some()).count() as u64;
    Ok((bindings, end))
}

/// For each site of each license, and for each license that a machine issued (without a host), the number of its last
/// line.
type LatestLines = HashMap<(LicenseId, Option<SiteHost>), u64>;

/// What a later line with the same replaces.
fn subject(change: &LedgerEvent) -> Option<(LicenseId, Option<SiteHost>)> {
    match change {
        LedgerEvent::Bound(LedgerEntry { license, binding }) => Some((*license, Some(binding.host.clone()))),
        LedgerEvent::License(issued) => Some((issued.license.id, None)),
        LedgerEvent::Compacted(_) => None,
    }
}

fn latest(ledger: impl Read) -> Result<(LedgerExtent, LatestLines), LedgerFault> {
    let mut latest = LatestLines::new();
    let found = reader::read(ledger, |position, change| {
        if let Some(subject) = change.as_ref().and_then(subject) {
            latest.insert(subject, position.sequence);
        }
    })?;
    Ok((found, latest))
}

fn hand_over(
    ledger: impl Read,
    latest: &LatestLines,
    mut each: impl FnMut(LedgerEvent) -> io::Result<()>,
) -> Result<(), LedgerFault> {
    let mut result = Ok(());
    reader::read(ledger, |position, change| {
        let Some(change) = change.filter(|_| result.is_ok()) else {
            return;
        };
        let last = subject(&change).and_then(|subject| latest.get(&subject));
        if last == Some(&position.sequence) {
            result = each(change);
        }
    })?;
    result.map_err(LedgerFault::Io)
}
