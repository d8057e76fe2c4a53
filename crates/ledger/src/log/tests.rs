//! Tests of the chain: damage, and disks that fail.

use std::cell::{Cell, RefCell};
use std::io;

use chrono::DateTime;

use crate::log::reader::{self, LedgerExtent, LedgerFault};
use crate::log::record::{self, LedgerEvent};
use crate::log::writer::{LedgerWriter, Medium};
use crate::log::{LedgerEntry, Position};
use countersign_model::binding::Binding;
use countersign_model::license_key::LicenseId;

/// A file in memory, on a disk with limited space that fails when a test wants it.
struct Disk {
    bytes: RefCell<Vec<u8>>,
    capacity: Cell<usize>,
    syncs: Cell<bool>,
    cuts: Cell<bool>,
}

impl Disk {
    fn new() -> Self {
        Self {
            bytes: RefCell::default(),
            capacity: Cell::new(usize::MAX),
            syncs: Cell::new(true),
            cuts: Cell::new(true),
        }
    }

    fn found(&self) -> (LedgerExtent, Vec<String>) {
        read(&self.bytes.borrow()).unwrap()
    }
}

fn full() -> io::Error {
    io::ErrorKind::StorageFull.into()
}

impl Medium for &Disk {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut file = self.bytes.borrow_mut();
        let fits = bytes.len().min(self.capacity.get().saturating_sub(offset as usize));
        let end = file.len().max(offset as usize + fits);
        file.resize(end, 0);
        file[offset as usize..][..fits].copy_from_slice(&bytes[..fits]);
        if fits == bytes.len() { Ok(()) } else { Err(full()) }
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        if self.cuts.get() {
            self.bytes.borrow_mut().truncate(length as usize);
            Ok(())
        } else {
            Err(full())
        }
    }

    fn sync(&self) -> io::Result<()> {
        if self.syncs.get() { Ok(()) } else { Err(full()) }
    }

    fn expect(&self, lengths: std::ops::RangeInclusive<u64>) -> io::Result<()> {
        let length = self.bytes.borrow().len() as u64;
        assert!(lengths.contains(&length), "{length} is not within {lengths:?}");
        Ok(())
    }

    fn prove(&self, _: Position, _: u64) -> io::Result<()> {
        panic!("nobody touches this disk but the writer")
    }
}

fn entry(name: &str) -> LedgerEntry {
    let binding = Binding::new(name.parse().unwrap(), DateTime::from_timestamp(1, 0).unwrap());
    LedgerEntry {
        license: LicenseId::from_bytes([7; 32]),
        binding,
    }
}

fn entries(names: &[&str]) -> Vec<LedgerEvent> {
    names.iter().map(|name| LedgerEvent::Bound(entry(name))).collect()
}

fn read(bytes: &[u8]) -> Result<(LedgerExtent, Vec<String>), String> {
    let mut hosts = Vec::new();
    let found = reader::read(bytes, |_, change| {
        let entry = change.and_then(LedgerEvent::binding);
        hosts.extend(entry.map(|entry| entry.binding.host.to_string()));
    });
    match found {
        Ok(found) => Ok((found, hosts)),
        Err(LedgerFault::Broken(what) | LedgerFault::Newer(what)) => Err(what),
        Err(LedgerFault::Io(error)) => panic!("{error}"),
    }
}

fn writer(disk: &Disk) -> LedgerWriter<&Disk> {
    let (LedgerExtent { end, length, torn, .. }, _) = disk.found();
    LedgerWriter::new(disk, end, length, torn)
}

/// Three batches: one line, two lines, two lines; and where each line ends.
fn ledger() -> (Vec<u8>, Vec<usize>) {
    let disk = Disk::new();
    let mut writer = writer(&disk);
    for batch in [&["a.com"][..], &["b.com", "c.com"], &["d.com", "e.com"]] {
        writer.append(&entries(batch)).unwrap();
    }
    let bytes = disk.bytes.take();
    let ends = bytes
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n')
        .map(|(at, _)| at + 1)
        .collect();
    (bytes, ends)
}

#[test]
fn what_is_appended_is_read_and_continued() {
    let disk = Disk::new();
    let places = writer(&disk).append(&entries(&["a.com", "b.com"])).unwrap();
    assert_eq!(disk.found().0.end, places[1]);
    let places = writer(&disk).append(&entries(&["a.com"])).unwrap();
    let (found, hosts) = disk.found();
    assert_eq!(
        (found.end, found.torn, found.start),
        (places[0], false, Position::genesis())
    );
    assert_eq!(
        (found.end.sequence, hosts),
        (3, vec!["a.com".to_owned(), "b.com".into(), "a.com".into()])
    );
}

#[test]
fn wherever_a_full_disk_stops_a_batch_nothing_of_it_stays_and_the_next_one_goes_well() {
    let (whole, ends) = ledger();
    for capacity in ends[0]..ends[2] {
        let disk = Disk::new();
        let mut writer = writer(&disk);
        writer.append(&entries(&["a.com"])).unwrap();
        disk.capacity.set(capacity);
        assert!(writer.append(&entries(&["b.com", "c.com"])).is_err());
        assert!(writer.probe().is_err(), "still full");
        assert_eq!(*disk.bytes.borrow(), whole[..ends[0]]);
        disk.capacity.set(usize::MAX);
        writer.probe().unwrap();
        assert_eq!(*disk.bytes.borrow(), whole[..ends[0]]);
        writer.append(&entries(&["b.com", "c.com"])).unwrap();
        writer.append(&entries(&["d.com", "e.com"])).unwrap();
        assert_eq!(*disk.bytes.borrow(), whole);
    }
}

#[test]
fn a_torn_line_is_never_continued_even_where_it_cannot_be_cut_at_once() {
    let disk = Disk::new();
    let mut writer = writer(&disk);
    writer.append(&entries(&["a.com"])).unwrap();
    disk.syncs.set(false);
    disk.cuts.set(false);
    for _ in 0..3 {
        assert!(writer.append(&entries(&["b.com"])).is_err());
    }
    disk.syncs.set(true);
    assert!(
        writer.append(&entries(&["c.com"])).is_err(),
        "what is there cannot be cut"
    );
    disk.cuts.set(true);
    writer.append(&entries(&["d.com"])).unwrap();
    assert_eq!(disk.found().1, ["a.com", "d.com"]);
}

#[test]
fn a_torn_end_is_cut_wherever_it_was_torn() {
    let (whole, ends) = ledger();
    for length in 0..whole.len() {
        let disk = Disk::new();
        disk.bytes.replace(whole[..length].to_vec());
        let lines = ends.iter().filter(|end| **end <= length).count();
        let (found, hosts) = disk.found();
        assert_eq!(
            (hosts.len(), found.torn),
            (lines, length > 0 && !ends.contains(&length))
        );
        let mut writer = writer(&disk);
        writer.cut().unwrap();
        writer.append(&entries(&["f.com"])).unwrap();
        let (found, hosts) = disk.found();
        assert_eq!(
            (found.torn, hosts.len(), hosts.last().unwrap().as_str()),
            (false, lines + 1, "f.com")
        );
    }
}

#[test]
fn a_hole_in_the_last_batch_was_never_acknowledged_and_one_before_it_was() {
    let (whole, ends) = ledger();
    let with_hole = |from: usize, to: usize| {
        let mut bytes = whole.clone();
        bytes[from..to].fill(0);
        read(&bytes).map(|(found, hosts)| (found.torn, hosts.len()))
    };
    // Pages of the last batch that never reached the disk.
    assert_eq!(with_hole(ends[2] + 9, ends[3] - 40), Ok((true, 3)));
    assert_eq!(with_hole(ends[2] + 9, ends[3] + 40), Ok((true, 3)));
    assert_eq!(with_hole(ends[3] + 9, whole.len()), Ok((true, 4)));
    // The batch before was on disk when the last one was written.
    for (from, to, line) in [
        (0, ends[0], 1),
        (9, 19, 1),
        (ends[0], ends[2], 2),
        (ends[1] + 1, ends[1] + 2, 3),
    ] {
        let error = with_hole(from, to).unwrap_err();
        assert!(error.starts_with(&format!("line {line} of the file (byte ")), "{error}");
    }
    // Also where the only line that says so has run into the damaged one.
    let mut bytes = whole[..ends[3]].to_vec();
    bytes[ends[2] - 1] = 0;
    assert!(read(&bytes).unwrap_err().starts_with("line 3 of the file (byte "));
}

#[test]
fn every_changed_byte_is_found_and_its_line_is_named() {
    let (whole, ends) = ledger();
    // The last line has no successor yet: the index knows its digest.
    for at in 0..ends[3] {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            let line = ends.iter().filter(|end| **end <= at).count() + 1;
            let error = read(&bytes).unwrap_err();
            let named = [line, line + 1].map(|line| error.starts_with(&format!("line {line} of the file (byte ")));
            assert!(named.contains(&true), "byte {at} of line {line}: {error}");
        }
    }
}

#[test]
fn a_line_taken_out_doubled_or_moved_breaks_the_chain() {
    let (whole, ends) = ledger();
    let line = |number: usize| &whole[number.checked_sub(1).map_or(0, |before| ends[before])..ends[number]];
    for order in [
        &[1, 2, 3, 4][..],
        &[0, 2, 3, 4],
        &[0, 1, 1, 2],
        &[0, 2, 1, 3],
        &[0, 1, 3],
    ] {
        let lines: Vec<u8> = order.iter().flat_map(|number| line(*number).to_vec()).collect();
        assert!(read(&lines).is_err(), "{order:?}");
    }
}

#[test]
fn a_hole_behind_the_last_line_is_torn_where_one_batch_can_leave_it_and_damage_where_not() {
    let batch = record::BATCH * record::MAX;
    assert!(read(&vec![0; batch]).unwrap().0.torn);
    assert!(
        read(&vec![0; batch + 1])
            .unwrap_err()
            .starts_with("line 1 of the file (byte 0): damaged")
    );
}

#[test]
fn garbage_of_any_length_is_refused_in_bounded_memory() {
    for bytes in [vec![b'x'; 1 << 22], vec![b'\n'; 1 << 10], b"{}\n".repeat(100)] {
        assert!(
            read(&bytes)
                .unwrap_err()
                .starts_with("line 1 of the file (byte 0): damaged")
        );
    }
}
