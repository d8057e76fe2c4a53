//! The store's folder, open for writing: the ledger, which is the truth, and the index.
//!
//! A start compares the two, and updates the index from the ledger or rebuilds it. After that, each binding is
//! written to the ledger before its request is answered, and to the index soon after.

use std::collections::{BTreeSet, VecDeque};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};
use std::{fs, io};

use chrono::{DateTime, SecondsFormat, Utc};

use crate::backend::Backend;
use crate::binding_batch::BindingBatch;
use crate::checksum::BindingsChecksum;
use crate::error::{BackendError, StoreError};
use crate::index::Index;
use crate::ledger_tables::LedgerTables;
use crate::lock::{self, StoreLock};
use crate::log::file::LedgerFile;
use crate::log::record::LedgerEvent;
use crate::log::writer::LedgerWriter;
use crate::log::{LedgerEntry, Position};
use crate::recovery::{self, RecoveredLedger};
use crate::stored_reports::StoredReports;
use crate::telemetry;
use crate::texts::customer_search::CustomerSearch;
use crate::texts::table::{ReadTexts, TextTable};
use crate::texts::{ErasedText, FoundTexts, TextErasure};
use countersign_files::durable_file::{self, Access};
use countersign_model::customer::{CustomerRow, NewCustomer};
use countersign_model::issued_license::Hex128;
use countersign_model::license_table::OfLicense;

/// Bindings in one write to the index. While sled's cache is cold, a binding takes some 200 µs.
const INDEX_BATCH: usize = 128;

/// How long the store's thread writes to the index before it commits what waits.
const INDEX_TIME: Duration = Duration::from_millis(10);

/// The most bindings that wait in memory until the index is written: about 12 MB. An import adds 40,000 between two writes. If more
/// wait, the thread reads the whole ledger again, and new bindings wait meanwhile.
const UNINDEXED: usize = 65_536;

/// Bindings that a rebuilt index takes at once.
const REBUILD_BATCH: usize = 16_384;

/// How the name of an old ledger begins.
const SET_ASIDE: &str = "ledger-until-";

/// The store's folder, open for writing.
pub(super) struct StoreDisk {
    path: PathBuf,
    ledger: Mutex<LedgerWriter<LedgerFile>>,
    texts: Mutex<TextTable>,
    unindexed: Mutex<Unindexed>,
    index: Arc<Index>,
    lock: Mutex<StoreLock>,
}

/// Where a compaction writes the new ledger.
pub(super) fn new_ledger_in(path: &Path) -> PathBuf {
    path.join(".ledger.jsonl.new")
}

/// Where a compaction sets the old ledger aside. The name tells until when it was used, and sorts by that.
pub(super) fn set_aside_in(path: &Path, until: DateTime<Utc>) -> PathBuf {
    let until = until.to_rfc3339_opts(SecondsFormat::Secs, true).replace(':', "");
    path.join(format!("{SET_ASIDE}{until}.jsonl"))
}

/// Whether a file of this name was set aside.
pub(super) fn is_set_aside(name: &str) -> bool {
    name.starts_with(SET_ASIDE) && name.ends_with(".jsonl")
}

impl StoreDisk {
    /// Opens or creates the store, and reads the whole ledger.
    pub(super) fn open(path: &Path) -> Result<(Self, LedgerTables), StoreError> {
        let failed = |source| StoreError::Read {
            path: path.to_owned(),
            source,
        };
        let lock = lock::take(path, lock::PATIENCE, || lock::make_folder(path)).map_err(failed)?;
        let lock = lock.ok_or_else(|| StoreError::InUse(path.to_owned()))?;
        // Left over from a compaction that was killed; it only takes space.
        let _ = fs::remove_file(new_ledger_in(path));
        if !has_ledger(path)? {
            // The ledger first: an index without a ledger means that the ledger was lost.
            durable_file::create_new(&recovery::ledger_in(path), b"", Access::Owner).map_err(failed)?;
        }
        let known = Index::open(&index_in(path)).and_then(|index| Ok((index.position()?, index)));
        // The index and the texts are read while lines are parsed, and sorted.
        let (loaded, indexed, texts) = thread::scope(|scope| {
            let indexed = thread::Builder::new().spawn_scoped(scope, || match &known {
                Ok((_, index)) => index.checksum(),
                Err(_) => Ok(BindingsChecksum::default()),
            })?;
            let texts = thread::Builder::new().spawn_scoped(scope, || ReadTexts::of(path))?;
            let position = known.as_ref().ok().and_then(|(position, _)| *position);
            Ok((recovery::load(path, position), joined(indexed), joined(texts)))
        })
        .map_err(failed)?;
        let loaded = loaded?;
        let index = match known.and_then(|(_, index)| Ok(catch_up(&index, indexed?, &loaded)?.then_some(index))) {
            Ok(Some(index)) => index,
            unusable => {
                if loaded.found.end != loaded.found.start {
                    let reason = unusable
                        .err()
                        .map_or("it differs".to_owned(), |error| error.to_string());
                    tracing::warn!(reason, "the index does not match the ledger: rebuilding it");
                }
                rebuild(path, &loaded).map_err(failed)?
            }
        };
        index.rest();
        let file = LedgerFile::take(&recovery::ledger_in(path)).map_err(failed)?;
        let file = file.ok_or_else(|| StoreError::InUse(path.to_owned()))?;
        let mut ledger = LedgerWriter::new(file, loaded.found.end, loaded.found.length, loaded.found.torn);
        // Its name was read a moment ago.
        ledger.look().map_err(failed)?;
        if loaded.found.torn {
            let line = loaded.found.lines() + 1;
            let sequence = loaded.found.end.sequence + 1;
            tracing::warn!(
                line,
                sequence,
                "removing the end of the ledger, which was never acknowledged"
            );
            ledger.cut().map_err(failed)?;
        }
        let has_orders = loaded
            .tables
            .issued
            .held
            .iter()
            .any(|issued| issued.reference.is_some());
        let mut texts = TextTable::open(path, texts?, has_orders)?;
        // A backup may have brought them back, or the process that erased them was killed.
        let erased = loaded.tables.events.erased.numbers();
        let again = texts.forget_customers(&erased).map_err(failed)?;
        if again > 0 {
            tracing::info!(
                rows = again,
                "deleted rows of customers that the ledger says are erased"
            );
        }
        let disk = Self {
            path: path.to_owned(),
            texts: Mutex::new(texts),
            ledger: Mutex::new(ledger),
            unindexed: Mutex::new(Unindexed::new(UNINDEXED)),
            index: Arc::new(index),
            lock: Mutex::new(lock),
        };
        Ok((disk, loaded.tables))
    }

    /// Reads the ledger from where the index ends.
    fn read_unindexed(&self, limit: usize) -> io::Result<Unindexed> {
        let known = self
            .index
            .position()?
            .ok_or_else(|| io::Error::other("the index lacks its position in the ledger"))?;
        let mut unindexed = Unindexed::new(limit);
        let read = recovery::read(&self.path, |position, change| {
            if position.sequence > known.sequence {
                unindexed.add(change.map(|change| (change, position)));
            }
        });
        read.map_err(io::Error::other)?;
        Ok(unindexed)
    }

    fn append(&self, changes: &[LedgerEvent]) -> io::Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        let places = lock_mutex(&self.ledger).append(changes)?;
        lock_mutex(&self.unindexed).add(changes.iter().cloned().zip(places));
        Ok(())
    }

    /// A compacted ledger that ends at `end` replaced this one; this disk must not append any more.
    pub(super) fn was_compacted(self, end: Position) -> io::Result<()> {
        self.index.add(&[], Some(end))?;
        self.index.sync()
    }
}

impl Backend for StoreDisk {
    fn commit(&self, batch: &mut BindingBatch<'_>) -> Result<(), BackendError> {
        batch.decide(None);
        // First: a license of the ledger has its order's text.
        lock_mutex(&self.texts).keep(batch.texts())?;
        Ok(self.append(batch.appended())?)
    }

    fn find_texts(&self, names: &[Hex128]) -> Result<FoundTexts, BackendError> {
        Ok(lock_mutex(&self.texts).find(names))
    }

    fn erase_texts(&self, erasure: &TextErasure) -> Result<Option<ErasedText>, BackendError> {
        Ok(lock_mutex(&self.texts).erase(erasure)?)
    }

    fn keep_customers(&self, new: &[NewCustomer]) -> Result<Vec<Hex128>, BackendError> {
        Ok(lock_mutex(&self.texts).keep_customers(new)?)
    }

    fn find_customers(&self, numbers: &BTreeSet<Hex128>) -> Result<Vec<CustomerRow>, BackendError> {
        Ok(lock_mutex(&self.texts).find_customers(numbers))
    }

    fn customer_search(&self) -> Arc<dyn CustomerSearch> {
        lock_mutex(&self.texts).customer_search()
    }

    fn forget_customers(&self, numbers: &[Hex128]) -> Result<usize, BackendError> {
        let numbers = numbers.iter().copied().collect();
        Ok(lock_mutex(&self.texts).forget_customers(&numbers)?)
    }

    fn end(&self) -> Option<Position> {
        Some(lock_mutex(&self.ledger).end())
    }

    fn probe(&self) -> Result<(), BackendError> {
        lock_mutex(&self.ledger).probe()?;
        Ok(lock_mutex(&self.texts).probe()?)
    }

    fn look(&self) -> Result<(), BackendError> {
        lock_mutex(&self.ledger).look()?;
        lock_mutex(&self.texts).look()?;
        Ok(lock_mutex(&self.lock).renew()?)
    }

    fn catch_up(&self) -> io::Result<bool> {
        let mut unindexed = lock_mutex(&self.unindexed);
        if unindexed.next.is_empty() && unindexed.more {
            *unindexed = self.read_unindexed(unindexed.limit)?;
        }
        let next = &mut unindexed.next;
        let had_some = !next.is_empty();
        let until = Instant::now() + INDEX_TIME;
        while !next.is_empty() && Instant::now() < until {
            let count = next.len().min(INDEX_BATCH);
            let entries: Vec<_> = next.iter().take(count).map(|(entry, _)| entry.clone()).collect();
            self.index.add(&entries, Some(next[count - 1].1))?;
            next.drain(..count);
        }
        Ok(had_some)
    }

    fn write_reports(&self, reports: &telemetry::Batch) -> io::Result<()> {
        self.index.write_reports(reports)
    }

    fn sync_index(&self) -> io::Result<()> {
        self.index.sync()
    }

    fn stored_reports(&self) -> Option<Weak<dyn StoredReports>> {
        let index: Weak<Index> = Arc::downgrade(&self.index);
        Some(index)
    }
}

/// Whether there is a ledger; an error if it is missing but must exist.
pub(super) fn has_ledger(path: &Path) -> Result<bool, StoreError> {
    let ledger = recovery::ledger_in(path);
    if ledger.exists() {
        Ok(true)
    } else if index_in(path).exists() {
        Err(StoreError::Damaged {
            path: ledger,
            what: "it is missing, but its index exists".into(),
        })
    } else if path.join("db").exists() {
        Err(StoreError::Format {
            path: path.to_owned(),
            found: "1".into(),
        })
    } else {
        Ok(false)
    }
}

/// Rebuilds the index. The old one is kept until the next time.
pub(super) fn rebuild(path: &Path, loaded: &RecoveredLedger) -> io::Result<Index> {
    let index = index_in(path);
    let aside = path.join("index.damaged");
    if index.exists() {
        if aside.exists() {
            fs::remove_dir_all(&aside)?;
        }
        fs::rename(&index, &aside)?;
    }
    let index = Index::open(&index)?;
    let mut entries = Vec::with_capacity(REBUILD_BATCH);
    // Sorted by key, which is faster in sled.
    for bindings in loaded.tables.by_license.iter() {
        let license = *bindings.license_id();
        entries.extend(bindings.iter().map(|binding| LedgerEntry {
            license,
            binding: binding.clone(),
        }));
        if entries.len() >= REBUILD_BATCH {
            index.add(&entries, None)?;
            index.sync()?;
            entries.clear();
        }
    }
    // The position goes last: an index without it is incomplete.
    index.add(&entries, Some(loaded.found.end))?;
    index.sync()?;
    Ok(index)
}

pub(super) fn index_in(path: &Path) -> PathBuf {
    path.join("index")
}

/// Adds to the index what it lacks; whether it then matches the ledger.
fn catch_up(index: &Index, indexed: BindingsChecksum, loaded: &RecoveredLedger) -> io::Result<bool> {
    let lacking = match &loaded.lacking {
        Some(lacking) => &lacking[..],
        None if loaded.found.end == Position::genesis() => {
            // A new store: an index with a position is complete.
            index.add(&[], Some(loaded.found.end))?;
            index.sync()?;
            &[]
        }
        None => return Ok(false),
    };
    for batch in lacking.chunks(INDEX_BATCH) {
        let entries: Vec<_> = batch.iter().map(|(entry, _)| entry.clone()).collect();
        index.add(&entries, batch.last().map(|(_, position)| *position))?;
    }
    let indexed = if lacking.is_empty() { indexed } else { index.checksum()? };
    Ok(indexed == BindingsChecksum::of(&loaded.tables.by_license))
}

/// The result of a thread.
fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

fn lock_mutex<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bindings that are in the ledger, but not in the index yet.
struct Unindexed {
    limit: usize,
    /// The first ones, at most `limit`.
    next: VecDeque<(LedgerEntry, Position)>,
    /// Whether there are more than `next`.
    more: bool,
}

impl Unindexed {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            next: VecDeque::new(),
            more: false,
        }
    }

    /// Takes the bindings of these lines; the index has nothing else.
    fn add(&mut self, lines: impl IntoIterator<Item = (LedgerEvent, Position)>) {
        let bindings = lines
            .into_iter()
            .filter_map(|(change, at)| Some((change.binding()?, at)));
        for line in bindings {
            self.more |= self.next.len() >= self.limit;
            if !self.more {
                self.next.push_back(line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::{self, IndexState};
    use countersign_model::binding::Binding;
    use countersign_model::license_key::LicenseId;

    #[test]
    fn an_index_that_fails_for_long_takes_bounded_memory_and_is_brought_up_to_the_ledger_without_a_restart() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path();
        let index = folder.path().join("index");
        let aside = folder.path().join("aside");
        let (disk, ..) = StoreDisk::open(path).unwrap();
        lock_mutex(&disk.unindexed).limit = 10;
        fs::rename(&index, &aside).unwrap();
        fs::write(&index, "no folder").unwrap();
        for number in 0..25 {
            let binding = Binding::new("a.com".parse().unwrap(), chrono::DateTime::UNIX_EPOCH);
            disk.append(&[LedgerEvent::Bound(LedgerEntry {
                license: LicenseId::from_bytes([number; 32]),
                binding,
            })])
            .unwrap();
            disk.catch_up().unwrap_err();
        }
        assert_eq!(lock_mutex(&disk.unindexed).next.len(), 10);

        fs::remove_file(&index).unwrap();
        fs::rename(&aside, &index).unwrap();
        while disk.catch_up().unwrap() {}
        disk.sync_index().unwrap();
        drop(disk);
        let verified = reader::open(path).unwrap().verify().unwrap();
        assert_eq!((verified.index, verified.bindings), (IndexState::Agrees, 25));
    }
}
