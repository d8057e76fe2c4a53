//! A durable queue: one file for each item, in a folder that only the owner reads. The server and commands use it at the
//! same time.
//!
//! An item waits for its next attempt, or is parked: then a person has to decide. Mails, messages to webhooks and deliveries of
//! shops are such items. An item may have a body: bytes that are no JSON, in the same file, which never change.
//! [`QueueView`] is the queue as a running server knows it.

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use chrono::{DateTime, TimeDelta, Utc};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::durable_file;
use crate::folder_lock::{self, HeldLock};
use crate::json_folder::{JsonFolder, JsonFolderError};

/// How long a change waits for another one, which takes some milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a queue keeps.
pub trait QueueItem: Clone + Debug + Serialize + DeserializeOwned {
    /// The name of its file, without the ending. A queue is listed in the order of the names.
    type Name: Copy + Debug + Display + FromStr + Ord;

    /// The longest wait between two attempts.
    const LONGEST_WAIT: Duration;

    /// The ending of its file.
    const ENDING: &str = ".json";

    /// The largest body in bytes.
    const MAX_BODY: u64 = 0;

    /// Whether the file of this name, with this body, is its own.
    fn is_named(&self, name: Self::Name, body: &[u8]) -> bool;
}

/// Whether an item is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueueState {
    /// It will be tried.
    Waiting,
    /// A person has to decide.
    Parked,
}

/// An item in a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queued<T> {
    /// What waits.
    #[serde(flatten)]
    pub item: T,
    /// When it was put into the queue.
    // Files of webhooks that older versions wrote have the alias.
    #[serde(alias = "kept")]
    pub queued: DateTime<Utc>,
    /// Whether it is tried again.
    pub state: QueueState,
    /// How many attempts failed.
    pub attempts: u32,
    /// When it is tried, at the earliest.
    pub next: DateTime<Utc>,
    /// Why the last attempt failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
}

impl<T: QueueItem> Queued<T> {
    /// A new item, to be tried at once.
    pub fn new(item: T, now: DateTime<Utc>) -> Self {
        Self {
            item,
            queued: now,
            state: QueueState::Waiting,
            attempts: 0,
            next: now,
            reason: None,
        }
    }

    /// Whether it is to be tried now. A clock that was set back makes none wait longer than it ever would.
    pub fn is_due(&self, now: DateTime<Utc>) -> bool {
        let longest = TimeDelta::from_std(T::LONGEST_WAIT).unwrap_or_default();
        self.state == QueueState::Waiting && (self.next <= now || self.next - now > longest)
    }

    /// After an attempt failed: waits so long, or is parked without a wait.
    #[must_use]
    pub fn refused(self, reason: String, wait: Option<Duration>, now: DateTime<Utc>) -> Self {
        Self {
            attempts: self.attempts.saturating_add(1),
            state: match wait {
                Some(_) => QueueState::Waiting,
                None => QueueState::Parked,
            },
            next: now + TimeDelta::from_std(wait.unwrap_or_default()).unwrap_or_default(),
            reason: Some(reason),
            ..self
        }
    }

    /// After a person decided to have it tried again.
    #[must_use]
    pub fn retried(self, now: DateTime<Utc>) -> Self {
        Self {
            attempts: 0,
            state: QueueState::Waiting,
            next: now,
            ..self
        }
    }
}

/// An item and its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WholeItem<T> {
    /// The item.
    pub queued: Queued<T>,
    /// The body, byte for byte.
    pub body: Vec<u8>,
}

/// The folder of a queue.
#[derive(Clone, Debug)]
pub struct Queue<T> {
    folder: JsonFolder,
    items: PhantomData<T>,
}

impl<T: QueueItem> Queue<T> {
    /// The queue in this folder, which is made if it is missing. Deletes what killed processes left.
    ///
    /// # Errors
    /// The disk fails.
    pub fn open(path: PathBuf) -> Result<Self, JsonFolderError> {
        let folder = JsonFolder::open(path)?;
        folder.remove_leftovers()?;
        Ok(Self::in_folder(folder))
    }

    /// The queue in this folder, if there is one.
    pub fn existing(path: PathBuf) -> Option<Self> {
        JsonFolder::existing(path).map(Self::in_folder)
    }

    fn in_folder(folder: JsonFolder) -> Self {
        Self {
            folder,
            items: PhantomData,
        }
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The path of an item's file.
    pub fn file(&self, name: T::Name) -> PathBuf {
        self.path().join(file_name::<T>(name))
    }

    /// The names of all items in order, with the time of each one's last change. Other files are passed over.
    ///
    /// # Errors
    /// The folder cannot be listed.
    pub fn list(&self) -> Result<Vec<(T::Name, SystemTime)>, JsonFolderError> {
        self.folder.list(name_of::<T>)
    }

    /// The number of files in the folder that belong to no item.
    ///
    /// # Errors
    /// The folder cannot be listed.
    pub fn count_others(&self) -> Result<usize, JsonFolderError> {
        let others = self.folder.list(|file| name_of::<T>(file).is_none().then_some(()))?;
        Ok(others.len())
    }

    /// Reads an item; `None` if it is gone.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    pub fn read(&self, name: T::Name) -> Result<Option<Queued<T>>, JsonFolderError> {
        let read = self.read_with_body(name)?;
        Ok(read.map(|whole| whole.queued))
    }

    /// Reads an item and its body; `None` if it is gone.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    pub fn read_with_body(&self, name: T::Name) -> Result<Option<WholeItem<T>>, JsonFolderError> {
        let file = file_name::<T>(name);
        let Some((queued, body)) = self.folder.read_with_body::<Queued<T>>(&file, T::MAX_BODY)? else {
            return Ok(None);
        };
        match queued.item.is_named(name, &body) {
            true => Ok(Some(WholeItem { queued, body })),
            false => Err(JsonFolderError::Damaged(self.file(name))),
        }
    }

    /// Keeps a new item durably; `false` if there is one of this name.
    ///
    /// # Errors
    /// The disk fails.
    pub fn put(&self, name: T::Name, queued: &Queued<T>) -> Result<bool, JsonFolderError> {
        self.put_with_body(name, queued, &[])
    }

    /// Keeps a new item and its body durably; `false` if there is one of this name.
    ///
    /// # Errors
    /// The disk fails.
    pub fn put_with_body(&self, name: T::Name, queued: &Queued<T>, body: &[u8]) -> Result<bool, JsonFolderError> {
        self.folder.create(&file_name::<T>(name), queued, body)
    }

    /// Whether there is an item of this name, damaged or not.
    pub fn has(&self, name: T::Name) -> bool {
        self.file(name).exists()
    }

    /// Changes an item durably and returns the changed item; `None` if the item is gone, or `change` returns none. The body stays. A lock
    /// of the folder keeps other threads and processes out between reading and writing, so no change overwrites another one.
    ///
    /// # Errors
    /// The disk fails, the item is damaged, or another process holds the folder.
    pub fn change(
        &self,
        name: T::Name,
        change: impl FnOnce(Queued<T>) -> Option<Queued<T>>,
    ) -> Result<Option<Queued<T>>, JsonFolderError> {
        let _lock = self.lock()?;
        let Some(WholeItem { queued, body }) = self.read_with_body(name)? else {
            return Ok(None);
        };
        let Some(changed) = change(queued) else {
            return Ok(None);
        };
        let is_replaced = self.folder.replace(&file_name::<T>(name), &changed, &body)?;
        Ok(is_replaced.then_some(changed))
    }

    fn lock(&self) -> Result<HeldLock, JsonFolderError> {
        folder_lock::hold(self.path(), PATIENCE).map_err(|source| JsonFolderError::Io {
            path: self.path().to_owned(),
            source,
        })
    }

    /// Deletes an item that is done; `false` if it is gone. The deletion is not synced: after a loss of power the item may exist
    /// again.
    ///
    /// # Errors
    /// The disk fails.
    pub fn remove(&self, name: T::Name) -> Result<bool, JsonFolderError> {
        self.folder.remove(&file_name::<T>(name))
    }

    /// Has an item tried again at once; `false` if it is gone. A running server notices.
    ///
    /// # Errors
    /// As [`Self::change`].
    pub fn retry(&self, name: T::Name, now: DateTime<Utc>) -> Result<bool, JsonFolderError> {
        self.retry_with(name, now, |_| {})
    }

    /// Changes a parked item, and has it tried again at once; `false` if it is gone or not parked. A running server notices.
    ///
    /// # Errors
    /// As [`Self::change`].
    pub fn retry_changed(
        &self,
        name: T::Name,
        now: DateTime<Utc>,
        change: impl FnOnce(&mut T),
    ) -> Result<bool, JsonFolderError> {
        self.retry_if(name, now, |queued| queued.state == QueueState::Parked, change)
    }

    /// Changes an item, whether it waits or is parked, and has it tried again at once; `false` if it is gone. A running server notices.
    ///
    /// # Errors
    /// As [`Self::change`].
    pub fn retry_with(
        &self,
        name: T::Name,
        now: DateTime<Utc>,
        change: impl FnOnce(&mut T),
    ) -> Result<bool, JsonFolderError> {
        self.retry_if(name, now, |_| true, change)
    }

    fn retry_if(
        &self,
        name: T::Name,
        now: DateTime<Utc>,
        is_meant: impl FnOnce(&Queued<T>) -> bool,
        change: impl FnOnce(&mut T),
    ) -> Result<bool, JsonFolderError> {
        let retried = self.change(name, |mut queued| {
            if !is_meant(&queued) {
                return None;
            }
            change(&mut queued.item);
            Some(queued.retried(now))
        });
        Ok(retried?.is_some())
    }

    /// Deletes an item that a person does not want, durably; `false` if it is gone. A running server notices.
    ///
    /// # Errors
    /// The disk fails.
    pub fn discard(&self, name: T::Name) -> Result<bool, JsonFolderError> {
        let is_removed = self.remove(name)?;
        self.sync()?;
        Ok(is_removed)
    }

    /// Makes durable which items there are: what another thread or process put or deleted may not be durable yet.
    ///
    /// # Errors
    /// The disk fails.
    pub fn sync(&self) -> Result<(), JsonFolderError> {
        durable_file::sync_folder(self.path()).map_err(|source| JsonFolderError::Io {
            path: self.path().to_owned(),
            source,
        })
    }
}

fn file_name<T: QueueItem>(name: T::Name) -> String {
    format!("{name}{}", T::ENDING)
}

/// The name of the item with this file.
fn name_of<T: QueueItem>(file: &str) -> Option<T::Name> {
    file.strip_suffix(T::ENDING)?.parse().ok()
}

/// The longest tick of the clock that kernels before Linux 6.13 take the times of files from, 10 ms, with a reserve. Two changes within one
/// tick give a file one time.
const TICK: Duration = Duration::from_millis(50);

/// The time of a change, if every later change gives the file another time.
fn settled_time(changed: SystemTime, now: SystemTime) -> Option<SystemTime> {
    let age = now.duration_since(changed).ok()?;
    (age >= TICK).then_some(changed)
}

/// The items of a queue as a server knows them. It knows its own changes at once. What commands change it finds when it looks.
#[derive(Debug)]
pub struct QueueView<T: QueueItem> {
    queue: Queue<T>,
    /// Each item as it was read last, with the time of its last change; without a time, the next look reads the file again.
    known: BTreeMap<T::Name, (Option<SystemTime>, Queued<T>)>,
}

impl<T: QueueItem> QueueView<T> {
    /// Nothing is read yet.
    pub fn new(queue: Queue<T>) -> Self {
        Self {
            queue,
            known: BTreeMap::new(),
        }
    }

    /// Reads the files that changed. `unreadable` is called with each that cannot be read.
    ///
    /// # Errors
    /// The folder cannot be listed.
    pub fn look(&mut self, unreadable: impl Fn(T::Name, &JsonFolderError)) -> Result<(), JsonFolderError> {
        let mut known = BTreeMap::new();
        let now = SystemTime::now();
        for (name, changed) in self.queue.list()? {
            let queued = match self.known.remove(&name).filter(|(time, _)| *time == Some(changed)) {
                Some((_, queued)) => Some(queued),
                None => self.queue.read(name).unwrap_or_else(|error| {
                    unreadable(name, &error);
                    None
                }),
            };
            let time = settled_time(changed, now);
            known.extend(queued.map(|queued| (name, (time, queued))));
        }
        self.known = known;
        Ok(())
    }

    /// The items in this state, in the order of their names.
    pub fn in_state(&self, state: QueueState) -> impl Iterator<Item = (T::Name, &Queued<T>)> {
        let all = self.known.iter().map(|(name, (_, queued))| (*name, queued));
        all.filter(move |(_, queued)| queued.state == state)
    }

    /// The number of those that wait, and of those that are parked.
    pub fn count(&self) -> (usize, usize) {
        let waiting = self.in_state(QueueState::Waiting).count();
        (waiting, self.known.len() - waiting)
    }

    /// The names of all items in order.
    pub fn names(&self) -> impl DoubleEndedIterator<Item = T::Name> {
        self.known.keys().copied()
    }

    /// Keeps a new item durably.
    ///
    /// # Errors
    /// The disk fails.
    pub fn put(&mut self, name: T::Name, queued: Queued<T>) -> Result<(), JsonFolderError> {
        self.queue.put(name, &queued)?;
        self.note(name, queued);
        Ok(())
    }

    /// Changes an item durably, unless a person dropped it.
    ///
    /// # Errors
    /// As [`Queue::change`].
    pub fn change(
        &mut self,
        name: T::Name,
        change: impl FnOnce(Queued<T>) -> Queued<T>,
    ) -> Result<(), JsonFolderError> {
        match self.queue.change(name, |queued| Some(change(queued)))? {
            Some(queued) => self.note(name, queued),
            None => drop(self.known.remove(&name)),
        }
        Ok(())
    }

    /// Knows an own change. The file is read again at the next look, because nobody knows the time of its change.
    pub fn note(&mut self, name: T::Name, queued: Queued<T>) {
        self.known.insert(name, (None, queued));
    }

    /// Deletes an item that is done.
    ///
    /// # Errors
    /// The disk fails.
    pub fn remove(&mut self, name: T::Name) -> Result<(), JsonFolderError> {
        self.queue.remove(name)?;
        self.known.remove(&name);
        Ok(())
    }

    /// Deletes the oldest parked items where there are more than `most`, and returns them. They have a limit of their own, so
    /// that they do not stop those that can be tried.
    ///
    /// # Errors
    /// The disk fails.
    pub fn drop_surplus(&mut self, most: usize) -> Result<Vec<Queued<T>>, JsonFolderError> {
        let parked = self.in_state(QueueState::Parked);
        let mut parked: Vec<_> = parked.map(|(name, queued)| (queued.queued, name)).collect();
        parked.sort_unstable();
        let surplus = parked.len().saturating_sub(most);
        let mut dropped = Vec::new();
        if surplus == 0 {
            return Ok(dropped);
        }
        let _lock = self.queue.lock()?;
        for (_, name) in parked.into_iter().take(surplus) {
            // A person may have had it tried again a moment ago.
            let Ok(Some(queued)) = self.queue.read(name) else {
                continue;
            };
            if queued.state == QueueState::Parked {
                self.remove(name)?;
                dropped.push(queued);
            }
        }
        Ok(dropped)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    struct Number {
        number: u64,
    }

    impl QueueItem for Number {
        type Name = u64;

        const LONGEST_WAIT: Duration = Duration::from_secs(60);

        fn is_named(&self, name: u64, _: &[u8]) -> bool {
            self.number == name
        }
    }

    fn now() -> DateTime<Utc> {
        DateTime::from_timestamp(1_000_000, 0).unwrap()
    }

    /// A queue with these numbers; those of `parked` are parked.
    fn queue_of(folder: &Path, waiting: &[u64], parked: &[u64]) -> Queue<Number> {
        let queue = Queue::open(folder.to_owned()).unwrap();
        for (numbers, is_parked) in [(waiting, false), (parked, true)] {
            for number in numbers {
                let queued = Queued::new(Number { number: *number }, now() + TimeDelta::seconds(*number as i64));
                let queued = match is_parked {
                    true => queued.refused("no".to_owned(), None, now()),
                    false => queued,
                };
                assert!(queue.put(*number, &queued).unwrap());
                assert!(!queue.put(*number, &queued).unwrap(), "it is kept once");
            }
        }
        queue
    }

    #[test]
    fn items_are_read_back_in_order_and_nobody_else_reads_them() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Queue::<Number>::existing(folder.path().join("none")).is_none());
        let queue = queue_of(folder.path(), &[9, 7], &[8]);
        fs::write(folder.path().join("notes.txt"), "").unwrap();
        let numbers = |queue: &Queue<Number>| -> Vec<u64> {
            let listed = queue.list().unwrap().into_iter();
            listed.map(|(number, _)| number).collect()
        };
        assert_eq!(numbers(&queue), [7, 8, 9]);
        let mode = fs::metadata(folder.path().join("7.json")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let left = folder.path().join(".7.json.0123456789abcdef.tmp");
        fs::write(&left, "anna@example.com").unwrap();
        let queue: Queue<Number> = Queue::open(folder.path().to_owned()).unwrap();
        assert!(!left.exists(), "a killed process left it");

        assert!(queue.retry(8, now()).unwrap());
        let retried = queue.read(8).unwrap().unwrap();
        assert_eq!((retried.state, retried.attempts), (QueueState::Waiting, 0));
        assert!(queue.discard(8).unwrap() && !queue.discard(8).unwrap());
        assert!(!queue.retry(8, now()).unwrap());
        assert_eq!(queue.change(8, |_| Some(retried)).unwrap(), None);
        assert_eq!(queue.read(8).unwrap(), None, "a person dropped it");
        fs::copy(folder.path().join("7.json"), folder.path().join("6.json")).unwrap();
        fs::write(folder.path().join("9.json"), "{}").unwrap();
        for damaged in [6, 9] {
            assert!(
                matches!(queue.read(damaged), Err(JsonFolderError::Damaged(_))),
                "{damaged}"
            );
        }
        assert!(queue.discard(9).unwrap(), "also one that is damaged");
    }

    #[test]
    fn a_file_that_just_changed_is_read_again_at_the_next_look() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        let before = |ms| now - Duration::from_millis(ms);
        // A clock that was set back.
        let later = now + Duration::from_secs(60);
        for (changed, known) in [
            (before(200), Some(before(200))),
            (before(4), None),
            (now, None),
            (later, None),
        ] {
            assert_eq!(settled_time(changed, now), known);
        }
    }

    #[test]
    fn changes_that_come_at_once_are_all_done() {
        let folder = tempfile::tempdir().unwrap();
        let queue = queue_of(folder.path(), &[1], &[]);
        let attempt = || {
            for _ in 0..12 {
                let change = |queued: Queued<Number>| Some(queued.refused("no".to_owned(), None, now()));
                assert!(queue.change(1, change).unwrap().is_some());
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(attempt);
            }
        });
        assert_eq!(queue.read(1).unwrap().unwrap().attempts, 48);
    }

    #[test]
    fn the_oldest_parked_items_make_room_and_none_that_waits_or_was_retried_is_touched() {
        let folder = tempfile::tempdir().unwrap();
        let queue = queue_of(folder.path(), &[6], &[1, 2, 3, 4, 5]);
        let mut view = QueueView::new(queue.clone());
        view.look(|name, error| panic!("{name}: {error}")).unwrap();
        assert_eq!(view.count(), (1, 5));
        // The oldest is tried again before the folder is looked at again.
        queue.retry(1, now()).unwrap();
        let dropped = view.drop_surplus(2).unwrap();
        let dropped: Vec<_> = dropped.into_iter().map(|queued| queued.item.number).collect();
        assert_eq!(dropped, [2, 3]);
        view.look(|name, error| panic!("{name}: {error}")).unwrap();
        assert_eq!(
            (view.count(), view.names().collect::<Vec<_>>()),
            ((2, 2), vec![1, 4, 5, 6])
        );
    }
}
