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
    hand_over(open().map_err(LedgerFault::Io)?, &latest, |entry| {
        each(entry);
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
    hand_over(open().map_err(LedgerFault::Io)?, &latest, |entry| {
        end = put(end, LedgerEvent::Bound(entry))?;
        Ok(())
    })?;
    new.flush().map_err(LedgerFault::Io)?;
    Ok((kept, end))
}

/// For each site of each license, the number of its last line.
type LatestLines = HashMap<(LicenseId, SiteHost), u64>;

fn latest(ledger: impl Read) -> Result<(LedgerExtent, LatestLines), LedgerFault> {
    let mut latest = LatestLines::new();
    let found = reader::read(ledger, |position, entry| {
        if let Some(LedgerEntry { license, binding }) = entry {
            latest.insert((license, binding.host), position.sequence);
        }
    })?;
    Ok((found, latest))
}

fn hand_over(
    ledger: impl Read,
    latest: &LatestLines,
    mut each: impl FnMut(LedgerEntry) -> io::Result<()>,
) -> Result<(), LedgerFault> {
    let mut result = Ok(());
    reader::read(ledger, |position, entry| {
        let Some(entry) = entry.filter(|_| result.is_ok()) else {
            return;
        };
        if latest.get(&(entry.license, entry.binding.host.clone())) == Some(&position.sequence) {
            result = each(entry);
        }
    })?;
    result.map_err(LedgerFault::Io)
}
