//! The texts of the embedded store: all of them in memory, and in a file beside the ledger.
//!
//! A text is on disk before the lines of its commit. An erasure replaces the file by one without the text.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::StoreError;
use crate::log::Position;
use crate::log::file::LedgerFile;
use crate::log::reader::{LedgerExtent, LedgerFault};
use crate::log::writer::{LedgerWriter, Medium as _};
use crate::texts::customer_search::{self, FoldedCustomers};
use crate::texts::file::{self, TextFile};
use crate::texts::{ErasedText, FoundTexts, NewText, TextErasure, customer_rows};
use countersign_files::durable_file::{self, Access};
use countersign_files::regular_file;
use countersign_model::customer::{CustomerRow, NewCustomer};
use countersign_model::issued_license::Hex128;
use countersign_model::stored_text::StoredText;

/// The open table.
pub(crate) struct TextTable {
    /// The file itself, where the path is a symbolic link.
    path: PathBuf,
    stored: TextsByName,
    /// The names of the rows of each customer, by number.
    numbers: BTreeSet<(Hex128, Hex128)>,
    /// Addresses and names.
    search: Arc<FoldedCustomers>,
    writer: LedgerWriter<TextFile>,
}

/// What is kept of each text.
pub(crate) type TextsByName = BTreeMap<Hex128, StoredText>;

/// Reads the texts in a folder, also beside a running server; none if there is no file.
pub(crate) fn read(folder: &Path) -> Result<TextsByName, StoreError> {
    // This order: a process that converts the old file writes the new one before it removes the old one.
    let old = read_file(&file::format_1_path_in(folder), file::format_1_genesis())?;
    let mut stored = read_file(&file::path_in(folder), file::genesis())?;
    add(&mut stored, old);
    Ok(stored)
}

fn read_file(path: &Path, genesis: Position) -> Result<TextsByName, StoreError> {
    read_whole(path, genesis).map(|(stored, _)| stored)
}

fn read_whole(path: &Path, genesis: Position) -> Result<(TextsByName, LedgerExtent), StoreError> {
    let mut lines = Vec::new();
    let found = match regular_file::open(path, regular_file::UNLIMITED) {
        Ok(opened) => {
            let found = file::read(opened, genesis, |name, text| lines.push((name, text)));
            found.map_err(|fault| fault_in(path, fault))?
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => LedgerExtent::none(genesis),
        Err(source) => {
            let path = path.to_owned();
            return Err(StoreError::Read { path, source });
        }
    };
    // The last line of a name counts. Collected, so that the names are sorted once.
    Ok((lines.into_iter().collect(), found))
}

/// What was read of the file in a store's folder.
pub(crate) struct ReadTexts {
    stored: TextsByName,
    numbers: BTreeSet<(Hex128, Hex128)>,
    search: FoldedCustomers,
    found: LedgerExtent,
}

impl ReadTexts {
    /// Reads the file, if there is one. Changes nothing.
    pub(crate) fn of(folder: &Path) -> Result<Self, StoreError> {
        let (stored, found) = read_whole(&file::path_in(folder), file::genesis())?;
        Ok(Self {
            numbers: stored.iter().filter_map(number_and_name).collect(),
            search: FoldedCustomers::of(&stored),
            stored,
            found,
        })
    }
}

/// Adds texts. An erased text stays erased.
fn add(stored: &mut TextsByName, others: TextsByName) {
    for (name, other) in others {
        match (stored.get(&name), &other) {
            (Some(StoredText::Text(_)), StoredText::Erased(_)) | (None, _) => drop(stored.insert(name, other)),
            (Some(_), _) => {}
        }
    }
}

/// Puts the texts of a file that had those of orders alone into today's file, and removes that file. A process that is killed
/// meanwhile leaves both files, and the next one goes on. Whether there was one.
fn convert_old_file(folder: &Path) -> Result<bool, StoreError> {
    let old = file::format_1_path_in(folder);
    if fs::symlink_metadata(&old).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Ok(false);
    }
    let before = read_file(&file::path_in(folder), file::genesis())?;
    let stored = read(folder)?;
    let put = || {
        if stored != before {
            let path = file::path_in(folder);
            let path = path.canonicalize().unwrap_or(path);
            let new = file::new_file_in(path.parent().unwrap_or(folder));
            let _ = fs::remove_file(&new);
            let opened = regular_file::create(&new, 0o600)?;
            file::write_all(&opened, stored.len() as u64, stored.iter())?;
            fs::rename(&new, &path)?;
            regular_file::open_folder(path.parent().unwrap_or(folder))?.sync_all()?;
        }
        let opened = LedgerFile::take(&old.canonicalize()?)?;
        let opened = opened.ok_or_else(|| io::Error::other("another process has locked the file"))?;
        // The file may have another name, as a hard link.
        opened.set_len(0)?;
        opened.sync()?;
        fs::remove_file(&old)?;
        regular_file::open_folder(folder)?.sync_all()
    };
    put().map_err(|source| StoreError::Read {
        path: old.clone(),
        source,
    })?;
    tracing::info!(
        texts = stored.len(),
        from = %old.display(),
        "the texts of orders are in texts.jsonl now"
    );
    Ok(true)
}

/// The number of the customer of a row, and the row's name.
fn number_and_name((name, stored): (&Hex128, &StoredText)) -> Option<(Hex128, Hex128)> {
    Some((stored.customer()?.number, *name))
}

fn fault_in(path: &Path, fault: LedgerFault) -> StoreError {
    let path = path.to_owned();
    match fault {
        LedgerFault::Io(source) => StoreError::Read { path, source },
        LedgerFault::Broken(what) | LedgerFault::Newer(what) => StoreError::TextsDamaged { path, what },
    }
}

impl TextTable {
    /// Opens the file in a store's folder for writing; `read` is its content. If there is no file, creates it, and warns if the ledger
    /// names texts.
    pub(crate) fn open(folder: &Path, mut read: ReadTexts, has_orders: bool) -> Result<Self, StoreError> {
        if convert_old_file(folder)? {
            read = ReadTexts::of(folder)?;
        }
        let path = file::path_in(folder);
        let failed = |source| StoreError::Read {
            path: path.clone(),
            source,
        };
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if has_orders {
                    tracing::warn!(
                        file = %path.display(),
                        "there is no file with the texts of licenses: an order is not shown until an import or a retry brings it"
                    );
                }
                durable_file::create_new(&path, b"", Access::Owner).map_err(failed)?;
            }
            found => {
                found.map_err(failed)?;
            }
        }
        let path = path.canonicalize().map_err(failed)?;
        // Left over from an erasure that was killed. It has texts.
        let _ = fs::remove_file(file::new_file_in(path.parent().unwrap_or(folder)));
        let opened = LedgerFile::take(&path).map_err(failed)?;
        let opened = opened.ok_or_else(|| StoreError::InUse(folder.to_owned()))?;
        let ReadTexts {
            stored,
            numbers,
            search,
            found,
        } = read;
        let mut writer = LedgerWriter::new(TextFile(opened), found.end, found.length, found.torn);
        if found.torn {
            let line = found.lines() + 1;
            tracing::warn!(line, file = %path.display(), "removing the end of the file, which was never acknowledged");
            writer.make_ready().map_err(failed)?;
        }
        Ok(Self {
            path,
            stored,
            numbers,
            search: Arc::new(search),
            writer,
        })
    }

    /// What is kept of these texts.
    pub(crate) fn find(&self, names: &[Hex128]) -> FoundTexts {
        let found = names
            .iter()
            .filter_map(|name| Some((*name, self.stored.get(name)?.clone())));
        found.collect()
    }

    /// Keeps texts. When it returns, they survive a power failure. An erased text is not kept again, also if the order has
    /// another name by now.
    pub(crate) fn keep(&mut self, texts: &[NewText]) -> io::Result<()> {
        if texts.is_empty() {
            return Ok(());
        }
        // Also where all texts are known: a license must not rest on a file that is gone.
        self.writer.make_ready()?;
        let mut new = TextsByName::new();
        for text in texts.iter().filter(|text| !self.stored.contains_key(&text.name)) {
            let erased = text.names.iter().find_map(|name| self.stored.get(name)?.erased_at());
            let stored = erased.map_or_else(|| StoredText::Text(text.text.clone()), StoredText::Erased);
            new.insert(text.name, stored);
        }
        self.append(new)
    }

    /// Erases the text of an order under all its names; `None` if nothing is known of it. When it returns, no file of the
    /// store has the text, and that survives a power failure.
    pub(crate) fn erase(&mut self, erasure: &TextErasure) -> io::Result<Option<ErasedText>> {
        let before = self.find(&erasure.names);
        let Some(erased) = ErasedText::after(&before, erasure, erasure.now) else {
            return Ok(None);
        };
        let kept: Vec<_> = erasure
            .names
            .iter()
            .filter(|name| !self.is_erased(name))
            .copied()
            .collect();
        if !kept.is_empty() {
            self.writer.make_ready()?;
            for name in &kept {
                self.stored.insert(*name, StoredText::Erased(erased.time));
            }
            match self.new_file() {
                Ok(writer) => self.leave_old_file(writer)?,
                Err(error) => {
                    kept.iter().for_each(|name| drop(self.stored.remove(name)));
                    self.stored.extend(before);
                    return Err(error);
                }
            }
        }
        // Also if it was erased before: that attempt may have failed here.
        self.sync_folder()?;
        Ok(Some(erased))
    }

    /// Keeps customers. When it returns, their rows survive a power failure. Gives their numbers.
    pub(crate) fn keep_customers(&mut self, new: &[NewCustomer]) -> io::Result<Vec<Hex128>> {
        self.writer.make_ready()?;
        let names: Vec<_> = new.iter().flat_map(|new| new.names.iter().copied()).collect();
        let (rows, numbers) = customer_rows(self.find(&names), new);
        self.append(rows)?;
        Ok(numbers)
    }

    /// The rows of these customers.
    pub(crate) fn find_customers(&self, numbers: &BTreeSet<Hex128>) -> Vec<CustomerRow> {
        let names = numbers.iter().flat_map(|number| {
            let of_number = (*number, Hex128([0; 16]))..=(*number, Hex128([0xff; 16]));
            self.numbers.range(of_number).map(|(_, name)| name)
        });
        names.filter_map(|name| self.customer(name)).collect()
    }

    /// A snapshot of the addresses and names, for a search on another thread.
    pub(crate) fn customer_search(&self) -> Arc<FoldedCustomers> {
        Arc::clone(&self.search)
    }

    fn customer(&self, name: &Hex128) -> Option<CustomerRow> {
        self.stored.get(name)?.customer().cloned()
    }

    /// Deletes the rows of customers with these numbers. When it returns, no file of the store has them. Gives how many
    /// addresses there were.
    pub(crate) fn forget_customers(&mut self, numbers: &BTreeSet<Hex128>) -> io::Result<usize> {
        let is_meant = |stored: &StoredText| stored.customer().is_some_and(|row| numbers.contains(&row.number));
        let gone: TextsByName = self
            .stored
            .iter()
            .filter(|(_, stored)| is_meant(stored))
            .map(|(name, stored)| (*name, stored.clone()))
            .collect();
        if !gone.is_empty() {
            self.writer.make_ready()?;
            gone.keys().for_each(|name| drop(self.stored.remove(name)));
            match self.new_file() {
                Ok(writer) => {
                    for pair in gone.iter().filter_map(number_and_name) {
                        self.numbers.remove(&pair);
                    }
                    Arc::make_mut(&mut self.search).remove(&gone.keys().copied().collect());
                    self.leave_old_file(writer)?;
                }
                Err(error) => {
                    self.stored.extend(gone);
                    return Err(error);
                }
            }
        }
        self.sync_folder()?;
        let rows = gone.values().filter_map(StoredText::customer);
        Ok(rows.filter(|row| row.is_of_address()).count())
    }

    /// Appends rows, and syncs them.
    fn append(&mut self, new: TextsByName) -> io::Result<()> {
        if new.is_empty() {
            return Ok(());
        }
        let synced = self.writer.end().sequence;
        let mut end = self.writer.end();
        let mut bytes = Vec::new();
        for (name, stored) in &new {
            end = file::write(&mut bytes, end, synced, *name, stored)?;
        }
        self.writer.append_bytes(&bytes, end)?;
        for name in new.keys() {
            // A license's row follows its customer.
            let before = self.stored.get(name).and_then(|stored| number_and_name((name, stored)));
            before.map(|pair| self.numbers.remove(&pair));
        }
        self.numbers.extend(new.iter().filter_map(number_and_name));
        let known = new
            .keys()
            .filter(|name| self.stored.get(name).is_some_and(customer_search::has));
        let known = known.copied().collect();
        let search = Arc::make_mut(&mut self.search);
        search.remove(&known);
        search.add(&new);
        // One by one: `BTreeMap::append` builds the whole map again.
        self.stored.extend(new);
        Ok(())
    }

    fn is_erased(&self, name: &Hex128) -> bool {
        matches!(self.stored.get(name), Some(StoredText::Erased(_)))
    }

    /// Puts a new file in the place of the old one.
    fn new_file(&self) -> io::Result<LedgerWriter<TextFile>> {
        let new = file::new_file_in(self.folder());
        let put = || {
            let opened = regular_file::create(&new, 0o600)?;
            let (end, length) = file::write_all(&opened, self.stored.len() as u64, self.stored.iter())?;
            let locked = LedgerFile::lock(&self.path, opened)?;
            let locked = locked.ok_or_else(|| io::Error::other("another process has locked the new file"))?;
            fs::rename(&new, &self.path)?;
            Ok::<_, io::Error>(LedgerWriter::new(TextFile(locked), end, length, false))
        };
        put().inspect_err(|_| drop(fs::remove_file(&new)))
    }

    /// Goes on with the new file, and empties the old one when the new one is there for good.
    fn leave_old_file(&mut self, new: LedgerWriter<TextFile>) -> io::Result<()> {
        let old = std::mem::replace(&mut self.writer, new);
        self.sync_folder()?;
        // The old file may have another name, as a hard link.
        old.medium().set_len(0)
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    fn sync_folder(&self) -> io::Result<()> {
        regular_file::open_folder(self.folder())?.sync_all()
    }

    /// Whether the file is still the expected one.
    pub(crate) fn look(&mut self) -> io::Result<()> {
        self.writer.look()
    }

    /// Whether texts can be kept.
    pub(crate) fn probe(&mut self) -> io::Result<()> {
        self.writer.probe()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use chrono::{DateTime, Utc};
    use countersign_model::customer::{CustomerRow, LicenseMails};
    use countersign_model::issued_license::ChangeScope;
    use countersign_model::license_key::LicenseId;

    use super::*;

    fn open_texts(folder: &Path, has_orders: bool) -> Result<TextTable, StoreError> {
        TextTable::open(folder, ReadTexts::of(folder)?, has_orders)
    }

    fn new(number: u8, names: &[u8], text: &str) -> NewText {
        NewText {
            name: Hex128([number; 16]),
            names: names.iter().map(|name| Hex128([*name; 16])).collect(),
            text: text.into(),
        }
    }

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(seconds, 0).unwrap()
    }

    fn erasure(names: &[u8], is_named: bool) -> TextErasure {
        TextErasure {
            names: names.iter().map(|name| Hex128([*name; 16])).collect(),
            is_one: true,
            is_named,
            now: at(7),
        }
    }

    fn found(table: &TextTable, name: u8) -> Option<StoredText> {
        let found = table.find(&[Hex128([name; 16])]);
        found.into_iter().next().map(|(_, stored)| stored)
    }

    fn text(text: &str) -> Option<StoredText> {
        Some(StoredText::Text(text.into()))
    }

    #[test]
    fn an_erased_text_stays_erased_also_under_a_name_that_the_order_gets_later() {
        let folder = tempfile::tempdir().unwrap();
        let open = || open_texts(folder.path(), false).unwrap();
        let mut table = open();
        table.keep(&[new(1, &[1], "order 1"), new(2, &[2], "order 2")]).unwrap();
        assert_eq!((found(&table, 1), found(&table, 2)), (text("order 1"), text("order 2")));
        assert_eq!(table.erase(&erasure(&[9], false)).unwrap(), None, "nobody knows it");
        let erased = table.erase(&erasure(&[1], true)).unwrap().unwrap();
        assert_eq!((erased.time, erased.had_texts), (at(7), 1));
        table
            .keep(&[new(1, &[1], "order 1"), new(3, &[3, 1], "order 1")])
            .unwrap();
        drop(table);
        let mut table = open();
        for name in [1, 3] {
            assert_eq!(found(&table, name), Some(StoredText::Erased(at(7))), "{name}");
        }
        assert_eq!(found(&table, 2), text("order 2"));
        assert_eq!(table.erase(&erasure(&[1], true)).unwrap().unwrap().had_texts, 0);
        let all = fs::read_to_string(file::path_in(folder.path())).unwrap();
        assert!(!all.contains("order 1") && all.contains("order 2"), "{all}");
    }

    fn customer(name: u8, number: u8, address: &str) -> NewCustomer {
        NewCustomer {
            names: vec![Hex128([name; 16])],
            row: CustomerRow {
                address: Some(address.into()),
                by: ChangeScope::operator(),
                mails: None,
                name: None,
                number: Hex128([number; 16]),
                since: None,
                unsubscribed: false,
            },
        }
    }

    #[test]
    fn a_customer_is_found_after_a_restart_and_after_the_erasure_the_same_address_is_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let open = || open_texts(folder.path(), false).unwrap();
        let numbers = |number: u8| vec![Hex128([number; 16])];
        let mut table = open();
        table.keep(&[new(1, &[1], "order 1")]).unwrap();
        let both = [customer(2, 20, "anna@a.example"), customer(3, 30, "bert@a.example")];
        assert_eq!(
            table.keep_customers(&both).unwrap(),
            [20, 30].map(|number| Hex128([number; 16]))
        );
        drop(table);
        let mut table = open();
        let again = customer(2, 21, "anna@a.example");
        assert_eq!(table.keep_customers(std::slice::from_ref(&again)).unwrap(), numbers(20));
        let of_number = numbers(20).into_iter().collect();
        assert_eq!(table.find_customers(&of_number), [both[0].row.clone()]);
        // A license's row goes with its customer.
        let license = LicenseId::from_bytes([7; 32]);
        let of_license = |number: u8| {
            let mails = LicenseMails::default();
            NewCustomer::of_license(&license, Some(Hex128([number; 16])), &ChangeScope::operator(), mails)
        };
        for (number, expected) in [(20, [2, 1]), (30, [1, 2])] {
            table.keep_customers(&[of_license(number)]).unwrap();
            let count = |number: u8| table.find_customers(&[Hex128([number; 16])].into()).len();
            assert_eq!([20, 30].map(count), expected, "{number}");
        }
        assert_eq!(table.forget_customers(&numbers(20).into_iter().collect()).unwrap(), 1);
        assert_eq!(table.forget_customers(&numbers(20).into_iter().collect()).unwrap(), 0);
        let all = fs::read_to_string(file::path_in(folder.path())).unwrap();
        assert!(
            !all.contains("anna") && all.contains("bert") && all.contains("order 1"),
            "{all}"
        );
        assert!(
            !all.contains(&Hex128([2; 16]).to_string()),
            "nothing reminds of the address"
        );
        assert_eq!(table.keep_customers(&[again]).unwrap(), numbers(21));
        drop(table);
        assert_eq!(open().find_customers(&of_number), []);
    }

    #[test]
    fn the_old_file_has_no_text_under_another_name_and_a_link_keeps_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let path = file::path_in(folder.path());
        let target = elsewhere.path().join("orders.jsonl");
        fs::write(&target, "").unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        let mut table = open_texts(folder.path(), false).unwrap();
        table.keep(&[new(1, &[1], "order 1")]).unwrap();
        let other = folder.path().join("other");
        fs::hard_link(&target, &other).unwrap();
        table.erase(&erasure(&[1], true)).unwrap().unwrap();
        assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&other).unwrap(), "");
        assert!(!fs::read_to_string(&target).unwrap().contains("order 1"));
        table.keep(&[new(2, &[2], "order 2")]).unwrap();
        assert!(fs::read_to_string(&target).unwrap().contains("order 2"));
    }

    #[test]
    fn a_torn_end_is_cut_and_every_changed_byte_is_damage_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = file::path_in(folder.path());
        let open = || open_texts(folder.path(), false);
        let mut table = open().unwrap();
        table.keep(&[new(1, &[1], "order 1")]).unwrap();
        table.keep(&[new(2, &[2], "order 2")]).unwrap();
        drop(table);
        let whole = fs::read(&path).unwrap();
        let first = whole.iter().position(|byte| *byte == b'\n').unwrap();
        for torn in [&whole[..50], &[0; 4096]] {
            fs::write(&path, [&whole[..], torn].concat()).unwrap();
            drop(open().unwrap());
            assert_eq!(fs::read(&path).unwrap(), whole);
        }
        for place in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[place] ^= 1;
            fs::write(&path, &bytes).unwrap();
            let Err(StoreError::TextsDamaged { what, .. }) = open() else {
                // Without its line feed, the last line was never acknowledged.
                assert_eq!(place, whole.len() - 1);
                continue;
            };
            let line = if place <= first { "line 1:" } else { "line 2:" };
            assert!(what.starts_with(line) && !what.contains("order"), "{place}: {what}");
        }
        let hole = [&whole[..5], &[0; 40], &whole[45..]].concat();
        for damaged in [&whole[first + 1..], &whole[1..], &hole] {
            fs::write(&path, damaged).unwrap();
            assert!(matches!(open(), Err(StoreError::TextsDamaged { .. })));
        }
    }

    #[test]
    fn nothing_is_kept_in_a_file_that_was_removed_or_replaced_and_it_may_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = file::path_in(folder.path());
        let aside = folder.path().join("aside");
        let mut table = open_texts(folder.path(), false).unwrap();
        table.keep(&[new(1, &[1], "order 1")]).unwrap();
        fs::rename(&path, &aside).unwrap();
        table.keep(&[new(2, &[2], "order 2")]).unwrap_err();
        table.keep(&[new(1, &[1], "order 1")]).unwrap_err();
        table.erase(&erasure(&[1], true)).unwrap_err();
        fs::copy(&aside, &path).unwrap();
        table.keep(&[new(2, &[2], "order 2")]).unwrap_err();
        assert_eq!(found(&table, 2), None);
        fs::rename(&aside, &path).unwrap();
        table.keep(&[new(2, &[2], "order 2")]).unwrap();
        let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{}\n").unwrap();
        assert!(table.look().is_err());
        drop(table);
        assert!(open_texts(folder.path(), false).is_err());
    }

    /// Two orders, the second of which was erased, as the program before wrote them.
    const FORMAT_1: &str = concat!(
        "{\"chain\":\"401b23293bca88a895d9dc4fd03b1df2855183ca6e62ed39a5d44bbaaeaab6ef\",\"name\":\"01010101010101010101010101010101\",\"reference\":\"order 1\",\"synced\":0}\n",
        "{\"chain\":\"9c6dab5cbd427b1b5e1d11f713fae34ab681c0b66b78799707705e3ced6736e3\",\"erased\":\"1970-01-01T00:00:07Z\",\"name\":\"02020202020202020202020202020202\",\"synced\":1}\n",
    );

    #[test]
    fn the_file_of_orders_is_converted_once_wherever_the_conversion_was_killed() {
        let expected = || {
            let erased = StoredText::Erased(at(7));
            [
                (Hex128([1; 16]), StoredText::Text("order 1".into())),
                (Hex128([2; 16]), erased),
            ]
        };
        let converted = {
            let folder = tempfile::tempdir().unwrap();
            fs::write(file::format_1_path_in(folder.path()), FORMAT_1).unwrap();
            drop(open_texts(folder.path(), true).unwrap());
            fs::read(file::path_in(folder.path())).unwrap()
        };
        let torn = &FORMAT_1.as_bytes()[..FORMAT_1.len() - 20];
        // The old file, and today's.
        for (old, new, half) in [
            (FORMAT_1.as_bytes(), None, false),
            (FORMAT_1.as_bytes(), None, true),
            (FORMAT_1.as_bytes(), Some(&converted), false),
            (b"", Some(&converted), false),
            (torn, Some(&converted), false),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = file::format_1_path_in(folder.path());
            fs::write(&path, old).unwrap();
            let other = folder.path().join("other");
            fs::hard_link(&path, &other).unwrap();
            if let Some(new) = new {
                fs::write(file::path_in(folder.path()), new).unwrap();
            }
            if half {
                fs::write(file::new_file_in(folder.path()), &converted[..50]).unwrap();
            }
            assert_eq!(read(folder.path()).unwrap(), TextsByName::from(expected()));
            let mut table = open_texts(folder.path(), true).unwrap();
            for (name, stored) in expected() {
                assert_eq!(table.find(&[name]), [(name, stored)]);
            }
            table.keep(&[new_text(2), new_text(3)]).unwrap();
            drop(table);
            assert_eq!(fs::read(&other).unwrap(), b"", "no name of the old file has a text");
            assert!(!path.exists() && !file::new_file_in(folder.path()).exists());
            let stored = read(folder.path()).unwrap();
            assert_eq!(
                (stored.len(), &stored[&Hex128([2; 16])]),
                (3, &StoredText::Erased(at(7)))
            );
        }
        let folder = tempfile::tempdir().unwrap();
        fs::write(
            file::format_1_path_in(folder.path()),
            FORMAT_1.replace("order 1", "order 2"),
        )
        .unwrap();
        assert!(matches!(
            open_texts(folder.path(), true),
            Err(StoreError::TextsDamaged { path, .. }) if path.ends_with("references.jsonl")
        ));
        assert!(!file::path_in(folder.path()).exists());
    }

    fn new_text(number: u8) -> NewText {
        new(number, &[number], "another")
    }

    #[test]
    #[ignore = "prints figures"]
    fn a_million_orders() {
        let resident = || {
            let status = fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
            line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
        };
        let folder = tempfile::tempdir().unwrap();
        let begun = resident();
        let mut all = TextsByName::new();
        for number in 0..1_000_000_u64 {
            let digest = countersign_model::digest::Digest::of(&number.to_le_bytes());
            let mut name = [0; 16];
            name.copy_from_slice(&digest.as_bytes()[..16]);
            all.insert(Hex128(name), StoredText::Text(format!("order-2026-{number:07}").into()));
        }
        let name = *all.keys().next().unwrap();
        // The table holds the same.
        let memory = resident() - begun;
        let before = std::time::Instant::now();
        let made = regular_file::create(&file::path_in(folder.path()), 0o600).unwrap();
        file::write_all(&made, all.len() as u64, all.iter()).unwrap();
        drop(made);
        let written = before.elapsed();
        drop(all);
        let before = std::time::Instant::now();
        let mut table = open_texts(folder.path(), false).unwrap();
        let loaded = before.elapsed();
        let before = std::time::Instant::now();
        let names = vec![name];
        let now = at(7);
        table
            .erase(&TextErasure {
                names,
                is_one: true,
                is_named: true,
                now,
            })
            .unwrap()
            .unwrap();
        let erased = before.elapsed();
        let bytes = fs::metadata(file::path_in(folder.path())).unwrap().len();
        countersign_model::text::stderr::line(format_args!(
            "a million orders: written in {written:?}, {} MB; loaded in {loaded:?}, {memory} MiB of memory; one erased in {erased:?}",
            bytes / 1_000_000
        ));
    }
}
