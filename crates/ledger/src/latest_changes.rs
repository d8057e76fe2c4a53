//! The last lines of the ledger, for people: what was changed, by whom, whichever license it is about.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use chrono::NaiveDate;
use countersign_files::line_search;
use countersign_model::issued_license::IssuedLicense;
use countersign_model::license_key::LicenseId;
use memchr::memmem;

use crate::disk;
use crate::error::StoreError;
pub use crate::log::line_event::ChangesBy;
use crate::log::reader::LedgerFault;
use crate::log::record::{LedgerEvent, LedgerRecord, LineError, is_of_kind};
use crate::recovery;

/// The most bytes of lines that one look goes back.
const MOST_BYTES: usize = 16 << 20;

/// What a look at the last lines wants.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChangesWanted {
    /// Whose.
    pub by: ChangesBy,
    /// Only lines with a smaller number.
    pub before: Option<u64>,
    /// Only those of this day, in UTC.
    pub day: Option<NaiveDate>,
    /// How many at most.
    pub most: usize,
}

/// A line that somebody wants to see.
#[derive(Debug)]
pub struct LatestChange {
    /// The number of the line.
    pub sequence: u64,
    /// What it says.
    pub event: LedgerEvent,
    /// Its license as an earlier line had it, if the look went back that far.
    pub before: Option<Arc<IssuedLicense>>,
}

/// What was found.
#[derive(Debug, Default)]
pub struct LatestChanges {
    /// The newest first.
    pub changes: Vec<LatestChange>,
    /// The line before which the next look begins, if there may be more.
    pub older: Option<u64>,
}

/// Takes lines from the newest one back.
pub(crate) struct ChangesCollector {
    wanted: ChangesWanted,
    found: LatestChanges,
    /// The changes of licenses whose earlier line is looked for.
    without_before: HashMap<LicenseId, usize>,
    /// How many bytes may still be looked at.
    left: usize,
    /// Whether a line of an earlier day was seen.
    is_past: bool,
}

impl ChangesCollector {
    pub(crate) fn new(wanted: ChangesWanted) -> Self {
        Self {
            wanted,
            found: LatestChanges::default(),
            without_before: HashMap::new(),
            left: MOST_BYTES,
            is_past: false,
        }
    }

    /// Looks at a line, which has its line feed. Returns `Break` once every change is found.
    pub(crate) fn take(&mut self, line: &[u8]) -> Result<ControlFlow<()>, LineError> {
        let order = self.wanted.day.and_then(|wanted| Some(day(line)?.cmp(&wanted)));
        // An import writes when each site was bound, which may be years ago.
        let is_earlier = order == Some(Ordering::Less);
        self.is_past |= is_earlier && !is_of_kind(line, "bound");
        let is_wanted = !is_earlier && !self.is_full();
        let is_late =
            order == Some(Ordering::Greater) || self.wanted.before.is_some_and(|before| !is_before(line, before));
        if is_late || !(self.may_want(line) && is_wanted || self.may_be_before(line)) {
            return Ok(self.after(line, is_late));
        }
        let record = LedgerRecord::read(line)?;
        let sequence = record.previous.sequence + 1;
        let event = record.change;
        if let LedgerEvent::License(issued) = &event
            && let Some(index) = self.without_before.remove(&issued.license.id)
        {
            self.found.changes[index].before = Some(Arc::clone(issued));
        }
        if is_wanted && self.wants(&event) {
            if let LedgerEvent::License(issued) = &event
                && issued.revision > 1
            {
                self.without_before.insert(issued.license.id, self.found.changes.len());
            }
            self.found.changes.push(LatestChange {
                sequence,
                event,
                before: None,
            });
            self.found.older = Some(sequence);
        }
        Ok(self.after(line, false))
    }

    /// What was found. `is_whole` says that no line is left.
    pub(crate) fn finish(mut self, is_whole: bool) -> LatestChanges {
        if (is_whole || self.is_past) && self.found.changes.len() < self.wanted.most {
            self.found.older = None;
        }
        self.found
    }

    /// Whether nothing more is wanted.
    fn is_full(&self) -> bool {
        self.is_past || self.found.changes.len() >= self.wanted.most
    }

    /// Goes on, unless all was found or the look is long enough.
    fn after(&mut self, line: &[u8], is_late: bool) -> ControlFlow<()> {
        let is_full = self.is_full();
        if is_full && self.without_before.is_empty() {
            return ControlFlow::Break(());
        }
        if is_late {
            return ControlFlow::Continue(());
        }
        match self.left.checked_sub(line.len()) {
            Some(left) => {
                self.left = left;
                ControlFlow::Continue(())
            }
            None => {
                if !is_full {
                    self.found.older = sequence(line);
                }
                ControlFlow::Break(())
            }
        }
    }

    /// Whether a line can be wanted, by a look at its bytes. A quote inside a JSON string is escaped, so no text looks like a member.
    fn may_want(&self, line: &[u8]) -> bool {
        let kinds = ["sold", "bound", "released", "claimed"];
        match self.wanted.by {
            ChangesBy::Anyone => !is_of_kind(line, "sold"),
            ChangesBy::People => !kinds.iter().any(|kind| is_of_kind(line, kind)) && !is_of_shop(line),
        }
    }

    /// Whether a line has a license as it was before one of the changes.
    fn may_be_before(&self, line: &[u8]) -> bool {
        const MEMBER: &[u8] = b"\"license\":\"";
        if self.without_before.is_empty() || !is_of_kind(line, "license") {
            return false;
        }
        let id = memmem::find(line, MEMBER).and_then(|at| line.get(at + MEMBER.len()..at + MEMBER.len() + 64));
        let id = id.and_then(|digits| str::from_utf8(digits).ok()?.parse().ok());
        id.is_some_and(|id| self.without_before.contains_key(&id))
    }

    fn wants(&self, event: &LedgerEvent) -> bool {
        let change = event.change();
        change == Some(ChangesBy::People) || change.is_some() && self.wanted.by == ChangesBy::Anyone
    }
}

/// Whether a shop wrote a line. The scope of the change comes before the number of the line; that of the first issue comes earlier.
fn is_of_shop(line: &[u8]) -> bool {
    const MEMBER: &[u8] = b"\"scope\":\"";
    let end = memmem::rfind(line, b"\",\"sequence\":");
    let scope = end.and_then(|end| Some(&line[memmem::rfind(&line[..end], MEMBER)? + MEMBER.len()..end]));
    scope.is_some_and(|scope| scope.starts_with(b"shop:") || scope.starts_with(b"surplus:"))
}

/// The number of a line.
fn sequence(line: &[u8]) -> Option<u64> {
    const MEMBER: &[u8] = b"\"sequence\":";
    let digits = &line[memmem::rfind(line, MEMBER)? + MEMBER.len()..];
    let end = digits.iter().position(|byte| !byte.is_ascii_digit())?;
    str::from_utf8(&digits[..end]).ok()?.parse().ok()
}

/// The day of a line. What comes after its time has no member of that name.
fn day(line: &[u8]) -> Option<NaiveDate> {
    const MEMBER: &[u8] = b"\"time\":\"";
    let start = memmem::rfind(line, MEMBER)? + MEMBER.len();
    str::from_utf8(line.get(start..start + "2026-11-29".len())?)
        .ok()?
        .parse()
        .ok()
}

/// Whether a line has a smaller number. One without a number is read, so that the error names it.
fn is_before(line: &[u8], before: u64) -> bool {
    sequence(line).is_none_or(|sequence| sequence < before)
}

/// The last changes in the ledger of a folder; nothing where there is no ledger.
pub(crate) fn in_folder(path: &Path, wanted: ChangesWanted) -> Result<LatestChanges, StoreError> {
    if !disk::has_ledger(path)? {
        return Ok(LatestChanges::default());
    }
    let mut collector = ChangesCollector::new(wanted);
    let mut is_whole = true;
    let read = recovery::open(path).map_err(LedgerFault::Io).and_then(|ledger| {
        line_search::lines_from_end(ledger, |line| {
            let taken = collector.take(line).map_err(|error| match error {
                LineError::Newer(newer) => LedgerFault::Newer(format!("a line {newer}")),
                LineError::Damaged(error) => LedgerFault::Broken(format!("a line: {error}")),
            })?;
            is_whole = taken.is_continue();
            Ok::<_, LedgerFault>(taken)
        })
    });
    read.map_err(|fault| recovery::fault_in(path, fault))?;
    Ok(collector.finish(is_whole))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::{Value, json};

    use super::*;

    /// A line about license number `license`, with this scope of the change; a shop issued it first.
    fn of_license(sequence: u64, license: u8, revision: u32, scope: &str) -> String {
        let hex = |byte: u8, times: usize| format!("{byte:02x}").repeat(times);
        let kind = if revision == 1 { "issued" } else { "changed" };
        line(json!({
            "event": "license", "expires": "2030-01-01", "kind": kind, "license": hex(license, 32),
            "metadata": {"scope": "shop:x", "note": "\",\"sequence\":1,\"scope\":\"shop:y"},
            "modules": {"forms": []},
            "origin": {
                "body": hex(1, 16), "issued": "2026-01-01T00:00:00Z", "key": hex(2, 16), "salt": hex(3, 16),
                "scope": "shop:main", "secret": 1,
            },
            "previous": hex(9, 32), "revision": revision, "scope": scope, "sequence": sequence, "sites": revision,
            "status": "active", "synced": 0, "time": "2026-01-01T00:00:00Z",
        }))
    }

    fn bound(sequence: u64, license: u8) -> String {
        line(json!({
            "event": "bound", "host": "a.example", "license": format!("{license:02x}").repeat(32),
            "previous": "09".repeat(32), "sequence": sequence, "synced": 0, "time": "2026-01-01T00:00:00Z",
        }))
    }

    fn line(members: Value) -> String {
        // A map of serde_json is sorted.
        let line = format!("{members}\n");
        LedgerRecord::read(line.as_bytes()).unwrap();
        line
    }

    fn look(lines: &[String], by: ChangesBy, before: Option<u64>, most: usize) -> LatestChanges {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("ledger.jsonl"), lines.concat()).unwrap();
        let wanted = ChangesWanted {
            by,
            before,
            day: None,
            most,
        };
        in_folder(folder.path(), wanted).unwrap()
    }

    /// The number of each line, with the number of sites that its license had before.
    fn found(changes: &LatestChanges) -> Vec<(u64, Option<u32>)> {
        let before = |change: &LatestChange| change.before.as_ref().map(|before| before.revision);
        let changes = changes.changes.iter();
        changes.map(|change| (change.sequence, before(change))).collect()
    }

    #[test]
    fn changes_of_people_are_found_among_those_of_shops_and_sites_each_with_what_was_before() {
        let lines = [
            of_license(1, 1, 1, "shop:main"),
            of_license(2, 2, 1, "token:crm"),
            bound(3, 1),
            of_license(4, 1, 2, "operator:desk"),
            of_license(5, 1, 3, "surplus:main"),
            of_license(6, 2, 2, "operator:account"),
            bound(7, 2),
        ];
        let people = look(&lines, ChangesBy::People, None, 10);
        assert_eq!(found(&people), [(6, Some(1)), (4, Some(1)), (2, None)]);
        assert_eq!(people.older, None);
        let anyone = look(&lines, ChangesBy::Anyone, None, 3);
        assert_eq!(found(&anyone), [(7, None), (6, Some(1)), (5, Some(2))]);
        assert_eq!(anyone.older, Some(5));
        let rest = look(&lines, ChangesBy::Anyone, anyone.older, 10);
        assert_eq!(found(&rest), [(4, Some(1)), (3, None), (2, None), (1, None)]);
        assert_eq!(rest.older, None);
        assert_eq!(found(&look(&[], ChangesBy::Anyone, None, 3)), []);
    }

    #[test]
    fn the_changes_of_a_day_are_found_between_those_of_others() {
        let at = |line: String, day: &str| line.replace("\"time\":\"2026-01-01", &format!("\"time\":\"{day}"));
        let lines = [
            at(of_license(1, 1, 1, "operator:cli"), "2026-03-01"),
            at(of_license(2, 1, 2, "operator:cli"), "2026-03-02"),
            at(bound(3, 1), "2026-03-02"),
            at(of_license(4, 1, 3, "operator:cli"), "2026-03-02"),
            at(bound(5, 1), "2019-01-01"),
            at(of_license(6, 1, 4, "operator:cli"), "2026-03-03"),
        ];
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("ledger.jsonl"), lines.concat()).unwrap();
        let of = |day: &str, most| {
            let wanted = ChangesWanted {
                day: Some(day.parse().unwrap()),
                most,
                ..ChangesWanted::default()
            };
            let changes = in_folder(folder.path(), wanted).unwrap();
            (found(&changes), changes.older)
        };
        // The site was bound before the ledger began, and an import said so on 2 or 3 March.
        assert_eq!(of("2026-03-02", 10), (vec![(4, Some(2)), (2, Some(1))], None));
        assert_eq!(of("2026-03-02", 1), (vec![(4, Some(2))], Some(4)));
        assert_eq!(of("2026-03-01", 10), (vec![(1, None)], None));
        for none in ["2026-02-28", "2026-03-04"] {
            assert_eq!(of(none, 10), (vec![], None), "{none}");
        }
    }

    #[test]
    fn a_look_ends_after_so_many_bytes_and_the_next_one_goes_on_there() {
        let mut lines = vec![of_license(1, 1, 1, "operator:cli")];
        let count = MOST_BYTES / bound(1_000, 1).len() * 3 / 2;
        lines.extend((0..count).map(|number| bound(number as u64 + 2, 1)));
        let first = look(&lines, ChangesBy::People, None, 10);
        assert_eq!(found(&first), []);
        let second = look(&lines, ChangesBy::People, first.older, 10);
        assert_eq!((found(&second), second.older), (vec![(1, None)], None));
    }

    #[test]
    fn a_line_that_cannot_be_read_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("ledger.jsonl"), "{\"event\":\"license\"}\n").unwrap();
        let wanted = ChangesWanted {
            by: ChangesBy::People,
            before: None,
            day: None,
            most: 1,
        };
        assert!(matches!(
            in_folder(folder.path(), wanted),
            Err(StoreError::Damaged { .. })
        ));
    }
}
