//! The spool: deliveries of shops that were answered with 200 and are not applied yet, in the node's own folder.
//!
//! A delivery has buyers' addresses, so that only the owner can read its files, and they are deleted once it is applied. Its name is
//! a digest: a delivery that comes twice is kept once, whether it waits or is parked.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::json_folder::JsonFolderError;
use crate::queue::{Queue, QueueItem, QueueState, QueueView, Queued, WholeItem};
use countersign_model::customer::CustomerAddress;
use countersign_model::digest::Digest;
use countersign_model::issued_license::Hex128;
use countersign_model::license_key::LicenseId;
use countersign_model::slug::Slug;

/// The most deliveries that wait. Shops send again what is not taken.
pub const MAX_DELIVERIES: usize = 10_000;

/// The most deliveries that are parked. They have a limit of their own, so that they do not stop those that can be applied.
const MAX_PARKED: usize = MAX_DELIVERIES;

/// The folder in the node's own.
const FOLDER: &str = "deliveries";

/// The largest body in bytes.
const MAX_BODY: u64 = 1 << 20;

/// A delivery, without its body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The first half of the SHA-256 of its shop and body.
    pub id: Hex128,
    /// The name of the shop.
    pub shop: Slug,
    /// Whether a person said that it is a sale, although nobody knows the subscription that it renews.
    #[serde(default)]
    pub is_sale: bool,
    /// Which licenses it was about to issue: their keys are owed to the buyer. Written before they are issued, so that none is
    /// forgotten, whatever happens to the server or to the licenses until the mail is in its queue. Each is a copy of a place in the
    /// sale, as the idempotency key of its license names it.
    #[serde(default)]
    pub owed: Vec<String>,
    /// What it waits for, as the last attempt found.
    #[serde(default)]
    pub waits_for: Option<AwaitedThing>,
    /// What a person said of it, because the shop does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<SaidOfDelivery>,
}

/// What a person said of a delivery that waits.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaidOfDelivery {
    /// The buyer's address, to which the keys are mailed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<CustomerAddress>,
    /// The license of the key that the shop made. The key itself is stored nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<LicenseId>,
    /// The person, as the history of the license names them.
    pub who: Box<str>,
    /// Why, for the history of the license.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Box<str>>,
}

// SECURITY: an address and a name can be erased from files, and not from a log.
impl fmt::Debug for SaidOfDelivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SaidOfDelivery(redacted)")
    }
}

/// What a delivery waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AwaitedThing {
    /// The buyer's mail address, which the shop is asked for.
    Address,
    /// The shop's answer to what the delivery does not say, such as the lines of a session.
    Answer,
    /// The first payment of an order.
    FirstPayment,
    /// The license key that the shop makes.
    Key,
    /// An offer for what was sold.
    Offer,
    /// The license that it renews: it pays for a subscription that no license has.
    RenewedLicense,
}

impl AwaitedThing {
    /// Whether it is paid for, and likely to wait until a person decides.
    pub fn is_for_person(self) -> bool {
        matches!(self, Self::Offer | Self::RenewedLicense)
    }

    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Answer => "answer of the shop",
            Self::FirstPayment => "first payment",
            Self::Key => "key",
            Self::Offer => "offer",
            Self::RenewedLicense => "license that it renews",
        }
    }
}

impl Delivery {
    /// A delivery of which nothing is done.
    pub fn new(shop: &Slug, body: &[u8]) -> Self {
        let bytes = [shop.as_str().as_bytes(), b"\n", body].concat();
        let mut id = [0; 16];
        id.copy_from_slice(&Digest::of(&bytes).as_bytes()[..16]);
        Self {
            id: Hex128(id),
            shop: shop.clone(),
            is_sale: false,
            owed: Vec::new(),
            waits_for: None,
            said: None,
        }
    }
}

impl QueueItem for Delivery {
    type Name = Hex128;

    // Every look at the queue is an attempt.
    const LONGEST_WAIT: Duration = Duration::ZERO;

    const ENDING: &str = ".delivery";

    const MAX_BODY: u64 = MAX_BODY;

    fn is_named(&self, name: Hex128, body: &[u8]) -> bool {
        self.id == name && Self::new(&self.shop, body).id == name
    }
}

/// Why a delivery is not kept, or cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// Too many wait.
    #[error("{}: {MAX_DELIVERIES} deliveries of shops wait: no more are taken", .0.display())]
    Full(PathBuf),
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] JsonFolderError),
    /// The thread that worked on it ended.
    #[error("the work on a delivery of a shop ended: {0}")]
    Stopped(String),
}

/// The folder of the queue in the node's own.
pub fn folder(store: &Path) -> PathBuf {
    store.join(FOLDER)
}

/// The deliveries of one node, as its running server knows them.
#[derive(Debug)]
pub struct Spool {
    queue: Queue<Delivery>,
    view: Mutex<QueueView<Delivery>>,
}

impl Spool {
    /// The spool in the node's own folder, which is made if it is missing.
    ///
    /// # Errors
    /// The folder cannot be made or listed.
    pub fn open(store: &Path) -> Result<Self, SpoolError> {
        let queue: Queue<Delivery> = Queue::open(folder(store))?;
        let others = queue.count_others()?;
        if others > 0 {
            let folder = queue.path().display();
            tracing::warn!(%folder, others, "files in the folder of deliveries are passed over: an older version may have left them");
        }
        let view = Mutex::new(QueueView::new(queue.clone()));
        let spool = Self { queue, view };
        spool.look(|_| {})?;
        Ok(spool)
    }

    fn view(&self) -> MutexGuard<'_, QueueView<Delivery>> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds what commands changed. `unreadable` is called with the error of each delivery that cannot be read.
    ///
    /// # Errors
    /// The folder cannot be listed.
    pub fn look(&self, unreadable: impl Fn(&JsonFolderError)) -> Result<(), SpoolError> {
        Ok(self.view().look(|_, error| unreadable(error))?)
    }

    /// How many are in this state, and when the oldest one came.
    pub fn count(&self, state: QueueState) -> (usize, Option<DateTime<Utc>>) {
        let view = self.view();
        let came = || view.in_state(state).map(|(_, queued)| queued.queued);
        (came().count(), came().min())
    }

    /// Those that wait, the oldest first.
    pub fn waiting(&self) -> Vec<Hex128> {
        let view = self.view();
        let waiting = view.in_state(QueueState::Waiting);
        let mut waiting: Vec<_> = waiting.map(|(id, queued)| (queued.queued, id)).collect();
        waiting.sort_unstable();
        waiting.into_iter().map(|(_, id)| id).collect()
    }

    /// Keeps a delivery durably, unless it is here already: waiting or parked.
    ///
    /// # Errors
    /// It is not kept: too many wait, or the disk fails.
    pub fn put(&self, shop: &Slug, received: DateTime<Utc>, body: &[u8]) -> Result<(), SpoolError> {
        let queued = Queued::new(Delivery::new(shop, body), received);
        let id = queued.item.id;
        let is_here = self.queue.has(id);
        if !is_here && self.view().count().0 >= MAX_DELIVERIES {
            return Err(SpoolError::Full(self.queue.path().to_owned()));
        }
        // Without the lock, because each waits for the disk.
        if is_here || !self.queue.put_with_body(id, &queued, body)? {
            // The same delivery may come twice at once: both are answered once it is durable.
            self.queue.sync()?;
            return Ok(());
        }
        self.view().note(id, queued);
        Ok(())
    }

    /// Reads a delivery and its body; `None` if it is gone.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    pub fn read(&self, id: Hex128) -> Result<Option<WholeItem<Delivery>>, SpoolError> {
        Ok(self.queue.read_with_body(id)?)
    }

    /// Notes durably how far a delivery is.
    ///
    /// # Errors
    /// The disk fails.
    pub fn update(&self, id: Hex128, change: impl FnOnce(&mut Delivery)) -> Result<(), SpoolError> {
        self.change(id, |mut queued| {
            change(&mut queued.item);
            Some(queued)
        })?;
        Ok(())
    }

    /// Parks a delivery durably, with a reason, which must not quote it. `tried` is its `next` when it was read: a delivery that somebody had
    /// tried again since then is not parked. Returns `false` then, and if the delivery is gone. Where too many are parked, the oldest is
    /// deleted, and the log says so.
    ///
    /// # Errors
    /// The disk fails: it waits on.
    pub fn park(&self, id: Hex128, tried: DateTime<Utc>, reason: String) -> Result<bool, SpoolError> {
        let is_parked = self.change(id, |queued| {
            (queued.next == tried).then(|| queued.refused(reason, None, Utc::now()))
        })?;
        for dropped in self.view().drop_surplus(MAX_PARKED)? {
            let delivery = dropped.item.id;
            let reason = dropped.reason.unwrap_or_default();
            tracing::error!(%delivery, reason, "{MAX_PARKED} deliveries are parked, so the oldest one was deleted: nothing of it is done");
        }
        Ok(is_parked)
    }

    /// Has parked deliveries tried again that wait for this.
    ///
    /// # Errors
    /// The disk fails, or one cannot be read.
    pub fn retry_those_for(&self, thing: AwaitedThing, now: DateTime<Utc>) -> Result<(), SpoolError> {
        let ids: Vec<Hex128> = {
            let view = self.view();
            let parked = view.in_state(QueueState::Parked);
            let awaiting = parked.filter(|(_, queued)| queued.item.waits_for == Some(thing));
            awaiting.map(|(id, _)| id).collect()
        };
        for id in ids {
            self.change(id, |queued| Some(queued.retried(now)))?;
        }
        Ok(())
    }

    fn change(
        &self,
        id: Hex128,
        change: impl FnOnce(Queued<Delivery>) -> Option<Queued<Delivery>>,
    ) -> Result<bool, JsonFolderError> {
        let changed = self.queue.change(id, change)?;
        let is_changed = changed.is_some();
        if let Some(queued) = changed {
            self.view().note(id, queued);
        }
        Ok(is_changed)
    }

    /// Deletes one that is applied.
    ///
    /// # Errors
    /// The disk fails: it is applied again, which changes nothing.
    pub fn remove(&self, id: Hex128) -> Result<(), SpoolError> {
        Ok(self.view().remove(id)?)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use chrono::TimeDelta;

    use super::*;

    fn shop() -> Slug {
        "stripe".parse().unwrap()
    }

    fn id(body: &[u8]) -> Hex128 {
        Delivery::new(&shop(), body).id
    }

    fn now() -> DateTime<Utc> {
        DateTime::from_timestamp(1_000_000, 0).unwrap()
    }

    /// How many wait and how many are parked, as far as the spool knows.
    fn counts(spool: &Spool) -> (usize, usize) {
        let count = |state| spool.count(state).0;
        (count(QueueState::Waiting), count(QueueState::Parked))
    }

    /// The names of all files of deliveries, in order.
    fn files(store: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder(store)).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_delivery_waits_owes_is_parked_and_goes_and_one_that_comes_twice_is_kept_once() {
        let store = tempfile::tempdir().unwrap();
        let spool = Spool::open(store.path()).unwrap();
        let body = b"{\n}";
        let id = id(body);
        let put = |time| spool.put(&shop(), time, body).unwrap();
        put(now());
        put(now() + TimeDelta::days(1));
        assert_eq!(files(store.path()), [format!("{id}.delivery")]);
        let file = folder(store.path()).join(format!("{id}.delivery"));
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(fs::read(&file).unwrap().ends_with(b"}\n{\n}"), "the body is as it came");
        assert_eq!(spool.waiting(), [id]);
        let kept = spool.read(id).unwrap().unwrap();
        assert_eq!((kept.queued.queued, &kept.body[..]), (now(), &body[..]));

        spool.update(id, |delivery| delivery.is_sale = true).unwrap();
        spool
            .update(id, |delivery| delivery.owed = vec!["a/0".into(), "b/7".into()])
            .unwrap();
        put(now());
        assert!(spool.park(id, now(), "no offer".to_owned()).unwrap());
        put(now());
        assert_eq!((counts(&spool), spool.waiting()), ((0, 1), vec![]));
        assert_eq!(spool.count(QueueState::Parked).1, Some(now()));

        // The command is another process.
        let queue = Queue::<Delivery>::existing(folder(store.path())).unwrap();
        let parked = queue.read(id).unwrap().unwrap();
        assert_eq!(
            (parked.state, parked.reason.as_deref()),
            (QueueState::Parked, Some("no offer"))
        );
        assert!(queue.retry(id, now()).unwrap());
        spool.look(|error| panic!("{error}")).unwrap();
        assert_eq!(spool.waiting(), [id]);
        let kept = spool.read(id).unwrap().unwrap();
        let queued = kept.queued;
        assert_eq!(kept.body, body, "the body stays");
        assert!(
            queued.item.is_sale,
            "a person decided, and its sale is missing as before"
        );
        assert_eq!(queued.item.owed, ["a/0", "b/7"], "it is still owed");
        // Somebody says something while the delivery is tried without it: it is tried again.
        let tried = queued.next;
        let later = now() + TimeDelta::seconds(1);
        let said = queue.retry_with(id, later, |delivery| delivery.is_sale = false);
        assert!(said.unwrap() && !spool.park(id, tried, "no offer".to_owned()).unwrap());
        let queued = spool.read(id).unwrap().unwrap().queued;
        assert_eq!((queued.state, queued.item.is_sale), (QueueState::Waiting, false));

        spool.remove(id).unwrap();
        assert_eq!((counts(&spool), files(store.path())), ((0, 0), vec![]));
        assert_eq!(spool.read(id).unwrap(), None);
        assert!(!spool.park(id, later, "no offer".to_owned()).unwrap());
    }

    #[test]
    fn the_oldest_is_first_and_a_full_spool_takes_deliveries_again_after_a_person_emptied_it() {
        let store = tempfile::tempdir().unwrap();
        let spool = Spool::open(store.path()).unwrap();
        spool.put(&shop(), now() + TimeDelta::seconds(1), b"{}").unwrap();
        spool.put(&shop(), now(), b"[]").unwrap();
        assert_eq!(spool.waiting(), [id(b"[]"), id(b"{}")]);
        let queued = Queued::new(Delivery::new(&shop(), b""), now());
        for number in 2..MAX_DELIVERIES as u128 {
            spool.view().note(Hex128(number.to_be_bytes()), queued.clone());
        }
        assert!(matches!(spool.put(&shop(), now(), b"1"), Err(SpoolError::Full(_))));
        assert_eq!(files(store.path()).len(), 2, "nothing is left of it");
        spool.put(&shop(), now(), b"{}").unwrap();
        Queue::<Delivery>::existing(folder(store.path()))
            .unwrap()
            .discard(id(b"{}"))
            .unwrap();
        spool.look(|error| panic!("{error}")).unwrap();
        spool.put(&shop(), now(), b"1").unwrap();
        assert_eq!(counts(&spool), (2, 0));
    }

    #[test]
    fn what_is_damaged_is_reported_and_what_an_older_version_left_stays() {
        let store = tempfile::tempdir().unwrap();
        let spool = Spool::open(store.path()).unwrap();
        for body in [&b"{}"[..], b"[]", b"1"] {
            spool.put(&shop(), now(), body).unwrap();
        }
        let folder = folder(store.path());
        let file = |of: &[u8]| folder.join(format!("{}.delivery", id(of)));
        let text = fs::read_to_string(file(b"{}")).unwrap();
        fs::write(file(b"{}"), text.replace("\n{}", "\n{ }")).unwrap();
        fs::write(file(b"[]"), "{\n[]").unwrap();
        for of in [&b"{}"[..], b"[]"] {
            let read = spool.read(id(of));
            assert!(matches!(&read, Err(SpoolError::File(JsonFolderError::Damaged(path))) if *path == file(of)));
        }
        let reported = Mutex::new(0);
        spool.look(|_| *reported.lock().unwrap() += 1).unwrap();
        assert_eq!((reported.into_inner().unwrap(), spool.waiting()), (2, vec![id(b"1")]));

        let name = "0".repeat(32);
        fs::create_dir(folder.join("parked")).unwrap();
        for file in [name.clone(), format!("{name}.early"), format!("parked/{name}.reason")] {
            fs::write(folder.join(file), "{}").unwrap();
        }
        let spool = Spool::open(store.path()).unwrap();
        assert_eq!((spool.queue.count_others().unwrap(), counts(&spool)), (3, (1, 0)));
        assert!(folder.join(format!("parked/{name}.reason")).exists());
    }

    #[test]
    fn a_delivery_that_comes_again_while_it_is_applied_is_never_lost() {
        let store = tempfile::tempdir().unwrap();
        let spool = Spool::open(store.path()).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        spool.put(&shop(), now(), b"{}").unwrap();
                    }
                });
            }
            scope.spawn(|| {
                for _ in 0..500 {
                    if spool.waiting() == [id(b"{}")] {
                        assert!(spool.read(id(b"{}")).unwrap().is_some());
                        spool.remove(id(b"{}")).unwrap();
                    }
                    std::thread::yield_now();
                }
            });
        });
        spool.put(&shop(), now(), b"{}").unwrap();
        let body = spool.read(id(b"{}")).unwrap().unwrap().body;
        assert_eq!((&body[..], files(store.path()).len()), (&b"{}"[..], 1));
    }
}
