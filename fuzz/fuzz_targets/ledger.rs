//! Any lines as a ledger. An accepted line is written as itself, and lines in a chain are verified. If a ledger is
//! cut or changed anywhere, all acknowledged lines are there, or it is refused.
#![no_main]

use countersign_ledger::log::Position;
use countersign_ledger::log::reader::{self, LedgerExtent};
use countersign_ledger::log::record::{LedgerEvent, LedgerRecord};
use libfuzzer_sys::fuzz_target;

fn read(ledger: &[u8]) -> Option<(LedgerExtent, Vec<LedgerEvent>)> {
    let mut entries = Vec::new();
    let found = reader::read(ledger, |_, entry| entries.extend(entry)).ok()?;
    Some((found, entries))
}

/// The changes as a ledger, and after each line: how many bytes, and how many lines were on disk before it was written.
fn chain(changes: Vec<(LedgerEvent, u64)>) -> (Vec<u8>, Vec<(usize, u64)>) {
    let mut ledger = Vec::new();
    let mut ends = Vec::new();
    let mut previous = Position::genesis();
    for (change, synced) in changes {
        let synced = synced.min(previous.sequence);
        previous = LedgerRecord {
            previous,
            synced,
            change,
        }
        .write(&mut ledger)
        .unwrap();
        ends.push((ledger.len(), synced));
    }
    (ledger, ends)
}

fuzz_target!(|input: &[u8]| {
    // The chain of arbitrary lines is broken at once, and the reader must report that.
    let _ = read(input);
    let mut changes = Vec::new();
    for bytes in input.split_inclusive(|&byte| byte == b'\n').take(16) {
        let Ok(line) = LedgerRecord::read(bytes) else { continue };
        let mut once = Vec::new();
        let mut twice = Vec::new();
        line.write(&mut once).unwrap();
        let again = LedgerRecord::read(&once).unwrap();
        assert_eq!(again, line);
        again.write(&mut twice).unwrap();
        assert_eq!(once, twice);
        if !matches!(line.change, LedgerEvent::Compacted(_)) {
            changes.push((line.change, line.synced));
        }
    }
    let expected: Vec<LedgerEvent> = changes.iter().map(|(change, _)| change.clone()).collect();
    let (ledger, ends) = chain(changes);
    let (found, entries) = read(&ledger).expect("a whole ledger");
    assert_eq!(
        (found.torn, found.length, &entries),
        (false, ledger.len() as u64, &expected)
    );

    // The input also says where to cut, and what to change.
    let seed = input
        .iter()
        .fold(7_usize, |seed, &byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
    if ledger.is_empty() {
        return;
    }
    let cut = seed % ledger.len();
    let whole = ends.iter().filter(|(end, _)| *end <= cut).count();
    let (found, entries) = read(&ledger[..cut]).expect("a ledger that was cut off");
    assert_eq!(found.torn, whole.checked_sub(1).map_or(0, |last| ends[last].0) != cut);
    assert_eq!(entries, expected[..whole]);

    for change in [0, ledger[cut] ^ (1 << (seed % 8))] {
        let mut damaged = ledger.clone();
        damaged[cut] = change;
        if damaged == ledger {
            continue;
        }
        if let Some((found, entries)) = read(&damaged) {
            assert_eq!(
                entries[..whole.min(entries.len())],
                expected[..whole.min(entries.len())]
            );
            let acknowledged = ends.iter().map(|(_, synced)| *synced).max().unwrap_or_default();
            // Only the index knows of the last line of all.
            assert!(
                found.end.sequence >= acknowledged && whole + 1 >= entries.len(),
                "a silent loss"
            );
            assert!(found.torn || whole + 1 == ends.len(), "a change that nobody sees");
        }
    }
});
